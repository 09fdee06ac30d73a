"""The terms in which a plan is stated: quantities with units, names, QoS requirements, availability.

:mod:`.units` is its door for everyone who reads or writes a quantity. Nothing here knows what an operator is.
"""
