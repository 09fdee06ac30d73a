"""Examination of this machine: everything that a cluster of peers needs, and advice about what is missing."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import psutil

from synergy_nb.plan.terms.units import counted
from synergy_nb.traces import datasets

OLDEST: Final = (3, 11)
PACKAGES: Final = ("distributed", "polars", "pyarrow", "duckdb", "sqlglot", "msgspec", "numpy", "cryptography")
WANTED_MEMORY: Final = 1e9  # memory of 8 peers with their data, bytes
_GIGA: Final = 1e9
ARCHIVE: Final = "archive"  # name of the finding about the archive of Spark's classes


class Finding(NamedTuple):
    """The result of one check."""

    name: str  # name of the checked thing
    state: str  # `good`; `note` if it works with a restriction; or `bad`
    found: str  # text that describes what was found
    advice: str = ""  # remedy; empty if nothing is wrong


def examine(progress: Callable[[str], None] = lambda _: None, *, archive: bool = False) -> Iterator[Finding]:
    """Run all checks, the quick ones first; ``progress`` is called with a text before each slow one.

    If ``archive`` is set, the archive of Spark's classes is written, also where there is one.
    """
    yield _python()
    yield _system()
    yield from _packages()
    yield _cores()
    yield _memory()
    yield _loopback()
    yield _views()
    yield from _data()
    progress("starting 2 peers and running a query on them")
    yield _peers()
    found = java_finding()
    yield found
    if found.state != "bad":
        if archive:
            progress("writing an archive of Spark's classes, a minute or two")
        yield written_archive_finding() if archive else archive_finding()
        progress("starting a Spark server and running a query on it")
        yield spark_finding()


def _python() -> Finding:
    found = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info[:2] < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        return Finding("Python", "bad", found, f"install Python {wanted} or later")
    return Finding("Python", "good", found)


def _system() -> Finding:
    found = f"{platform.system()} {platform.release()}, {platform.machine()}"
    if not hasattr(os, "fork"):
        return Finding(
            "system", "note", found, "peers cannot be started here; use WSL, or Cluster('tls://scheduler:8786')"
        )
    return Finding("system", "good", found)


def _packages() -> Iterator[Finding]:
    missing, versions = [], []
    for package in PACKAGES:
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(package)
    if missing:
        yield Finding("packages", "bad", f"missing: {', '.join(missing)}", f"pip install {' '.join(missing)}")
    else:
        yield Finding("packages", "good", ", ".join(versions))


def _cores() -> Finding:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    load = psutil.getloadavg()[0]
    found = f"{cores}, load {load:.1f}"
    if load > 2 * cores:
        return Finding("cores", "note", found, "the machine is busy: delays will be longer and throughput lower")
    if cores < 2:
        return Finding("cores", "note", found, "one core for all peers: delays will be longer")
    return Finding("cores", "good", found)


def _memory() -> Finding:
    memory = psutil.virtual_memory()
    found = f"{memory.available / _GIGA:.1f} of {memory.total / _GIGA:.1f} GB available"
    if memory.available < WANTED_MEMORY:
        return Finding("memory", "note", found, "8 peers need about 1 GB: end other programs, or start fewer peers")
    return Finding("memory", "good", found)


def _loopback() -> Finding:
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            with socket.create_connection(("127.0.0.1", port), timeout=2.0):
                pass
    except OSError as error:
        return Finding("loopback", "bad", f"127.0.0.1: {error}", "allow connections to 127.0.0.1 (firewall, container)")
    return Finding("loopback", "good", "127.0.0.1 accepts connections")


def _views() -> Finding:
    from synergy_nb.widgets.bundled_view import BundleMissing, bundle

    try:
        bundle("qosview")
    except BundleMissing:
        advice = "make lab builds it, or python hatch_build.py; until then watch() shows text and a still picture"
        return Finding("views", "note", "the live view has not been built in this checkout", advice)
    return Finding("views", "good", "the live view has been built")


def _data() -> Iterator[Finding]:
    here = [found.dataset.name for found in datasets.listing() if found.path is not None]
    if here:
        yield Finding("data", "good", f"available: {', '.join(here)}")
    else:
        advice = "the demo generates packets; synergy data list shows which real traces exist"
        yield Finding("data", "note", "no real trace on this machine", advice)


def _peers() -> Finding:
    from synergy_nb.plan import source
    from synergy_nb.runtime.client.cluster import Cluster

    began = time.monotonic()
    try:
        with Cluster(peers=2) as cluster:
            ready = time.monotonic() - began
            query = source("packets", count=1000, speed=0).filter("link = 'B'").sink("doctor", delay="5 s")
            rows = cluster.submit(query).results().height
    except Exception as error:  # noqa: BLE001 - any error is a finding
        text = (str(error).splitlines() or [type(error).__name__])[0]
        advice = "see whether processes may be started and 127.0.0.1 is allowed; run it again with PYTHONFAULTHANDLER=1"
        return Finding("peers", "bad", text, advice)
    return Finding("peers", "good", f"2 started in {ready:.1f} s and ran a query ({counted(rows, 'row')})")


def java_finding() -> Finding:
    """Which Java runs Spark, and which were passed over."""
    from spark_stream import java

    passed_over: list[str] = []
    for candidate in java.candidates():
        if candidate.java is not None:
            found = f"{candidate.java.version} at {candidate.java.executable} ({candidate.origin})"
            if passed_over:
                return Finding(
                    "Java", "note", f"{found}; {passed_over[0]}", "set JAVA_HOME to another one, or unset it"
                )
            return Finding("Java", "good", found)
        if candidate.origin == "JAVA_HOME" and "JAVA_HOME" in os.environ:
            passed_over.append(f"not JAVA_HOME: {candidate.fault}")
    try:
        java.find()
    except java.SparkUnavailable as error:
        text, _, advice = str(error).rpartition("; ")
    return Finding("Java", "bad", text, advice)


def written_archive_finding() -> Finding:
    """Write an archive of Spark's classes for the Java that runs Spark; return what came of it."""
    from spark_stream.class_archive import ArchiveNotWritten, write
    from spark_stream.java import SparkUnavailable

    began = time.monotonic()
    try:
        path = write()
    except (ArchiveNotWritten, SparkUnavailable) as error:
        return Finding(ARCHIVE, "bad", str(error), "without it servers work, and take half as long again to start")
    return Finding(ARCHIVE, "good", f"written in {time.monotonic() - began:.0f} s: {path}")


