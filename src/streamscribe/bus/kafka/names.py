"""What a process is called, in leases and in what it asks for."""

import os
import secrets
import socket


def new_name() -> str:
    """Of this process, and no other: also of none before it that had its number."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(8)}"
