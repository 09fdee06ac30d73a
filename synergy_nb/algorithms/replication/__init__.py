"""Management of active replicas over wide-area networks: their deployment, utility, collection and revival.

J.-H. Hwang, U. Çetintemel, S. Zdonik. Fast and highly-available stream processing over wide area networks. ICDE 2008,
section V. The decider of plans with active replicas is :mod:`.placement`.

The modules that only compute (:mod:`.system`, :mod:`.deployment`, :mod:`.stream_replicas`, :mod:`.collection`) use the
words of the paper: a *server* is a peer, and an *application* is a reader of results, that is a sink.
"""
