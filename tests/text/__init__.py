"""Tests of what happens to text after a model."""
