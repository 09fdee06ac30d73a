"""Query plans: built in Python, read from YAML, and validated before anything starts.

:mod:`.builder` holds what users write, :mod:`.query_plan` the plan itself, :mod:`._stream_names` the names of its
streams, :mod:`.data_frames` its tables. From the bottom up, its rooms are ``terms`` (quantities, names, QoS), ``sql``
(expressions), ``operators`` (what is stated about each kind), ``checks`` (all problems of a plan, and what it would
take), ``text`` (YAML, Python, bytes) and, above the plan, ``derived`` (the plans that are made of it) and ``queries``
(streams of queries in SQL).

The package is also the function :func:`plan`, which makes one plan of several results:

>>> from synergy_nb import plan, source
>>> packets = source("packets")
>>> large, small = packets.filter("bytes > 1000").sink("large"), packets.filter("bytes < 100").sink("small")
>>> plan(large, small, delay="2 s").sinks
('sink', 'sink_2')
"""

from __future__ import annotations

import importlib
import inspect
import sys
from types import ModuleType
from typing import Any

from synergy_nb.plan.builder import Stream, plan, source
from synergy_nb.plan.checks.validation import Operator, PlanError, Problem
from synergy_nb.plan.operators.parameter_types import parse_window
from synergy_nb.plan.query_plan import Plan
from synergy_nb.plan.terms.qos import QoS
from synergy_nb.plan.text.plan_encoding import FORMAT

__all__ = ["FORMAT", "Operator", "Plan", "PlanError", "Problem", "QoS", "Stream", "parse_window", "plan", "source"]


class _CallablePackage(ModuleType):
    """This package, which is also the function :func:`plan`.

    ``from synergy_nb import plan`` gives the name of the package. If the function took that name in ``synergy_nb``,
    ``import synergy_nb.plan.query_plan as q`` would search the function for the module.
    """

    __signature__ = inspect.signature(plan)

    def __call__(self, *arguments: Any, **options: Any) -> Plan:
        return plan(*arguments, **options)

    def __reduce__(self) -> tuple[Any, ...]:
        # as a module is pickled; a function of a user's own that makes plans may go to other processes
        return importlib.import_module, (self.__name__,)


sys.modules[__name__].__class__ = _CallablePackage
