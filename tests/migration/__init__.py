"""Hot spots: found before tuples miss their limits, and moved away from."""
