"""What measurements say, and in which form."""
