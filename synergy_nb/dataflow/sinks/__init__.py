"""Sinks to the outside: the protocol of what writes results, and the reader that drives it.

:mod:`.protocol`    what a writer does: opens, writes, commits up to a point, closes
:mod:`.writing`     the reader of a stream that has its results written, each once
"""
