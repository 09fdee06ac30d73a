"""The command ``synergy``.

Exit codes: 0 for success, 1 for a failure while something ran, 2 for wrong input, in which case nothing was started.
With ``--json`` the standard output holds one JSON value and nothing else; progress and warnings go to the standard
error.

Each command imports what it needs when it is called, so that ``synergy --help`` answers at once.
"""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer

from synergy_nb.cli._doctor_command import doctor
from synergy_nb.cli._input_checks import (
    FAILED,
    at_least,
    bad_input,
    check_detached,
    check_peer_modes,
    check_where,
    chosen_duration,
    chosen_secrets,
    chosen_spark,
    fail,
    fresh,
    load,
    parsed,
    print_json,
    refuse,
    running,
    writable,
)
from synergy_nb.cli._options import Discipline, HotSpots, Json, Peers, PlanFile, Record, Secret, Spark
from synergy_nb.cli._prepare_command import prepare
from synergy_nb.cli._profile_command import profile
from synergy_nb.cli._replay_command import replay
from synergy_nb.cli._runs_command import runs
from synergy_nb.cli._up_command import up

__all__ = ["app", "main"]

app = typer.Typer(
    name="synergy",
    help="Run queries over streams on decentralized peers, within a limit on their latency.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
plans = typer.Typer(help="Draw and check query plans in files.", no_args_is_help=True)
data = typer.Typer(
    help="List and describe real traces, download a copy, make raw ones clean, measure them.", no_args_is_help=True
)
app.add_typer(plans, name="plan")
app.add_typer(data, name="data")
data.command()(prepare)
data.command()(profile)
app.command()(replay)
app.command()(runs)
app.command()(doctor)
app.command()(up)


def main() -> None:
    """Entry point of the console script."""
    for stream in (sys.stdout, sys.stderr):  # a terminal that lacks a letter gets its escape
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except BrokenPipeError:  # the reader of the pipe has closed it, so no message can be written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", is_eager=True, help="Print the version.")] = False,
) -> None:
    if version:
        from synergy_nb import __version__

        print(__version__)
        raise typer.Exit


# -- the main job ------------------------------------------------------------------------------------------------------


@app.command()
def demo(
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A trace: HTTP log, 6-column TCP trace, CSV or Parquet, plain or gzipped."),
    ] = None,
    peers: Peers = 8,
    report: Annotated[Path, typer.Option(metavar="FILE.html", help="File of the report.")] = Path("synergy-demo.html"),
    speed: Annotated[
        float | None,
        typer.Option(
            metavar="FACTOR",
            help="Seconds of the trace replayed in a second, in the paced pass.",
            show_default="about 6 s in all",
        ),
    ] = None,
    kill: Annotated[
        bool, typer.Option("--kill", help="Kill a peer while the query runs, and show how the others react.")
    ] = False,
    spark: Spark = None,
    as_json: Json = False,
) -> None:
    """Run the papers' top-k traffic query on peers, and compare its rows with DuckDB's."""
    at_least("--peers", peers, 2 if kill else 1)
    if speed is not None and not 0 < speed < float("inf"):
        refuse(f"--speed: {speed!r}; expected a factor above 0, such as 3600 for an hour a second")
    writable("--report", report)
    where = chosen_spark(spark)
    with bad_input("--trace"):
        from synergy_experiments.demo import inputs

        given = inputs.choose(trace)
    from synergy_experiments.demo.job import run
    from synergy_experiments.demo.page import page
    from synergy_experiments.demo.printed import printed
    from synergy_nb import __version__
    from synergy_nb.cli._console import Bars, err, out

    with running(), Bars() as bars:
        outcome = run(given, peers=peers, speed=speed, kill=kill, spark=where, progress=bars)
    report.write_text(page(outcome, __version__), encoding="utf-8")
    if as_json:
        print_json(outcome.to_dict())
        err.print(f"report: {report}", markup=False, soft_wrap=True)
    else:
        printed(outcome, out)
        out.print(f"\nreport  {report}", markup=False, soft_wrap=True)
    if not outcome.check.equal:
        fail(f"the rows do not equal DuckDB's: {outcome.check.difference}")


