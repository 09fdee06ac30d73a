"""Tables that streams look up: what a plan states of one, how it is read and checked, and where this machine keeps it.

The door is :mod:`.lookup_tables`. A plan holds no rows of a table, only its columns, its size and a hash of its content
(:class:`.lookup_tables.TableTerms`); so equal tables give equal streams, wherever they come from.
"""
