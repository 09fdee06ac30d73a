"""Functions of one's own: how they are declared, what a plan knows of them, and what travels to the peers.

``declaring`` is the door for authors; :mod:`.plan.terms.known_functions` finds a function by the reference of a plan.
Nothing here executes a function, but for a sample of its author's.
"""
