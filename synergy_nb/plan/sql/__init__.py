"""SQL expressions: the subset that predicates, projections and aggregate calls may use.

:mod:`.sql` is its door: it parses and checks an expression and writes its canonical text. Engines execute expressions
by :mod:`.sql_translation`. The room is below the operators, as types of their parameters are expressions.
"""
