"""Declarations of operators, one family per module: all facts about a kind of operator that need no tuples.

:mod:`synergy_nb.plan.catalogue` lists them. :mod:`synergy_nb.dataflow.operators` and :mod:`spark_stream.operators` have
modules of the same names, with the logic of peers and the form on Spark.
"""
