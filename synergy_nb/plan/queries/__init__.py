"""Queries as SQL: the text of a query becomes a stream of the operators that plans have.

:mod:`.query` is the door. From the bottom up: ``_query_text`` (the text, and errors by their place in it),
``_grammar`` (its clauses), ``_relations`` (a stream, and the names by which SQL knows its columns), ``_tables`` (what
follows FROM), ``_windows``, ``_ranks`` (first rows), ``_groups``, ``_overs`` (window functions), ``_conditions`` (of
joins), ``_joins`` and ``_selection`` (the clauses as operators). Expressions are those of
:mod:`synergy_nb.plan.sql`.
"""
