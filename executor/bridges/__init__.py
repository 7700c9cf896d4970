"""Bridges: the permission hook of coding agents and the MCP server. Empty so far."""
