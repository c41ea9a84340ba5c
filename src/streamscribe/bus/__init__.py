"""Carries session records to workers and their events back, one contract, several adapters."""
