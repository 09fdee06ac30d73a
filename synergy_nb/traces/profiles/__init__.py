"""Profiles of traces: rates, bursts, seasons, tails, skew, selectivities, windows, disorder and drift.

``trace_profile`` has the profile, ``_values`` its parts, ``surveys`` what is kept of rows that pass, and ``profiling``
how the one follows from the other.
"""
