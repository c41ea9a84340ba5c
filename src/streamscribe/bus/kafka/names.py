"""What a process is called: in leases, seats and tickets, and in what it asks for."""

import os
import secrets
import socket


def new_name() -> str:
    """Of this start of this process, and no other: containers may all be process 1 of a host of one name."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(8)}"[-64:].lstrip("-")
