"""The life of an application: from the plan that is submitted to its end.

Read the modules in this order:

=========================  =========================================================================================
:mod:`.submission`         the checks of a submission before it is sent; :mod:`.origins` chooses the origin
:mod:`.request`            the one record of an application, at its origin (states: ``events/application_states``)
:mod:`.requests`           the engine: submit, discover, decide, establish, end
:mod:`.alternatives`       how a plan can be run: from streams that run, on Spark (:mod:`.engine_choice`), by peers
:mod:`.decider`            the interface of the algorithms that decide which peer executes which operator;
                           ``algorithms/composition``, :mod:`.resilient_placement` and :mod:`.replica_placement`
                           implement it
:mod:`.sessions`           set-up (:mod:`.commitments`), lease (:mod:`.feedback`), and end of an application; its
                           :mod:`.messages`, and the record of each peer that takes part (:mod:`.members`)
:mod:`.hosted_components`  the components of a peer and their users; :mod:`.impact` projects the QoS of these users
:mod:`.deploying`          the one instruction to a driver
:mod:`.graph_changes`      changes of the graph of a running application: :mod:`.takeover` after a death,
                           :mod:`.migration` on request, :mod:`.rebuilds` of lost active replicas,
                           :mod:`.shared_streams` when a producer of another application moves
:mod:`.lost_components`    reports of components that failed; :mod:`.lagging_copies`: of copies that cannot take over
:mod:`.knobs`              what users change while applications run
=========================  =========================================================================================
"""
