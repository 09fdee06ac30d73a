"""The life of an application: from the plan that is submitted to its end.

To be read in this order:

=========================  =========================================================================================
:mod:`.request`            the one record of an application, at its origin (states: ``events/application_states``)
:mod:`.requests`           the engine: submit, discover, decide, establish, end
:mod:`.alternatives`       how a plan can be run: from streams that run, on Spark (:mod:`.engine_choice`), by peers
:mod:`.decider`            who executes what: the question; :mod:`.resilient_placement` and
                           :mod:`.replica_placement` answer it, and so does ``algorithms/composition``
:mod:`.sessions`           set-up (:mod:`.commitments`), keeping (:mod:`.feedback`), and the end
:mod:`.hosted_components`  what a peer executes, and for whom; :mod:`.impact` on applications there
:mod:`.deploying`          the one instruction to a driver
:mod:`.graph_changes`      graphs that change: :mod:`.takeover`, :mod:`.migration`, and streams of others
                           (:mod:`.shared_streams`)
=========================  =========================================================================================
"""
