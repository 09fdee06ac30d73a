"""What a cell shows: short errors, what a call waits for, and what is left after a restart."""
