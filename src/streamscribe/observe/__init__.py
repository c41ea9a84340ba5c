"""Logs without speech, metrics, health."""
