"""Formulas without peers: queues, projected delays, slack, predicted times and rates, signatures, overheads."""
