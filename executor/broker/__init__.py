"""Broker: roles, messages, reviews and decisions. Empty so far."""
