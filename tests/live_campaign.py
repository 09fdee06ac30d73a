"""Break a network of real peers, again and again, and see whether anybody who reads from it can tell.

    python -m tests.live_campaign [--tries 500] [--seed 1] [--file build/live_campaign.jsonl] [--only LINE]

It is no part of the suite, as it takes long, and needs root. Peers are those of ``Cluster``, each in a network
namespace of its own (:mod:`tests.packet_switch`). A try submits an application whose rows this process pushes, so that
it knows which ones were accepted and when; meanwhile faults strike, as its seed has drawn them: what a try does is a
value (:class:`Try`), which its line in the file has, and which ``--only`` runs once more.

When all is quiet again, the rows have to be those of a run in which nothing has happened: what was accepted is not
lost, nothing is doubled, nothing comes out of order or before what was pushed earlier, and nothing that nobody has
pushed (:func:`wrong_of_log`). A second reader, who has found it in the list of applications of another notebook, has to
see the same. An application may end only by name, and only where somebody died who had what nobody else had.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import mmap
import os
import random
import shutil
import signal
import statistics
import struct
import subprocess
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec
import polars as pl

from synergy_nb import Application, Cluster, Feed, Plan, function, keyed, source
from synergy_nb.errors import SynergyError
from synergy_nb.events import PeerTrouble
from synergy_nb.plan.derived.active_replicas import original
from synergy_nb.runtime.process import processes, starting
from synergy_nb.runtime.process.fork_server import ForkServer
from tests.namespace_peers import ENVIRONMENT, through_namespaces
from tests.packet_switch import Network

__all__ = ["FIGURES", "Fault", "Try", "drawn", "quantile", "table", "wrong_of_log"]

ROOT: Final = Path(__file__).resolve().parent.parent
FIGURES: Final = ROOT / "tests" / "live_campaign_figures.json"  # of the last campaign, which docs/faults.md shows
PEERS: Final = 7
LEAST: Final = 4  # peers with which a cluster goes on; another one is started then
SAFE: Final = "peer-1"  # origin and sink, of which there is one: it hangs and is cut off, but lives
ROWS_S: Final = 250  # rows pushed in a second
LOAD_S: Final = 2.0  # seconds for which rows are pushed, at least: faults are over then, or the rows wait for that
PIECE: Final = 5  # rows of a push
ENDS_S: Final = 90.0  # longest time until all rows have come, once all is quiet
BUSY_S: Final = 30.0  # longest time until a plan is admitted, once all is quiet
DISK_BYTES: Final = 4 << 20

SHAPES: Final = ("log", "log", "keyed", "windows", "join", "own")
ROLES: Final = ("source", "inner", "copy", "sink", "any")
#: What a campaign has to meet, else it tests less than it says.
SOMETIMES: Final = (
    "a peer was declared dead", "a backup took over", "an application paused", "a link was reset",
    "packets were lost", "a component moved", "a death during a move", "two deaths at once", "a disk was full",
    "a clock was set", "a peer hung", "a partition during composition",
)  # fmt: skip


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """A fault of a try: when, what, to whom, for how long, and how much."""

    at: float  # seconds after the first row, or since the submission where that is earlier
    kind: str
    role: str = "any"  # of the peer, see `ROLES`
    seconds: float = 0.0
    amount: float = 0.0  # share of packets, seconds of delay, or of a clock
    seed: int = 0  # draws which of several peers have the role

    def __str__(self) -> str:
        return f"{self.at:.2f} s: {self.kind} of {self.role}, {self.seconds:.2f} s, {self.amount:.3g}"


class Try(msgspec.Struct, frozen=True):
    """All that a try does."""

    seed: int
    shape: str
    backed: bool  # whether the source has a backup, and the others active replicas; else these have backups
    early: bool  # whether faults begin as the application is composed
    faults: tuple[Fault, ...]


def drawn(seed: int) -> Try:
    """The try of a seed; one in ten has no fault, for the delays without any."""
    rng = random.Random(f"live/{seed}")
    early = rng.random() < 0.15
    faults: list[Fault] = []
    for _ in range(0 if rng.random() < 0.1 else rng.choice((1, 1, 2, 2, 3))):
        kind = rng.choices(
            ("partition", "one way", "loss", "delay", "reset", "hang", "kill", "two kills", "move", "kill in a move",
             "clock", "disk"), (3, 3, 2, 2, 3, 3, 1, 0.4, 3, 1, 1, 1),
        )[0]  # fmt: skip
        seconds = rng.choice((rng.uniform(0.1, 1.0), rng.uniform(0.5, 2.5), rng.uniform(2.5, 6.0)))
        amount = {
            "loss": rng.choice((0.05, 0.2, 0.5)),
            "delay": rng.choice((0.02, 0.1, 0.3)),
            "clock": rng.choice((-3600.0, -5.0, -0.5, 0.5, 5.0, 3600.0)),
        }.get(kind, 0.0)
        at = rng.uniform(-0.2, 0.1) if early and not faults else rng.uniform(0.1, LOAD_S)
        faults.append(Fault(round(at, 3), kind, rng.choice(ROLES), round(seconds, 3), amount, rng.randrange(1000)))
    return Try(seed, rng.choice(SHAPES), rng.random() < 0.7, early, tuple(sorted(faults, key=lambda each: each.at)))


# -- checks ----------------------------------------------------------------------------------------------------------


def wrong_of_log(accepted: Sequence[int], read: Sequence[int], *, whole: bool = True) -> list[str]:
    """What is wrong with what was read of a log, in the words of those who test logs; nothing if it is right.

    ``accepted``: values in the order in which they were accepted, each once; ``whole``: whether the log has ended, so
    that all of them have to be there.
    """
    known, seen = {value: place for place, value in enumerate(accepted)}, Counter(read)
    wrong = []
    if unknown := [value for value in seen if value not in known]:
        wrong.append(f"nobody has pushed {unknown[:5]}")
    if doubled := [value for value, times in seen.items() if times > 1]:
        wrong.append(f"{len(doubled)} doubled, the first {doubled[:5]}")
    places = [known[value] for value in read if value in known]
    if late := [read[at] for at, (one, other) in enumerate(pairwise(places), 1) if other < one]:
        wrong.append(f"{len(late)} out of order, the first {late[:5]}")
    end = len(accepted) if whole else max(places, default=-1) + 1
    if lost := [value for value in accepted[:end] if value not in seen]:
        wrong.append(f"{len(lost)} {'lost' if whole else 'skipped'}, the first {lost[:5]}")
    return wrong


def quantile(values: Sequence[float], share: float) -> float:
    """The least of some values, sorted, that a share of them does not exceed."""
    return values[max(math.ceil(share * len(values)) - 1, 0)] if values else math.nan


# -- queries ---------------------------------------------------------------------------------------------------------

COLUMNS: Final = {"v": "int", "k": "int"}


@function(columns={"w": "int"}, deterministic=True)
def doubled(batch: pl.DataFrame) -> pl.DataFrame:
    """Twice each value."""
    return batch.select(w=2 * pl.col("v"))


@keyed(columns={"n": "int"}, deterministic=True)
class Numbered:
    """The number of each row of its key."""

    def __init__(self) -> None:
        self.rows = 0

    def on_rows(self, key: Any, rows: Iterable[Any]) -> Iterator[dict[str, int]]:
        """Count a row."""
        for _ in rows:
            self.rows += 1
            yield {"n": self.rows}


def key_of_value(value: int) -> int:
    """The key of a value: no pattern, and none of them rare."""
    return value * 7919 % 104729 % 5


def query(shape: str, *, backed: bool) -> tuple[Plan, list[Feed]]:
    """A plan that one peer can die of without harm, but for sinks, and for sources unless ``backed``; and its feeds."""
    feeds, copies = [Feed(COLUMNS)], "degree 2" if backed else None
    stream = source(feeds[0], id="log", availability=copies)
    match shape:
        case "log":
            stream = stream.filter("v >= 0", id="kept")
        case "keyed":
            stream = stream.apply_keyed(Numbered, key="k", id="kept")
        case "windows":
            stream = stream.aggregate("k", "100 ms", n="count(*)", total="sum(v)", id="kept")
        case "own":
            stream = stream.apply(doubled, id="kept")
        case "join":
            feeds.append(Feed({"v": "int", "u": "int"}))
            stream = stream.join(source(feeds[1], id="second", availability=copies), on="v", within="1 s", id="kept")
    return stream.sink("out", id="out", availability="active 2" if backed else "degree 2"), feeds


def wrong_rows(shape: str, accepted: Sequence[int], rows: pl.DataFrame, *, whole: bool) -> list[str]:
    """What is wrong with the rows of a query, of whose values so many were accepted."""
    if not rows.height:
        return ["no row came"] if whole and accepted else []
    match shape:
        case "log":
            return wrong_of_log(accepted, rows["v"].to_list(), whole=whole)
        case "own":
            return wrong_of_log([2 * value for value in accepted], rows["w"].to_list(), whole=whole)
        case "join":
            read = rows["v"].to_list()
            found = wrong_of_log(accepted, read, whole=whole)
            return [each for each in found if "out of order" not in each and "skipped" not in each]
        case "keyed":
            wrong = []
            for key in range(5):
                mine = [place for place, _ in enumerate([v for v in accepted if key_of_value(v) == key], 1)]
                read = rows.filter(pl.col("k") == key)["n"].to_list()
                wrong += [f"key {key}: {each}" for each in wrong_of_log(mine, read, whole=whole)]
            return wrong
    wanted: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    for value in accepted:
        sums = wanted[value // 100, key_of_value(value)]
        sums[0] += 1
        sums[1] += value
    made = sorted((*each,) for each in wanted.values())
    read = sorted(rows.select("n", "total").rows())
    if whole:
        return [] if read == made else [f"{len(read)} windows, expected {len(made)}, or other sums"]
    return [f"{len(extra)} windows that nobody has made" for extra in [set(read) - set(made)] if extra]


# -- peers in their namespaces ---------------------------------------------------------------------------------------


class Peers:
    """A cluster whose peers are in namespaces, and what can be done to them."""

    def __init__(self, network: Network, folder: Path, *, shared: bool, recorded: bool) -> None:
        self.network = network
        self.disk = folder / "disk"
        clock = folder / "clock"
        clock.write_bytes(bytes(8 * (PEERS + 1)))
        self._clock = clock.open("r+b")
        self.offsets = mmap.mmap(self._clock.fileno(), 0)
        namespaces = {number: network.namespace(number + 1) for number in range(1, PEERS + 1)}
        os.environ[ENVIRONMENT] = json.dumps({"namespaces": namespaces, "clock": str(clock), "shared": shared})
        for each in self.disk.iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        record = self.disk / "run.rec" if recorded else None
        vars(starting)["start"] = partial(processes.start, host=Network.address(1))
        self.cluster = Cluster(PEERS, cores=1.0, spark=False, record=record)
        self.guest = Cluster(self.cluster.scheduler, spark=False)  # another notebook
        self.pids = {name: state.pid for name, state in self.cluster.states().items() if state is not None}
        self.lost: set[str] = set()
        self.described = f"{'one machine' if shared else 'many machines'}{', recorded' if recorded else ''}"

    @property
    def living(self) -> list[str]:
        return [name for name in self.pids if name not in self.lost]

    def end(self, name: str) -> int:
        return int(name.partition("-")[2]) + 1

    def ways(self, names: Iterable[str], *, client: bool, both: bool = True) -> list[tuple[int, int]]:
        """Ways from some peers to all others, and back; with the client's, too."""
        side = {self.end(name) for name in names}
        others = [end for end in range(1 if client else 2, PEERS + 2) if end not in side]
        there = [(one, other) for one in sorted(side) for other in others]
        return there + [(other, one) for one, other in there] if both else there

    def signal(self, name: str, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pids[name], number)

    def fill(self) -> None:
        """Fill the disk to its last byte."""
        with contextlib.suppress(OSError), (self.disk / "filler").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    def free(self) -> None:
        (self.disk / "filler").unlink(missing_ok=True)

    def calm(self) -> None:
        """End all faults."""
        self.network.heal()
        for name in self.living:
            self.signal(name, signal.SIGCONT)
        self.free()

    def close(self) -> None:
        self.calm()
        self.guest.close()
        self.cluster.close()
        self.offsets.close()
        self._clock.close()


