"""Delays between the peers of an experiment: those measured between PlanetLab hosts, or those of a generated network.

A set-up names what it ran with: where the matrix is missing, or a file of its name has other contents, the parameter
``network`` is ``transit-stub`` by default, in what is printed and stored, too, and ``--set network=measured`` is an
error before anything starts.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from synergy_experiments.framework.parameters import Parameter, Setup, Value, choice
from synergy_nb.plan.terms.units import WrongValue
from synergy_nb.traces import datasets

__all__ = ["matrix_path", "network"]

MATRIX: Final = "planetlab-rtt"  # name of the data set
MEASURED: Final = "measured"
GENERATED: Final = "transit-stub"


def network() -> Parameter:
    """Declare the parameter ``network``: ``measured`` where the matrix is available, else ``transit-stub``."""
    names = choice("delays between peers: measured, or of a transit-stub network", [MEASURED, GENERATED])

    def read(text: str) -> Value:
        value = names.read(text)
        if value == MEASURED and (missing := _missing()):
            raise WrongValue(text, f"{GENERATED}, as {missing}: `synergy data fetch {MATRIX}` gets them")
        return value

    def usable(value: Value) -> Value:
        return value if value != MEASURED or not _missing() else GENERATED

    return replace(names, read=read, usable=usable)


def matrix_path(setup: Setup) -> str:
    """Path of the matrix of measured delays; empty where the network is generated."""
    path = datasets.find(MATRIX).path
    return path if path is not None and setup["network"] == MEASURED else ""


def _missing() -> str:
    """Return why there are no measured delays; empty if there are."""
    found = datasets.find(MATRIX)
    if found.path is None:
        return "the delays are not on this machine"
    own = _checksum(found.path, Path(found.path).stat().st_mtime_ns)
    return "" if own == found.dataset.sha256 else f"{Path(found.path).name!r} has other contents than those measured"


@lru_cache(maxsize=4)
def _checksum(path: str, _changed: int) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
