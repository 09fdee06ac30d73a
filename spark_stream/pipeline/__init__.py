"""From raw traces to clean Parquet files, by day or hour: a job on Spark that can be stopped and goes on.

``_preparing`` has the job, ``_results`` what it tells, and ``_profiling`` gives the profile of any rows.
"""

from __future__ import annotations

from spark_stream.pipeline._preparing import prepare
from spark_stream.pipeline._profiling import profile
from spark_stream.pipeline._results import Prepared, PrepareError, Progress, Stage

__all__ = ["PrepareError", "Prepared", "Progress", "Stage", "prepare", "profile"]
