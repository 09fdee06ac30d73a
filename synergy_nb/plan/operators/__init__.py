"""What is stated about a kind of operator: all facts that need no tuples, one family of kinds a module.

:mod:`.catalogue` is its door: it lists the declarations of all families. :mod:`.declaration` says what a declaration
consists of, with the types of parameters in :mod:`.parameter_types` and the rules for columns in :mod:`.schemas`; the
methods of streams in :mod:`.methods` are generated. :mod:`synergy_nb.dataflow.operators` and
:mod:`spark_stream.operators` have modules with the names of the families, with the logic of peers and the form on
Spark.
"""