# -- a try -----------------------------------------------------------------------------------------------------------


class Outcome(msgspec.Struct):
    """What came of a try: a line of the file."""

    did: Try
    peers: str
    verdict: str = ""  # survived, excused, wrong, refused
    wrong: list[str] = []
    reason: str = ""
    rows: int = 0
    seconds: float = 0.0
    events: dict[str, int] = {}
    met: list[str] = []
    troubles: list[str] = []
    packets: dict[str, int] = {}
    delays_ms: list[float] = []  # of the rows whose delay is known, sorted


class Trial:
    """One try on peers that run."""

    def __init__(self, peers: Peers, did: Try) -> None:
        self.peers = peers
        self.did = did
        self.outcome = Outcome(did, peers.described)
        self.met: set[str] = set()
        self.excused = ""
        self.application: Application | None = None
        self.accepted: list[int] = []
        self.pushed: dict[int, float] = {}
        self.read: dict[int, float] = {}
        self.timers: list[threading.Timer] = []
        self.moves = ThreadPoolExecutor(4)
        self.quiet_at = 0.0
        self._stop = threading.Event()
        self._lock = threading.Lock()

    # -- faults ------------------------------------------------------------------------------------------------------

    def who(self, fault: Fault, count: int = 1) -> list[str]:
        """Living peers of a role."""
        rng, living, application = random.Random(fault.seed), self.peers.living, self.application
        mortal = "kill" in fault.kind
        able = [name for name in living if not (mortal and name == SAFE)]
        found: set[str] = set()
        if application is not None and not self.did.early:
            graph, copies = application.graph, {each for some in application.backups.values() for each in some}
            found = {
                "source": {peer for name, peer in graph.items() if name in ("log", "second")},
                "inner": {peer for name, peer in graph.items() if original(name) == "kept"},
                "copy": copies,
                "sink": {graph.get("out", "")},
                "any": set(living),
            }[fault.role]
        chosen = [name for name in sorted(found) if name in able] or able
        first = rng.sample(chosen, min(count, len(chosen)))
        rest = [name for name in able if name not in first]
        return first + rng.sample(rest, min(count - len(first), len(rest)))

    def strike(self, fault: Fault) -> None:
        """Have a fault happen, and end when it is over."""
        if self._stop.is_set():
            return
        peers, network, rng = self.peers, self.peers.network, random.Random(fault.seed)
        match fault.kind:
            case "partition" | "one way" | "loss":
                names = self.who(fault, rng.choice((1, 1, 2, 3)))
                ways = peers.ways(names, client=rng.random() < 0.3, both=fault.kind != "one way")
                if fault.kind == "one way" and rng.random() < 0.5:
                    ways = [(other, one) for one, other in ways]
                network.lose(ways, fault.amount or 1.0)
                self.later(fault.seconds, network.lose, ways, 0.0)
                self.met |= {"packets were lost"}
                if fault.at < 0.1 and fault.kind == "partition":
                    self.met.add("a partition during composition")
            case "delay":
                ways = peers.ways(self.who(fault), client=True)
                network.delay(ways, fault.amount, fault.amount / 2)
                self.later(fault.seconds, network.delay, ways, 0.0)
            case "reset":
                network.reset(peers.ways(self.who(fault), client=rng.random() < 0.5))
                self.met.add("a link was reset")
            case "hang":
                (name,) = self.who(fault)
                peers.signal(name, signal.SIGSTOP)
                self.later(fault.seconds, peers.signal, name, signal.SIGCONT)
                self.met.add("a peer hung")
            case "kill":
                self.kill(self.who(fault))
            case "two kills":
                self.kill(self.who(fault, 2))
                self.met.add("two deaths at once")
            case "move" | "kill in a move":
                self.move(fault, rng)
            case "clock":
                for name in self.who(fault):
                    struct.pack_into("d", peers.offsets, 8 * (peers.end(name) - 1), fault.amount)
                self.met.add("a clock was set")
            case "disk":
                peers.fill()
                self.later(fault.seconds, peers.free)
                self.met.add("a disk was full")

    def later(self, seconds: float, act: Callable[..., object], *arguments: object) -> None:
        timer = threading.Timer(seconds, act, arguments)
        timer.daemon = True
        with self._lock:
            self.timers.append(timer)
            self.quiet_at = max(self.quiet_at, time.monotonic() + seconds)
        timer.start()

    def kill(self, names: Sequence[str]) -> None:
        """Kill peers, and note if somebody had what nobody else has."""
        application = self.application
        for name in names:
            self.peers.lost.add(name)
            self.peers.signal(name, signal.SIGKILL)
        if application is None or self.did.early:
            self.excused = f"{names} died while it was composed"
            return
        graph, backups = application.graph, application.backups
        had = [each for each, peer in graph.items() if peer in names]
        touched = [*had, *(each for each, some in backups.items() if set(some) & set(names))]
        others = defaultdict[str, set[str]](set)  # who else has an operator
        for each, peer in graph.items():
            others[original(each)] |= {peer, *backups.get(each, ())}
        alone = [each for each in had if not others[original(each)] - self.peers.lost]
        if alone:
            self.excused = f"{names} died, and {alone} with them"
        elif touched and len(self.did.faults) > 1:
            self.excused = f"{names} died while others were late, so its copies may lag"

    def move(self, fault: Fault, rng: random.Random) -> None:
        """Begin to move an operator; a peer may be killed meanwhile."""
        application = self.application
        if application is None:
            return
        graph = application.graph
        operator = rng.choice([each for each in graph if each not in ("out", "log", "second")] or ["kept"])
        others = [name for name in self.peers.living if name != graph.get(operator)]
        to = rng.choice(others)
        with contextlib.suppress(RuntimeError):  # all is over
            self.moves.submit(self.moved, application, operator, to)
        if fault.kind == "kill in a move":
            victims = [name for name in (graph.get(operator, ""), to) if name in self.peers.living and name != SAFE]
            if victims:
                self.later(rng.uniform(0.0, 0.15), self.kill, [rng.choice(victims)])
                self.met.add("a death during a move")

    def moved(self, application: Application, operator: str, to: str) -> None:
        with contextlib.suppress(SynergyError):
            self.peers.cluster.move(application, operator, to)
            self.met.add("a component moved")

    # -- rows --------------------------------------------------------------------------------------------------------

    def push(self, feeds: Sequence[Feed]) -> None:
        """Push rows at a steady pace, until faults are over."""
        begun, value = time.monotonic(), 0
        try:
            while (now := time.monotonic()) < max(begun + LOAD_S, min(self.quiet_at, begun + 8.0)):
                due = begun + value / ROWS_S
                if due > now:
                    self._stop.wait(due - now)
                values = range(value, value + PIECE)
                at = time.monotonic()
                for number, feed in enumerate(feeds):
                    more = "u" if number else "k"
                    feed.push([{"time": v / 1000, "v": v, more: v if number else key_of_value(v)} for v in values])
                self.accepted += values
                self.pushed.update(dict.fromkeys(values, at))
                value += PIECE
        except SynergyError as error:  # the application has ended
            self.outcome.reason = str(error)
        finally:
            for feed in feeds:
                feed.close()

    def collect_again(self, tables: list[pl.DataFrame]) -> None:
        """Read as somebody else who has found the application."""
        assert self.application is not None
        found, until = None, time.monotonic() + ENDS_S
        while found is None and time.monotonic() < until:  # a list lacks what is led by a peer that does not answer
            with contextlib.suppress(SynergyError):
                found = self.peers.guest.applications.get(self.application.id)
        with contextlib.suppress(SynergyError):
            tables.extend(found or ())

    def collect(self, application: Application, tables: list[pl.DataFrame]) -> None:
        column, factor = {"own": ("w", 2)}.get(self.did.shape, ("v", 1))
        try:
            for table in application:
                at = time.monotonic()
                tables.append(table)
                if column in table.columns:
                    self.read.update((value // factor, at) for value in table[column])
        except SynergyError as error:
            self.outcome.reason = f"reading: {error}"

    def submit(self) -> tuple[Application, list[Feed]]:
        """Submit the query; a refusal is taken back within a time, once all is quiet."""
        until = time.monotonic() + BUSY_S
        while True:  # a feed is read by one application
            plan, feeds = query(self.did.shape, backed=self.did.backed)
            try:
                return self.peers.cluster.submit(plan, origin=SAFE), feeds
            except SynergyError as error:
                if time.monotonic() > until:
                    self.outcome.reason = str(error)
                    raise
                self._stop.wait(0.5)

    def run(self) -> Outcome:
        """Run the try to its end, and check what came of it."""
        outcome, cluster, begun = self.outcome, self.peers.cluster, time.monotonic()
        before = self.peers.network.counts()
        events_before = self.events()
        strikes = [(fault.at, partial(self.strike, fault)) for fault in self.did.faults]
        if self.did.early:
            for at, act in strikes:
                self.later(max(at + 0.2, 0.0), act)
        try:
            self.application, feeds = self.submit()
        except SynergyError:
            outcome.verdict, outcome.wrong = "wrong", ["it is refused, though all is quiet"]
            self.end()
            return outcome
        if not self.did.early:
            for at, act in strikes:
                self.later(at, act)
        tables: list[pl.DataFrame] = []
        others: list[pl.DataFrame] = []
        threads = [
            threading.Thread(target=self.push, args=(feeds,), daemon=True),
            threading.Thread(target=self.collect, args=(self.application, tables), daemon=True),
            threading.Thread(target=self.collect_again, args=(others,), daemon=True),
        ]
        for thread in threads:
            thread.start()
        threads[0].join(ENDS_S)
        while (left := self.quiet_at - time.monotonic()) > 0:
            self._stop.wait(left)
        self.end()
        threads[1].join(ENDS_S)
        application = self.application
        status = "unknown"
        with contextlib.suppress(SynergyError):
            status = str(application.wait(0.0 if threads[1].is_alive() else 10.0))
        rows = pl.concat(tables) if tables else pl.DataFrame()
        whole = status == "finished"
        outcome.wrong = wrong_rows(self.did.shape, self.accepted, rows, whole=whole)
        if whole:
            threads[2].join(ENDS_S)
            again = pl.concat(others) if others else pl.DataFrame()
            if not again.equals(rows):
                outcome.wrong.append(f"a second reader has {again.height} rows, the first {rows.height}")
        elif threads[1].is_alive() or status not in ("failed", "stopped"):
            outcome.wrong.append(f"it stands still: {status}")
        elif not self.excused:
            outcome.wrong.append(f"it ended: {application.reason or outcome.reason or 'without a reason'}")
        outcome.reason = application.reason or outcome.reason
        outcome.verdict = "wrong" if outcome.wrong else "survived" if whole else "excused"
        if threads[1].is_alive():
            with contextlib.suppress(SynergyError, TimeoutError):
                cluster.stop(application)
        outcome.rows = len(self.accepted)
        outcome.delays_ms = sorted(
            round(1000 * (at - self.pushed[value]), 2) for value, at in self.read.items() if value in self.pushed
        )
        after = self.peers.network.counts()
        outcome.packets = {name: after[name] - before[name] for name in after}
        self.note(events_before)
        outcome.met = sorted(self.met)
        outcome.seconds = round(time.monotonic() - begun, 2)
        return outcome

    def end(self) -> None:
        """End all faults."""
        self._stop.set()
        for timer in self.timers:
            timer.cancel()
        self.moves.shutdown(wait=False)
        self.peers.calm()

    def events(self) -> Counter[str]:
        """Events so far by kind, and troubles by text."""
        with contextlib.suppress(SynergyError, TimeoutError):
            found = list(self.peers.cluster.events())
            self._troubles = [
                f"{each.kind} {each.subject} {each.detail}" for each in found if isinstance(each, PeerTrouble)
            ]
            return Counter(each.kind for each in found)
        return Counter()

    def note(self, before: Counter[str]) -> None:
        """Note what the journal says that has happened."""
        found = self.events() - before
        self.outcome.events = dict(sorted(found.items()))
        self.outcome.troubles = [each[:300] for each in self._troubles if not each.startswith("link_")][-5:]
        for kind, what in (
            ("peer_declared_dead", "a peer was declared dead"),
            ("component_taken_over", "a backup took over"),
            ("application_paused", "an application paused"),
        ):
            if found[kind]:
                self.met.add(what)

    _troubles: list[str] = []  # noqa: RUF012 - replaced, not changed


# -- the campaign ----------------------------------------------------------------------------------------------------


def report(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The figures of a campaign."""

    def delays(some: Iterable[Outcome]) -> dict[str, float]:
        found = sorted(each for outcome in some for each in outcome.delays_ms)
        shares = {"p50": 0.5, "p99": 0.99, "p99.99": 0.9999}
        return {"rows": len(found), **{name: quantile(found, share) for name, share in shares.items()}}

    faults = Counter(fault.kind for each in outcomes for fault in each.did.faults)
    survived = Counter(fault.kind for each in outcomes if each.verdict != "wrong" for fault in each.did.faults)
    met = Counter(what for each in outcomes for what in each.met)
    return {
        "tries": len(outcomes),
        "verdicts": dict(Counter(each.verdict for each in outcomes)),
        "faults": {kind: {"struck": faults[kind], "borne": survived[kind]} for kind in sorted(faults)},
        "met": {what: met[what] for what in SOMETIMES},
        "rows": sum(each.rows for each in outcomes),
        "seconds_a_try": round(statistics.fmean(each.seconds for each in outcomes), 2) if outcomes else 0.0,
        "delay_ms": {
            "without faults": delays(each for each in outcomes if not each.did.faults),
            "with faults": delays(each for each in outcomes if each.did.faults),
        },
        "packets": dict(sum((Counter(each.packets) for each in outcomes), Counter[str]())),
    }


def table(figures: dict[str, Any]) -> str:
    """The figures of a campaign as tables of a page."""
    verdicts, delays = figures["verdicts"], figures["delay_ms"]
    survived, excused, wrong = (verdicts.get(each, 0) for each in ("survived", "excused", "wrong"))
    lines = [
        (f"{figures['tries']} tries with {figures['rows']:,} rows and {sum(figures['packets'].values()):,} packets, "
        f"{figures['seconds_a_try']:.1f} s each: {survived} survived, "
        f"{excused} ended by name, as who died had the only copy in time, "
        f"{wrong} went wrong."),
        "",
        "| fault | struck | borne |", "|---|---|---|",
        *(f"| {kind} | {each['struck']} | {each['borne']} |" for kind, each in figures["faults"].items()),
        "",
        "| delay of a row, from its push to the reader | rows | p50 | p99 | p99.99 |", "|---|---|---|---|---|",
        *(
            f"| {when} | {each['rows']:,} | {each['p50']:.0f} ms | {each['p99']:.0f} ms | {each['p99.99']:.0f} ms |"
            for when, each in delays.items()
        ),
        "",
        "| met | tries |", "|---|---|",
        *(f"| {what} | {number} |" for what, number in figures["met"].items()),
    ]  # fmt: skip
    return "\n".join(lines)


def campaign(tries: Sequence[Try], file: Path) -> list[Outcome]:
    """Run tries one after another, with a new cluster where too many of its peers have died."""
    network = Network(PEERS, seed=tries[0].seed)
    outcomes: list[Outcome] = []
    peers: Peers | None = None
    with tempfile.TemporaryDirectory(prefix="synergy-live-") as name, file.open("a") as lines:
        folder = Path(name)
        (folder / "disk").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", folder / "disk"], check=True)
        os.environ["TMPDIR"] = str(folder / "disk")
        try:
            for each in tries:
                if peers is None:
                    rng = random.Random(f"cluster/{each.seed}")
                    peers = Peers(network, folder, shared=rng.random() < 0.5, recorded=rng.random() < 0.3)
                outcome = Trial(peers, each).run()
                outcomes.append(outcome)
                lines.write(msgspec.json.encode(outcome).decode() + "\n")
                lines.flush()
                print(f"{len(outcomes)} {each.seed} {each.shape} {[fault.kind for fault in each.faults]}: "
                      f"{outcome.verdict} {outcome.seconds} s {'; '.join(outcome.wrong)} {outcome.reason[:100]}",
                      flush=True)  # fmt: skip
                if outcome.verdict == "wrong" or len(peers.living) < LEAST:
                    peers.close()
                    peers = None
        finally:
            if peers is not None:
                peers.close()
            network.close()
            subprocess.run(["umount", folder / "disk"], check=False)
    return outcomes


def main() -> None:
    """Run a campaign from the command line."""
    parser = argparse.ArgumentParser(description="Break a network of real peers, again and again.")
    parser.add_argument("--tries", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--file", type=Path, default=ROOT / "build" / "live_campaign.jsonl")
    parser.add_argument("--only", help="a try as its line in the file has it, or the line")
    parser.add_argument("--report", action="store_true", help="only print the figures of a file")
    chosen = parser.parse_args()
    ForkServer.fork = through_namespaces(ForkServer.fork)  # type: ignore[method-assign]
    chosen.file.parent.mkdir(parents=True, exist_ok=True)
    if not chosen.report:
        tries = [drawn(seed) for seed in range(chosen.seed, chosen.seed + chosen.tries)]
        if chosen.only:
            read = json.loads(chosen.only)
            tries = [msgspec.convert(read.get("did", read), Try)]
        campaign(tries, chosen.file)
    found = [msgspec.json.decode(line, type=Outcome) for line in chosen.file.read_text().splitlines()]
    print(json.dumps(report(found), indent=1))
    missing = [what for what in SOMETIMES if not any(what in each.met for each in found)]
    if len(found) >= 100 and missing:
        raise SystemExit(f"never met: {', '.join(missing)}")
    if wrong := [each for each in found if each.verdict == "wrong"]:
        raise SystemExit(f"{len(wrong)} tries went wrong; each line with the verdict runs again with --only LINE")


if __name__ == "__main__":
    main()
