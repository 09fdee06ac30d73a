"""Plans as text and bytes, read and written: YAML files, Python, what peers send one another, and words for people.

:mod:`.plan_file` is the door for YAML, :mod:`.python_source` for Python, :mod:`.plan_encoding` for bytes. The SQL of
expressions is in :mod:`synergy_nb.plan.sql`, below the operators.
"""