def archive_finding() -> Finding:
    """Whether there is an archive of Spark's classes for the Java that runs Spark."""
    from spark_stream import java
    from spark_stream.launching import archive_paths

    path = archive_paths(java.find()).spark
    if path.is_file():
        return Finding(ARCHIVE, "good", f"{path.stat().st_size / 1e6:.0f} MB at {path}")
    found = "no archive of Spark's classes: servers take half as long again to start"
    return Finding(ARCHIVE, "note", found, "synergy doctor --archive writes it")


def spark_finding() -> Finding:
    """Whether a Spark server starts and runs a query."""
    from spark_stream.java import SparkUnavailable
    from spark_stream.launching import PACKAGE, spark_home
    from spark_stream.server import Server

    try:
        home = spark_home()
        version = importlib.metadata.version("pyspark")
        with Server() as server:
            began = time.monotonic()
            endpoint = server.ready()
            ready = time.monotonic()
            from spark_stream.session import connect, disconnect

            session = connect(endpoint)
            opened = time.monotonic()
            rows = session.range(1000).filter("id % 2 = 0").count()
            disconnect(session)
    except SparkUnavailable as error:
        text, _, advice = str(error).rpartition("; ")
        return Finding("Spark", "bad", text or advice, advice if text else "")
    except Exception as error:  # noqa: BLE001 - any error is a finding, as above
        text = (str(error).splitlines() or [type(error).__name__])[0]
        return Finding("Spark", "bad", text, f"pip install --force-reinstall {PACKAGE}")
    found = f"{version} at {home}: a server was ready in {ready - began:.1f} s and a session in {opened - ready:.1f} s"
    return Finding("Spark", "good", f"{found}, and it ran a query ({counted(rows, 'row')})")
