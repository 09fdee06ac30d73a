"""What follows from a plan: the plans that are made of it, and how it can be placed and replicated.

In the plan that is composed, each active replica is an operator of its own (:mod:`.active_replicas`), a part on Spark
is one operator (:mod:`.spark_parts`), and streams that run already replace their producers (:mod:`.stream_sharing`).
"""
