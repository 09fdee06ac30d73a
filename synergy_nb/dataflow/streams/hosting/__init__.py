"""The components and copies of one peer, as a value that maps frames and the time to effects.

The door is ``hosting``: drivers pass it frames, deployments and outcomes, and carry out the ``effects`` that it
returns.
"""
