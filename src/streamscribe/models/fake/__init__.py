"""Deterministic stand-ins for engines: the platform's own tests and load runs need no model."""
