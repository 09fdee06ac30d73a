"""The life of an application: from the plan that is submitted to its end.

To be read in this order:

=======================  ===========================================================================================
:mod:`.request`          the one record of an application, at its origin; its states are in :mod:`synergy_nb.states`
:mod:`.requests`         the engine: submit, discover, decide, establish, end
:mod:`.ways`             ways to run a plan: from streams that run, on Spark (:mod:`.engines`), by peers alone
:mod:`.deciding`         who executes what: the question, and who answers it (:mod:`.resilient`, :mod:`.replicated`)
:mod:`.sessions`         set-up (:mod:`.committing`), keeping (:mod:`.feedback`), and the end
:mod:`.components`       what a peer executes, and for whom; :mod:`.impact` on applications there
:mod:`.deploying`        the one instruction to a driver
:mod:`.changing`         graphs that change: :mod:`.takeover`, :mod:`.moving`, and streams of others (:mod:`.sharers`)
=======================  ===========================================================================================
"""
