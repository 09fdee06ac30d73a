"""Streams as values: one log a stream, a cursor a reader, hosting that takes frames and the time and gives effects."""
