"""A cold run of the top pairs in a process of its own.

``python -m synergy_experiments.bench.cold_spark WAY FILE FORM`` prints a JSON object with the seconds since the process
began, imports included, and the number of rows. ``WAY`` is ``ours``, or how a session of PySpark by hand begins:
``classic`` or ``connect``.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import psutil

__all__: list[str] = []


def _taken(way: str, path: Path, form: str) -> dict[str, Any]:
    """Run the query here."""
    began = psutil.Process().create_time()
    if way == "ours":
        from spark_stream.whole_plans import run_on_spark  # noqa: PLC0415 - imports are part of what is measured
        from synergy_experiments.bench.spark import top  # noqa: PLC0415

        run = run_on_spark(top(path, spark=(), others="auto", form=form))
        return {
            "seconds": round(time.time() - began, 3),
            "rows": run.results().height,
            "waited_s": round(run.waited, 3),
        }
    from pyspark.sql import SparkSession  # noqa: PLC0415

    builder: Any = SparkSession.builder
    session = (builder.master("local[2]") if way == "classic" else builder.remote("local[2]")).getOrCreate()
    ready = time.time()
    from synergy_experiments.bench.spark import in_plain_batch  # noqa: PLC0415 - its user has no such import

    imported = time.time()
    rows = in_plain_batch(session, path, form)
    session.stop()
    return {"seconds": round(time.time() - began - (imported - ready), 3), "rows": rows.height}


if __name__ == "__main__":
    _, asked, file, kind = sys.argv
    sys.stdout.write(f"{json.dumps(_taken(asked, Path(file), kind))}\n")
