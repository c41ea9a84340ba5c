"""One file per foreign protocol, each a pure translator between its messages and core.messages."""
