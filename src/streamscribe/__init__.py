"""StreamScribe: FunASR-family speech recognition, fit for production."""

__version__ = "0.1.0"
