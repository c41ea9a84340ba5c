"""OpenAI's audio API: files in, transcripts out, each request a session of the hub."""

from streamscribe.gateway.rest.api import routes

__all__ = ["routes"]
