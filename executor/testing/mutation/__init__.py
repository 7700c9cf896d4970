"""Mutation: break a rule on purpose, in a copy, and see the tests that name it go red."""
