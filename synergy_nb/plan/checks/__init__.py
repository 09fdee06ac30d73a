"""What is found out about the operators of a plan before it starts: problems, and what it would take to run it.

:mod:`.validation` is its door: it brings operators to normal form and collects all problems. :mod:`.requirements` does
so for QoS requirements, :mod:`.replica_degrees` for replicas. From the tuples that sources can give
(:mod:`.source_sizes`) follow rates and loads (:mod:`.operator_flows`) and memory (:mod:`.memory_estimates`).
"""
