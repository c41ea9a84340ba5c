"""Encodes audio before it is admitted to a language model, once per distinct audio."""
