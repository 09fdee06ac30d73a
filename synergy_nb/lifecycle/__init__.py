"""The life of an application: from the plan that is submitted to its end.

==================  ================================================================================================
:mod:`.engine`      takes each plan of an origin from its submission to its end: the door for clients (``Requests``)
:mod:`.session`     assembles what a peer does for applications: the door for the driver and messages (``Session``)
:mod:`.requests`    from submission to the decision
:mod:`.sessions`    from the commitment of components to the end
:mod:`.changes`     migration, take-over, rebuilds, sharing, succession
:mod:`.records`     what all of these read
==================  ================================================================================================

Read them in this order. ``engine`` and ``session`` import the four rooms; ``changes`` imports ``sessions``, all import
``records``, and nothing else: ``tests/test_house.py`` holds that. The states of an application, and which may follow
which, are in :mod:`synergy_nb.events.application_states`.
"""