@app.command()
def run(
    plan: PlanFile,
    peers: Annotated[
        int | None, typer.Option("--peers", metavar="N", help="Peers to start on this machine.", show_default="8")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Use the peers of this cluster, or workers of Dask (tls://host:port)."),
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure",
            help="Use a --scheduler on another machine without TLS: whoever can reach it can do what you can.",
        ),
    ] = False,
    credentials: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The file with which the owner of the cluster at --scheduler has invited you.",
            show_default=False,
        ),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Print why each operator runs on its peer.")] = False,
    placement: Annotated[
        str,
        typer.Option(
            metavar="composed|resilient",
            help="Balance the load of peers, or bear the largest set of input rates (ROD).",
        ),
    ] = "composed",
    origin: Annotated[
        str | None,
        typer.Option(
            metavar="PEER|client|source|sink|near", help="Peer at which the plan is submitted.", show_default="client"
        ),
    ] = None,
    limit: Annotated[int, typer.Option(metavar="ROWS", help="Rows of each sink to show.")] = 20,
    duration: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Stop after this time, such as '10 s'.", show_default="at the end"),
    ] = None,
    secret: Secret = None,
    out: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[SINK=]FILE", help="Write all results to a file, as its suffix says: .parquet, .csv or .jsonl."
        ),
    ] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Write a report.")] = None,
    detach: Annotated[
        bool,
        typer.Option("--detach", help="Submit to the peers at --scheduler, and end: the query goes on until stopped."),
    ] = False,
    record: Record = None,
    kept: Annotated[
        Path | None,
        typer.Option(
            "--runs", metavar="FOLDER", help="Keep the run in a folder, for synergy runs.", show_default=False
        ),
    ] = None,
    discipline: Discipline = "fcfs",
    hotspots: HotSpots = "on",
    on: Annotated[
        str,
        typer.Option(
            "--on", metavar="peers|spark", help="Run a plan over files on peers, or as one batch job on Spark."
        ),
    ] = "peers",
    spark: Spark = None,
    as_json: Json = False,
) -> None:
    """Run a query plan on peers, until its streams end, --duration is over, or Ctrl-C; or wholly on Spark."""
    of_peers = {
        "--peers": peers, "--scheduler": scheduler, "--origin": origin, "--duration": duration, "--report": report,
        "--detach": detach, "--record": record, "--runs": kept, "--insecure": insecure, "--credentials": credentials,
    }  # fmt: skip
    if check_where(on, of_peers):
        from synergy_nb.cli._whole_plan_command import run_whole

        at_least("--limit", limit, 0)
        run_whole(plan, load(plan), spark=spark, secret=secret, out=out, limit=limit, explain=explain, as_json=as_json)
        return
    if peers is not None and scheduler is not None:
        refuse(f"--scheduler: {scheduler!r} and --peers: {peers}; expected one of them")
    if scheduler is not None and "://" not in scheduler:
        refuse(f"--scheduler: {scheduler!r}; expected an address such as tls://host:8786")
    if insecure and scheduler is None:
        refuse("--insecure: expected --scheduler, too: peers that this command starts have TLS")
    if credentials is not None and scheduler is None:
        refuse("--credentials: expected --scheduler, too: peers that this command starts are your own")
    count = None if scheduler is not None else 8 if peers is None else peers
    if count is not None:
        at_least("--peers", count, 1)
    at_least("--limit", limit, 0)
    if report is not None:
        writable("--report", report)
    fresh("--record", record)
    check_detached(
        detach,
        scheduler,
        {"--duration": duration, "--out": out, "--report": report, "--record": record, "--runs": kept},
    )
    parsed = load(plan)
    from synergy_nb.cli._result_files import chosen_files
    from synergy_nb.cli._run_command import check, check_origin, execute, submit_detached

    with bad_input("--out"):
        files = chosen_files(out or [], parsed)
    for file in files.values():
        writable("--out", file)
    seconds = None if duration is None else chosen_duration("--duration", duration)
    with bad_input("--origin"):
        options = {"placement": placement, "origin": check_origin(origin, count)}
    secrets = chosen_secrets(secret)
    with bad_input(str(plan)):
        check(parsed, peers=count, secrets=secrets if scheduler is None or secrets else None)
    from synergy_nb.plan.derived.placement_modes import decider_of

    with bad_input(str(plan)):
        decider_of(parsed, placement, count)
    check_peer_modes(discipline, hotspots)
    where = chosen_spark(spark)
    from synergy_nb.cli._console import Bars
    from synergy_nb.cli._printing import show_detached, show_run, write_report
    from synergy_nb.runtime.client.cluster import Cluster

    with running(), Bars() as bars:
        bars.stage(f"connecting to {scheduler}" if scheduler is not None else "starting the peers")
        given = scheduler if scheduler is not None else count or 8
        with Cluster(
            given,
            secrets=secrets,
            discipline=discipline,
            hotspots=hotspots,
            spark=where,
            insecure=insecure,
            security=credentials,
            record=record,
            runs=kept,
        ) as cluster:
            if detach:
                detached = submit_detached(parsed, cluster, options, bars)
            else:
                found = execute(parsed, cluster, options, files, limit=limit, duration=seconds, progress=bars)
    if detach:
        show_detached(detached, as_json=as_json)
        return
    if report is not None:
        write_report(report, parsed, found)
    if as_json:
        print_json(found.to_dict(parsed, explain=explain))
    else:
        show_run(parsed, found, explain=explain)
    if found.status not in ("finished", "stopped"):
        fail(f"{found.application}: {found.status}: {found.reason}")


