"""Speaks the native protocol to a server: for the command line, measurements and tests."""
