"""Streams as values: one log for each stream, a cursor for each reader; hosting maps frames and the time to effects."""
