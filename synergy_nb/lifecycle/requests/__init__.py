"""From the submission of a plan to the decision which peers execute it; :mod:`~synergy_nb.lifecycle.engine` calls it.

==============================  ====================================================================================
:mod:`.submission`              checks before a plan is sent; :mod:`.origins` chooses the peer that is to lead it
:mod:`.alternatives`            how a plan can be run: from streams that run, on Spark (:mod:`._engine_choice`), by
                                peers
:mod:`.decider`                 the interface of the algorithms that decide: ``algorithms/composition``,
                                ``algorithms/replication``, :mod:`.resilient_placement`, :mod:`.replica_placement`
:mod:`.selection_conditions`    what a complete graph has to meet
:mod:`.claims`                  which of several requests composes a stream that all of them want
:mod:`.client_leases`           the end of an application whose client is not heard of any more
==============================  ====================================================================================
"""
