"""From raw traces to clean Parquet files, by day or hour: a job on Spark that can be stopped and goes on.

``_preparing`` has the job, ``_results`` what it tells, and ``_profiling`` gives the profile of any rows. A name is
imported when it is first used: Spark's processes, which need ``_units`` alone, start in half of the time so.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from spark_stream.pipeline._preparing import prepare
    from spark_stream.pipeline._profiling import profile
    from spark_stream.pipeline._results import Prepared, PrepareError, Progress, Stage

__all__ = ["PrepareError", "Prepared", "Progress", "Stage", "prepare", "profile"]

_MODULES: Final = {"prepare": "_preparing", "profile": "_profiling"}  # the others are in `_results`


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES.get(name, '_results')}"), name)