@app.command()
def bench(
    name: Annotated[str, typer.Argument(metavar="NAME|all", help="Name of the measurement.")],
    as_json: Json = False,
) -> None:
    """Measure this platform on this machine, and other systems at the same work."""
    from synergy_experiments.bench import suite as measurements

    names = tuple(measurements.NAMES)
    if name != "all" and name not in names:
        from synergy_nb.plan.terms.units import WrongValue, nearest

        expected = f"all, or one of {', '.join(names)}"
        refuse(f"NAME: {WrongValue(name, expected, nearest(name, (*names, 'all')))}")
    from synergy_nb.cli._console import Bars, err
    from synergy_nb.cli._printing import show_measurement

    found, failed = [], []
    for each in names if name == "all" else (name,):
        with Bars() as bars:
            duration = measurements.LONG.get(each)
            bars.stage(f"measuring {each}, {duration}" if duration else f"measuring {each}")
            try:
                found.append(measurements.run(each, progress=bars.share))
            except (RuntimeError, OSError, ImportError, TimeoutError) as error:
                failed.append(each)
                err.print(f"synergy: {each}: {error}", markup=False, style="red", soft_wrap=True)
                continue
        if not as_json:
            show_measurement(found[-1])
    if as_json:
        print_json(found if name == "all" else found[0] if found else None)
    if failed:
        fail(f"not measured: {', '.join(failed)}")


@app.command()
def reproduce(
    claims: Annotated[list[str] | None, typer.Argument(metavar="ID...|all", help="Claims, such as C5.")] = None,
    list_them: Annotated[bool, typer.Option("--list", help="List the claims, and the parameters of each.")] = False,
    scale: Annotated[str, typer.Option(metavar="quick|paper", help="Size of the set-up.")] = "quick",
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of all random numbers.")] = 1,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the set-up; may be repeated."),
    ] = None,
    repeat: Annotated[
        int | None,
        typer.Option(metavar="N", help="Number of repetitions, each with its own seed.", show_default="by claim"),
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="DIR", help="Draw the figures into this folder, as SVG.")] = None,
    processes: Annotated[int, typer.Option(metavar="N", help="Number of processes that measure.")] = 2,
    store: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the measurements of each claim to this folder.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Measure nothing: write stored results as one HTML page.")
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Stored results of the page.", show_default="those of the package"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Reproduce figures and tables of the papers: our numbers, the paper's, and a verdict."""
    at_least("--seed", seed, 0)
    at_least("--processes", processes, 1)
    if repeat is not None:
        at_least("--repeat", repeat, 1)
    for option, folder in (("--plot", plot), ("--store", store)):
        if folder is not None and folder.exists() and not folder.is_dir():
            refuse(f"{option}: {str(folder)!r}; expected a folder")
    from synergy_nb.cli import _reproduce_command as reproduce_command

    chosen, found = reproduce_command.requested(
        claims or [], settings or [], scale, or_all=list_them or page is not None
    )
    if page is not None:
        reproduce_command.write_page([claim for claim, _ in found], results, page)
    elif list_them:
        reproduce_command.show_list([claim for claim, _ in found], parameters=bool(claims), as_json=as_json)
    else:
        reproduce_command.run(
            found,
            scale=chosen,
            seed=seed,
            repeat=repeat,
            processes=processes,
            plot=plot,
            store=store,
            as_json=as_json,
        )


# -- plans -------------------------------------------------------------------------------------------------------------


@plans.command("show")
def plan_show(
    file: PlanFile,
    svg: Annotated[Path | None, typer.Option(metavar="FILE.svg", help="Draw it to a file, too.")] = None,
    as_json: Json = False,
) -> None:
    """Draw a plan, with the expected rates and loads of its operators."""
    if svg is not None:
        writable("--svg", svg)
    plan = load(file)
    if any("path" in plan.operators[each].params for each in plan.sources):
        from synergy_nb.traces.trace_sizes import sized_by_traces

        plan = sized_by_traces(plan)
    if svg is not None:
        svg.write_text(plan.to_svg(), encoding="utf-8")
    from synergy_nb.cli._printing import plan_dict, show_plan

    if as_json:
        print_json(plan_dict(plan))
    else:
        show_plan(plan)


