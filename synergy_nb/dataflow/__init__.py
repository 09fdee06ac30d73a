"""The data path: tuples on the wire and in memory, operators on them, and the queues of a peer's components."""
