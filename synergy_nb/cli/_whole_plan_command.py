"""``synergy run --on spark``: a plan over files as one batch job on Spark."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from synergy_nb.cli._input_checks import bad_input, chosen_secrets, fail, print_json, refuse
from synergy_nb.plan import Plan
from synergy_nb.plan.terms.units import counted


def run_whole(
    file: Path,
    plan: Plan,
    *,
    spark: str | None,  # URL of a server
    secret: list[str] | None,
    out: list[str] | None,
    limit: int,  # number of rows of each sink to show
    explain: bool,
    as_json: bool,
) -> None:
    """Run a plan as one batch job on Spark, and print its results."""
    from spark_stream.java import SparkUnavailable
    from spark_stream.whole_plans import SparkJobFailed, check_on_spark, run_on_spark, stream_of
    from synergy_nb.cli._console import Bars, fields
    from synergy_nb.cli._console import out as console
    from synergy_nb.cli._printing import show_rows
    from synergy_nb.cli._result_files import chosen_files
    from synergy_nb.cli._run_command import SinkOutput, plain_rows
    from synergy_nb.dataflow.sinks.protocol import SinkFailed
    from synergy_nb.runtime.client.result_files import ResultFile

    with bad_input("--out"):
        files = chosen_files(out or [], plan)
    for sink, path in files.items():
        if plan.operators[sink].params.get("to") is not None:
            refuse(f"--out: {str(path)!r}; expected a sink without a destination, and {sink} has one")
    if spark == "off":
        refuse("--spark: 'off' and --on spark; expected one of them")
    given = chosen_secrets(secret)
    with bad_input(str(file)):
        said = check_on_spark(plan, spark=spark)
    outputs = {sink: SinkOutput(limit) for sink in plan.sinks if plan.operators[sink].params.get("to") is None}
    with Bars() as bars, bad_input(str(file)), contextlib.ExitStack() as left:
        bars.stage("running as one batch job on Spark")
        try:
            for sink, path in files.items():
                written = outputs[sink].file = ResultFile(path, plan.schema(sink), stream_of(plan, sink))
                left.callback(written.abandon)
            found = run_on_spark(plan, spark=spark, secrets=given, into={name: it.add for name, it in outputs.items()})
            left.pop_all()
            for output in outputs.values():
                if output.file is not None:
                    output.file.close(complete=True, ended=True)
        except (SparkUnavailable, SparkJobFailed, SinkFailed, OSError) as error:
            fail(str(error))
    if as_json:
        facts: dict[str, Any] = {
            "plan": plan.name,
            "status": "finished",
            "seconds": found.seconds,
            "waited_for_spark_s": found.waited,
            "results": {
                sink: {"rows": rows}
                | ({"sample": plain_rows(outputs[sink].table)} if sink in outputs else {})
                | ({"file": str(files[sink])} if sink in files else {})
                for sink, rows in found.rows.items()
            },
            "notices": found.notices,
        }
        print_json(facts | ({"explanation": said} if explain else {}))
        return
    for sink, output in outputs.items():
        console.print(f"\n{plan.operators[sink].params['name']}: {counted(output.count, 'row')}", style="bold")
        show_rows(output.table, output.count)
    console.print()
    rows = [("status", "finished"), ("runs on", "Spark, as one batch job"), ("ran", f"{found.seconds:.1f} s")]
    rows += [("file", f"{path}: {counted(found.rows[sink], 'row')}") for sink, path in files.items()]
    rows += [("left out", notice) for notice in found.notices]
    fields(rows)
    if explain:
        console.print(f"\n{said}", markup=False, soft_wrap=True)
