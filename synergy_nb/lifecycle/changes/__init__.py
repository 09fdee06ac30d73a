"""Changes of an application while it runs: other peers execute its components, or lead it, and its graph follows.

========================  ==========================================================================================
:mod:`.graph_changes`     how any change is published by the origin and adopted by the members: read it first
:mod:`.verdicts`          the failure detector has spoken: :mod:`.takeover` by backups, or :mod:`.awaited_peers`
:mod:`.lost_components`   a component has failed; :mod:`.lagging_copies`: a copy cannot take over
:mod:`.rebuilds`          another peer gets a lost replica, and its readers use it (:mod:`._rebuilt_streams`)
:mod:`.migration`         a component moves (:mod:`.movable`: which can); :mod:`.approvals` and
                          :mod:`._early_followers` save round trips to the origin
:mod:`.shared_streams`    the applications that read a stream follow its component
:mod:`.succession`        the origin has died, and its successor leads on from :mod:`.succeeded_graphs`
:mod:`.knobs`             what users change
========================  ==========================================================================================
"""
