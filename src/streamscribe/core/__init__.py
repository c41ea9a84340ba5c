"""Decisions only: pure state machines and ledgers, no I/O, no clock, no third party."""
