"""The edge: listener, connections, REST, authentication, draining."""