@plans.command("check")
def plan_check(
    file: PlanFile,
    on: Annotated[
        str, typer.Option("--on", metavar="peers|spark", help="Check, too, whether it can be one job on Spark.")
    ] = "peers",
    as_json: Json = False,
) -> None:
    """Check a plan, and list all its mistakes."""
    whole = check_where(on, {})
    import msgspec

    from synergy_nb.editing.sql_queries import QueryError
    from synergy_nb.plan import PlanError

    try:
        plan = parsed(file)
        if whole:
            from spark_stream.whole_plans import check_on_spark

            said = check_on_spark(plan)
    except QueryError as error:
        if as_json:
            fields = ("line", "column", "expected", "nearest")
            print_json({"valid": False, "problems": [{name: getattr(error, name) for name in fields}]})
        refuse(f"{file}: {error}")
    except PlanError as error:
        if as_json:
            problems = [msgspec.structs.asdict(problem) for problem in error.problems]
            print_json({"valid": False, "problems": problems})
        refuse(f"{file}: {error}")
    if as_json:
        print_json({"valid": True, "problems": []} | ({"on_spark": said} if whole else {}))
    else:
        from synergy_nb.cli._console import out
        from synergy_nb.plan.terms.units import counted

        numbers = {"operator": len(plan.operators), "source": len(plan.sources), "sink": len(plan.sinks)}
        text = ", ".join(counted(number, noun) for noun, number in numbers.items())
        out.print(f"{file}: valid: {text}", markup=False, soft_wrap=True)
        if whole:
            out.print(said, markup=False, soft_wrap=True)


# -- data --------------------------------------------------------------------------------------------------------------


@data.command("list")
def data_list(as_json: Json = False) -> None:
    """List the real traces, and which of them are on this machine."""
    from synergy_nb.cli._printing import dataset_dict, show_datasets
    from synergy_nb.traces import datasets

    found = datasets.listing()
    if as_json:
        print_json([dataset_dict(each) for each in found])
    else:
        show_datasets(found)


@data.command("info")
def data_info(
    name: Annotated[str, typer.Argument(metavar="NAME|FILE", help="A trace of the list, or a file.")],
    time: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of a CSV or Parquet file that holds the event time.")
    ] = None,
    time_unit: Annotated[
        str | None,
        typer.Option(metavar="UNIT", help="Unit of times that are numbers: s, ms, us, ns, or date, as in 20260101."),
    ] = None,
    encoding: Annotated[
        str, typer.Option(metavar="NAME", help="Encoding of a text that is not in UTF-8, such as windows-1252.")
    ] = "utf-8",
    as_json: Json = False,
) -> None:
    """Print format, columns, time span and disorder of a trace."""
    from synergy_nb import traces
    from synergy_nb.cli._printing import dataset_dict, show_dataset, show_trace
    from synergy_nb.traces import datasets

    with bad_input():
        known = name in {dataset.name for dataset in datasets.DATASETS}
        if not known and not Path(name).exists() and not {"/", "."} & set(name):
            datasets.find(name)  # an unknown name: the error lists the known ones
        found = datasets.find(name) if known else None
        path = name if found is None else found.path
        holds = (
            traces.info(path, time=time, time_unit=time_unit, encoding=encoding)
            if path is not None and (found is None or found.dataset.format)
            else None
        )
    if as_json:
        import msgspec

        described = None if holds is None else msgspec.to_builtins(holds)
        print_json({"dataset": None if found is None else dataset_dict(found), "trace": described})
        return
    if found is not None:
        show_dataset(found)
    if holds is not None:
        show_trace(holds)


@data.command("fetch")
def data_fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A trace of the list.")],
    url: Annotated[str, typer.Option(metavar="ADDRESS", help="Address of your copy: http, https or file.")],
    sha256: Annotated[str | None, typer.Option(metavar="HEX", help="SHA-256 of the file, if you know it.")] = None,
    to: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the file.")] = Path("datasets"),
    as_json: Json = False,
) -> None:
    """Download a trace from an address that you state, check it, and store it if its checksum is right."""
    from synergy_nb.cli._console import Bars
    from synergy_nb.cli._printing import show_fetched
    from synergy_nb.traces import datasets

    with Bars() as bars:
        bars.stage(f"fetching {name}")

        def progress(done: int, total: int | None) -> None:
            if total:
                bars.share(done / total)

        try:
            fetched = datasets.fetch(name, url, sha256, to, progress=progress)
        except ValueError as error:
            if str(error).startswith(url):  # the error is about the downloaded file, not about the input
                fail(str(error))
            refuse(str(error))
    show_fetched(name, fetched, as_json=as_json)
