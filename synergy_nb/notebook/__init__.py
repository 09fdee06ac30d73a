"""What a cell shows: live views, editors of plans, errors in their short form, and what a call is waiting for.

:mod:`.watching` is ``watch()``, :mod:`.plan_editors` is ``edit()``, with :mod:`._plan_runs` for the clusters and
simulations on which an editor submits. Lower rooms do not know this one: they ask for a view by
:mod:`synergy_nb.drawing.notebook_views`, and :mod:`.views` lists which function makes each.
"""
