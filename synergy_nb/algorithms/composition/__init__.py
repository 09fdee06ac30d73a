"""Component composition by probes (dissertation, section 2.3.1; Middleware 2006, section 3.1).

Theory of operation
-------------------
A request is composed in five steps by the peer v_s at which it was submitted, its *origin*, and the peers whose
components may serve it:

1. *Probe creation.* The origin looks the candidates of all operators up in the directory, once, and sends probes to
   candidates of the sources. A probe carries the request, with the candidates, so that a hop costs no look-up.
2. *Probe processing.* A peer checks, in this order, that it offers the component, that its residual processing capacity
   and the residual bandwidth of the link over which the probe arrived suffice, and that the QoS of the path so far is
   within the limits. If so, it acknowledges the probe upstream and reserves the operator's resources for a time; if
   not, it drops the probe and reports that to the origin.
3. *Propagation.* It sends probes to candidates of each next operator.
4. *Selection.* The destination returns a probe to the origin. The origin merges the paths into complete component
   graphs, discards those that violate conditions 2.1-2.4, and chooses the graph of least φ (equation 2.5), or a faster
   one that balances the load nearly as well.
5. *Session set-up* belongs to the lifecycle (:mod:`synergy_nb.lifecycle`). If a graph cannot be set up, the next best
   is tried.

*Choice of candidates.* The probing ratio is the share of an operator's candidates that is probed: those that would add
least to φ according to the directory and to recent reports of free cores, or the nearest, or random ones. Where several
routes of a plan meet, the request alone determines the choice: all peers that probe such an operator choose from the
same order. So the branches of a DAG meet in the same components, and their paths can be merged.

*Two numbers bound the work.* The *budget* of a probe is the number of paths that it may still become; it is divided
among its children. By the *weight*, the origin knows when all probes have ended: it starts with one unit for each
source, each probe divides its weight among its children, and each dropped or returned probe gives its weight back.
"""

from __future__ import annotations

from synergy_nb.algorithms.composition._origin import Composition
from synergy_nb.algorithms.composition._policies import POLICIES
from synergy_nb.algorithms.composition._probing import Probing
from synergy_nb.algorithms.composition.messages import CompositionConfig

__all__ = ["POLICIES", "Composition", "CompositionConfig", "Probing"]
