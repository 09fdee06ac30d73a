"""A session: what the peers of an application do from the commitment of its components to its end.

======================  ============================================================================================
:mod:`.participation`   a peer joins an application by a graph, refuses outdated messages, and leaves in the end
:mod:`.commitments`     peers commit and deploy what they are to execute, if its :mod:`.impact` on others allows that
                        and the origins of these agree (:mod:`.agreements`)
:mod:`.deploying`       the one instruction of a peer to its driver
:mod:`.feedback`        what the origin tells the members once a second; :mod:`.leases`: a member that hears nothing
:mod:`.sink_reports`    what members tell the origin: delays and ends of sinks; :mod:`.skipped_lines` of sources
======================  ============================================================================================

What changes the graph of a session while it runs is in :mod:`~synergy_nb.lifecycle.changes`.
"""
