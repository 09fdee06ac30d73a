"""The life of an application: from the plan that is submitted to its end.

Read the modules in this order:

=========================  =========================================================================================
:mod:`.request`            the one record of an application, at its origin (states: ``events/application_states``)
:mod:`.requests`           the engine: submit, discover, decide, establish, end
:mod:`.alternatives`       how a plan can be run: from streams that run, on Spark (:mod:`.engine_choice`), by peers
:mod:`.decider`            the interface of the algorithms that decide which peer executes which operator;
                           ``algorithms/composition``, :mod:`.resilient_placement` and :mod:`.replica_placement`
                           implement it
:mod:`.sessions`           set-up (:mod:`.commitments`), lease (:mod:`.feedback`), and end of an application
:mod:`.hosted_components`  the components of a peer and their users; :mod:`.impact` projects the QoS of these users
:mod:`.deploying`          the one instruction to a driver
:mod:`.graph_changes`      changes of the graph of a running application: :mod:`.takeover` after a death,
                           :mod:`.migration` on request, :mod:`.shared_streams` when a producer of another application
                           moves; :mod:`.lagging_copies` reports copies that cannot take over
=========================  =========================================================================================
"""
