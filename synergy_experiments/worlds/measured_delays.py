"""Delays between the peers of an experiment: those measured between PlanetLab hosts, or those of a generated network.

A set-up names what it ran with: where the matrix is missing, the parameter ``network`` is ``transit-stub`` by default,
in what is printed and stored, too, and ``--set network=measured`` is an error before anything starts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from synergy_experiments.framework.parameters import Parameter, Setup, Value, choice
from synergy_nb.plan.units import WrongValue
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
        if value == MEASURED and not _available():
            raise WrongValue(
                text, f"{GENERATED}, as the delays are not on this machine: `synergy data fetch {MATRIX}` gets them"
            )
        return value

    def usable(value: Value) -> Value:
        return value if value != MEASURED or _available() else GENERATED

    return replace(names, read=read, usable=usable)


def matrix_path(setup: Setup) -> str:
    """Path of the matrix of measured delays; empty where the network is generated."""
    path = datasets.find(MATRIX).path
    return path if path is not None and setup["network"] == MEASURED else ""


def _available() -> bool:
    return datasets.find(MATRIX).path is not None
