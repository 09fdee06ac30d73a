"""Flows of tuples in virtual time, without the control side of peers, for experiments and tests.

There are two kinds. :mod:`.flow` is the compiled simulator of tuples on shared peers and links (``flow_applications``
is what runs on it, ``flow_control`` and ``flow_meters`` the hot spots of chapter 3); :mod:`.workload` makes the
requests that it is given, and :mod:`.on_off` the model of bursty streams that experiments compare. :mod:`.stream_world`
and :mod:`.timed_world` are the data paths of :mod:`synergy_nb.simulator.data_paths` under a director, who deploys in
place of the peers' sessions.

As in the simulator, nobody here sees a clock or an event loop.
"""
