"""What a cell shows, and what a user opens in it: live views, editors of plans.

:mod:`.watching` is ``watch()``, :mod:`.plan_editors` is ``edit()``, with :mod:`.plan_runs` for the clusters and
simulations on which an editor submits. Widgets and values of lower rooms do not know this room.
"""
