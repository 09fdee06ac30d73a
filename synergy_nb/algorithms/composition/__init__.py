"""Component composition by probes (dissertation, section 2.3.1; Middleware 2006, section 3.1).

Theory of operation
-------------------
A request is composed in five steps by the peer v_s at which it was submitted, its *origin*, and the peers whose
components may serve it:

1. *Probe creation.* The origin looks the candidates of all operators up in the directory, once, and sends probes to
   candidates of the sources. A probe carries the request, with the candidates, so that a hop costs no look-up.
2. *Probe processing.* A peer checks, in this order, that it offers the component, that its residual processing
capacity and
   the residual bandwidth of the link that the probe came over suffice, and that the QoS so far is within what was
   asked. If so it acknowledges upstream and reserves what the operator takes, for a time; if not it drops the probe.
3. *Propagation.* It sends probes on to candidates of each next operator.
4. *Selection.* At the destination a probe goes back to the origin, which merges the paths into complete component
graphs,
   discards those against conditions 2.1-2.4 and takes the one of least φ (equation 2.5), or a faster one that balances
   the load nearly as well.
5. *Session set-up* is the business of the application's lifecycle (:mod:`synergy_nb.lifecycle`); a graph that cannot be
   set up gives way to the next best.

Choice of candidates. The probing ratio gives the share of an operator's candidates that is probed: those that would add
least to φ, by what the directory and data that came along say they have left, or the nearest, or any. Where several
routes of a plan meet, it is decided by the request and not by the prober: all probers of such an operator pick from the
same order, so the branches of a DAG meet in the same components and their paths can be merged.

Two numbers bound the work. The *budget* of a probe is the number of paths that it may still become; it is shared out
among its children. The *weight* tells the origin when all has been heard: it starts with one unit a source, each probe
divides its weight among its children, and what is dropped or returned gives its weight back.
"""

from __future__ import annotations

from synergy_nb.algorithms.composition.messages import CompositionConfig
from synergy_nb.algorithms.composition.origin import Composition
from synergy_nb.algorithms.composition.policies import POLICIES
from synergy_nb.algorithms.composition.probing import Probing

__all__ = ["POLICIES", "Composition", "CompositionConfig", "Probing"]
