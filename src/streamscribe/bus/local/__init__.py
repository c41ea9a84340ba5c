"""The bus of one machine: a gateway process and its worker processes, joined by Unix sockets."""
