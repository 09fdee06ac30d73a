"""One component that executes: its inputs, its output, the order in which it reads, its snapshots and its measurements.

The door is ``component``. It knows no other component; what several have to agree upon is in ``hosting``.
"""
