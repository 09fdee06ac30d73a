"""Simulation of peers, streams and queues in virtual time."""
