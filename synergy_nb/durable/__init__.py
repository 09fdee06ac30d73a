"""Durable: a copy holder that is a folder instead of a peer. A restart is a take-over from it.

See ``docs/durable.md`` for what users may rely on, and ``docs/design/durable.md`` for why it is so.
"""
