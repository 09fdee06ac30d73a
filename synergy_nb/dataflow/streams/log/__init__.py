"""The log of a stream, and what a reader receives of it: pure values and their encoding.

From the bottom up: ``values`` (points, chunks), ``log`` (what is retained, and the progress of each reader), ``merge``
(the receiving side), ``frames`` and ``wire`` (what travels between peers). It imports no other room of ``streams``.
"""
