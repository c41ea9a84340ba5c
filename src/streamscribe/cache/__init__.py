"""Keeps what was computed once, in memory, on disk and in Redis: bounded, and apart by tenant."""
