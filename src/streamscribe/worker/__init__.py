"""Turns a session's audio into results: voice activity, partials, finals."""
