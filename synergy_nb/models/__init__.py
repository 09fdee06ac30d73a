"""Formulas without peers: queues, projected delays, execution times by load, signatures of streams, overheads."""
