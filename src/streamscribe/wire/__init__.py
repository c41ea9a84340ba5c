"""Bytes to core types and back, pure: the native protocol, REST schemas, foreign dialects."""
