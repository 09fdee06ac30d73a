"""Declarations of operators, one family a module: all that is known of a kind of operator without a tuple at hand.

:mod:`synergy_nb.plan.catalogue` gathers them; logic and forms on Spark are in families of the same names,
:mod:`synergy_nb.dataflow.operators` and :mod:`spark_stream.operators`.
"""
