"""Streams as values: one log for each stream, a cursor for each reader; hosting maps frames and the time to effects.

Four rooms, whose imports point down: ``hosting`` (the components and copies of a peer), ``component`` (one of them),
and below it ``replicas`` (what it reads in place of its inputs) and ``log`` (what is retained, received and sent).
"""
