"""Gateways and workers on many machines, over Kafka and Redis: each process its own role."""
