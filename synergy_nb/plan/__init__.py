"""Query plans: built in Python, read from YAML, and validated before anything starts.

``builder`` holds what users write, ``query_plan`` the plan itself, ``validation`` finds all of its problems.
``operators`` declares all operators, with the types of parameters in ``parameter_types`` and the rules for
columns in ``schemas``; ``catalogue`` lists them, and ``methods`` is generated from them. ``plan_file`` reads and
writes YAML, ``plan_encoding`` bytes; ``sql`` and ``sql_types`` are the subset of SQL for expressions, ``units`` the
quantities.

The package is also the function :func:`plan`, which makes one plan of several results:

>>> from synergy_nb import plan, source
>>> packets = source("packets")
>>> large, small = packets.filter("bytes > 1000").sink("large"), packets.filter("bytes < 100").sink("small")
>>> plan(large, small, delay="2 s").sinks
('sink', 'sink_2')
"""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any

from synergy_nb.plan.builder import Stream, plan, source
from synergy_nb.plan.parameter_types import parse_window
from synergy_nb.plan.plan_encoding import FORMAT
from synergy_nb.plan.qos import QoS
from synergy_nb.plan.query_plan import Plan
from synergy_nb.plan.validation import Operator, PlanError, Problem

__all__ = ["FORMAT", "Operator", "Plan", "PlanError", "Problem", "QoS", "Stream", "parse_window", "plan", "source"]


class _CallablePackage(ModuleType):
    """This package, which is also the function :func:`plan`.

    ``from synergy_nb import plan`` gives the name of the package. If the function took that name in ``synergy_nb``,
    ``import synergy_nb.plan.query_plan as q`` would search the function for the module.
    """

    __signature__ = inspect.signature(plan)

    def __call__(self, *arguments: Any, **options: Any) -> Plan:
        return plan(*arguments, **options)


sys.modules[__name__].__class__ = _CallablePackage
