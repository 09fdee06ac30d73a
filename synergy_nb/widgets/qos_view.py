"""The live view of quality of service: delay, throughput, misses, the load of peers, and the plan over them.

Theory of operation
-------------------
The view reads a journal into :class:`~synergy_nb.widgets._journal_series.JournalSeries`, and sends pages only what has
changed since the last message: named pieces of words and numbers as JSON, and points of lines as one buffer of 64-bit
floats. A page sends ``ready`` when it opens, is reloaded, or has missed a message, and receives the whole state; it
sends ``here`` every few seconds, which is answered with the number of the last message, and ``gone`` when it closes.
Messages have numbers, and every page counts them. So several pages and several copies show the same, no message is sent
while no page is open, and a page that gets no answer says that there is no news.

With rows, a view also shows the newest ones of a sink, which somebody gives it for as long as it asks for them. A page
says which part of them it looks at, in which order, and gets the rows around these. It may ask that its rows stay, or
for those of another time; then it gets no newer ones until it wants them.

The notebook's file holds none of this: the widget's state is a small loader, which requests the bundle from the kernel,
and a static picture for viewers that cannot run a view.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import weakref
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import traitlets

from synergy_nb.drawing.graphs import placed
from synergy_nb.errors import harmless
from synergy_nb.events import RequestSubmitted
from synergy_nb.events.application_states import ENDED
from synergy_nb.events.journal import Journal
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.active_replicas import degrees_of
from synergy_nb.widgets import _static_view as static_view
from synergy_nb.widgets._component_status import drawn_plan
from synergy_nb.widgets._journal_series import JournalSeries
from synergy_nb.widgets._line_history import Line
from synergy_nb.widgets._status_text import shown_flows, shown_peers, status_pieces
from synergy_nb.widgets.bundled_view import BundledView
from synergy_nb.widgets.later_calls import LaterCall

if TYPE_CHECKING:
    import polars as pl

    from synergy_nb.widgets._row_table import RowTable, ShownRows

__all__ = ["FollowedRows", "QoSView"]

BETWEEN: Final = 0.1  # least time between two messages to pages, seconds
FORGOTTEN: Final = 20.0  # seconds after its last message for which a page counts as open
GRACE: Final = 5.0  # longest time that messages of pages may be held up by a busy kernel, seconds
UNKNOWN: Final = ""  # copy of a page that has sent no message yet
# seconds after which a new page receives the whole state unasked, as it cannot ask while a cell occupies the kernel
OFFERS: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
SPARK: Final = 256  # number of points of a peer's load in the first message to a page, which draws two minutes of them
LEAST_WIDTH: Final = 118.0  # least width of an operator's box, pixels: a peer's name and a rate fit in
WITH_BACKUP: Final = 140.0  # least width of a box with the name of a backup's peer, pixels
HEIGHT: Final = 61.0
ROW_SHARE: Final = 0.25  # largest share of a processor that is spent on rows


class FollowedRows(Protocol):
    """The newest rows of a sink, which are given to a view for as long as it asks for them."""

    def wake(self, *, last: bool = False) -> None:
        """Look for rows again, as a page is open, or for the last time."""

    def moment(self, since: float, until: float, answer: Callable[[pl.DataFrame, int, str], None]) -> None:
        """Answer with the rows that came between two times, in seconds."""

    def close(self) -> None:
        """Give no rows any more."""


class _PageLook(NamedTuple):
    """What a page has asked for of the rows."""

    turn: int = 0  # number of the question, of this page
    first: int = 0  # place of the first row on its screen
    by: str = ""  # column whose values are in order; empty: the rows are as they came
    descending: bool = False
    held: bool = False  # whether it looks at rows that stay, while newer ones come
    moment: tuple[float, float] | None = None  # times between which its rows came; None: it wants the newest ones
    rows: ShownRows | None = None  # that it looks at; None: the newest ones, or they are not known yet


class QoSView(BundledView):
    """A live view of one application, or of a whole cluster.

    Parameters
    ----------
    journal
        Journal that is shown. It may grow; :meth:`update` reads its new events.
    plan
        The application's plan, to be drawn over its peers.
    application
        Id of the application. None with a plan: the last application of that plan's name; None without: all of the
        cluster.
    names
        Peer address to a name for people.
    reading
        Lock that is held while the journal is read, where another thread writes it.
    clock
        Seconds that never step back.

    Examples
    --------
    >>> from synergy_nb.events import PeerStarted
    >>> from synergy_nb.events.journal import Journal
    >>> journal = Journal()
    >>> _ = journal.append(PeerStarted(1.0, "a", "a", name="peer-1"))
    >>> view = QoSView(journal)
    >>> view
    QoSView of Cluster of 1 peer: idle. No application runs.
    >>> view.close()
    """

    SCRIPT = "qosview"
    _rows = traitlets.Unicode().tag(sync=True)  # label of the sink whose rows it shows; empty: it shows none

    def __init__(
        self,
        journal: Journal,
        plan: Plan | None = None,
        *,
        application: str | None = None,
        names: Mapping[str, str] | None = None,
        reading: contextlib.AbstractContextManager[Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if application is None and plan is not None:
            application = _last(journal, plan)
        self._journal = journal
        self._plan = plan
        self._picture: tuple[list[str], dict[str, Any]] | None = None  # with the operators that it shows
        self._reading = reading if reading is not None else contextlib.nullcontext()
        self._leave: Callable[[], None] | None = None
        self._clock = clock
        self._lock = threading.RLock()
        self._readings = JournalSeries(application, names)
        self._pages: dict[str, float] = {}  # time of the last message, by copy
        self._offers: list[float] = []
        self._number = 0
        self._sent: dict[str, Any] = {}
        self._dirty = False
        self._last = -BETWEEN
        self._later = LaterCall(self._lock)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._checking = False
        self._closed = False
        self._over = False  # whether what it shows had ended when the last picture was made
        self._table: RowTable | None = None
        self._followed: FollowedRows | None = None
        self._looks: dict[str, _PageLook] = {}  # by copy; pages without one look at the first of the newest rows
        super().__init__()
        self.on_msg(lambda _, content, _buffers: self._receive(content))
        self.update()

    # -- for people ----------------------------------------------------------------------------------------------

    def follow(self, listen: Callable[[Callable[[], None]], Callable[[], None]]) -> None:
        """Subscribe :meth:`update` to new events, until the view is closed.

        Parameters
        ----------
        listen
            Function that subscribes a callback, which any thread may call, and returns a function that ends the
            subscription.
        """
        view = weakref.ref(self)

        def news() -> None:
            watching = view()
            if watching is not None:
                watching.update()

        self._leave = listen(news)
        self.update()

    def show_rows(
        self,
        sink: str,
        empty: pl.DataFrame,
        keys: Sequence[str],
        follow: Callable[[Callable[[pl.DataFrame, int, str], float | None], Callable[[], bool]], FollowedRows],
    ) -> None:
        """Show the newest rows of a sink, too.

        Parameters
        ----------
        sink
            Label of the sink.
        empty
            Table with its columns and no row.
        keys
            Columns whose values tell the rows of a window apart.
        follow
            Function that gets two others and begins to follow the rows. The first takes the last rows, of which the
            last so many are new, and words about why there are no others; it returns the seconds until the next ones,
            or None if nobody wants any more. The second tells whether a page is open.
        """
        from synergy_nb.widgets._row_table import RowTable  # noqa: PLC0415 - only rows need Polars

        view = weakref.ref(self)

        def take(table: pl.DataFrame, came: int, note: str) -> float | None:
            watching = view()
            return None if watching is None else watching._take(table, came, note)

        def watched() -> bool:
            watching = view()
            return watching is not None and watching._watched()

        with self._lock:
            self._table, self._rows = RowTable(sink, empty, keys), sink
        self._followed = follow(take, watched)

    def update(self) -> None:
        """Read the new events of the journal, and update the open pages."""
        woken: FollowedRows | None = None
        with self._lock:
            if self._read_journal():
                self._dirty = True
                shown = self._readings.application
                over = self._readings.closed or (shown is not None and self._readings.run(shown).status in ENDED)
                ends, self._over = over and not self._over, over
                self._last_picture.changed(self._drawn, final=ends)
                woken = self._followed if ends else None
            self._flush()
        if woken is not None:  # who follows the rows may hold a lock of its own, and wait for that of the view
            woken.wake(last=True)

    def to_svg(self) -> str:
        """The present state as one self-contained SVG."""
        with self._lock:
            self._read_journal()
            return static_view.svg(self._readings, self._plan)

    def to_text(self) -> str:
        """The present state as text for a terminal."""
        with self._lock:
            self._read_journal()
            rows = [] if self._table is None else [self._table.to_text()]
            return harmless("\n\n".join([static_view.text(self._readings, self._plan), *rows]))

    def close(self) -> None:
        """End the subscription, and remove the view from the pages."""
        with self._lock:
            self._last_picture.changed(self._drawn, final=True)
            self._closed = True
            self._pages.clear()
            self._later.cancel()
            leave, self._leave = self._leave, None
            followed, self._followed = self._followed, None
        if leave is not None:
            leave()
        if followed is not None:
            followed.close()
        super().close()
        self.__dict__.pop("_repr_mimebundle_", None)  # closing hides it, but the last state can still be shown

    def _drawn(self) -> tuple[str, str]:
        """The present state as text and as a picture."""
        with self._lock:
            return self.to_text(), self._still_html()

    def _still_html(self) -> str:
        rows = "" if self._table is None else self._table.to_html()
        return f"<div>{self.to_svg()}{rows}</div>"

    def __repr__(self) -> str:
        with self._lock:
            self._read_journal()
            head = status_pieces(self._readings, self._plan)["head"]
        return f"QoSView of {head['title']}: {head['status']}. {head['sentence']}"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        instead = "The picture shows the state when the cell ran."
        note, data, metadata = self._live(options, instead, closed=self._closed)
        with self._lock:
            now = self._clock()
            with contextlib.suppress(RuntimeError):
                self._loop = asyncio.get_running_loop()
            if data and not self._pages:
                self._pages[UNKNOWN] = now  # it opens now, but its message may wait while the kernel is busy
                self._offers = [now + after for after in OFFERS]
        return {**data, "text/plain": self.to_text(), "text/html": f"{note}{self._still_html()}"}, metadata

    # -- the journal ---------------------------------------------------------------------------------------------

    def _read_journal(self) -> bool:
        if self._closed:
            return False
        with self._reading:
            return self._readings.read(self._journal)

    # -- rows ----------------------------------------------------------------------------------------------------

    def _take(self, table: pl.DataFrame, came: int, note: str) -> float | None:
        """Show the newest rows; return seconds until the next ones, or None if it is closed."""
        if self._table is None or self._closed:
            return None
        began = time.thread_time()
        rows = self._table.take(table, came, note)
        with self._lock:
            if self._open():
                for copy in self._pages:
                    self._send_rows(copy, rows)
            spent = time.thread_time() - began
            self._last_picture.changed(self._drawn, final=self._over)
        return max(BETWEEN, spent / ROW_SHARE)

    def _watched(self) -> bool:
        with self._lock:
            return not self._closed and self._open()

    def _look(self, content: Mapping[str, Any]) -> None:
        """Answer a page that looks at other rows."""
        turn, first, since, until = (content.get(each) for each in ("turn", "first", "since", "until"))
        if self._table is None or self._closed or not isinstance(turn, int) or not isinstance(first, int):
            return
        copy, held = str(content.get("copy", ""))[:100], content.get("held") is True
        timed = isinstance(since, int | float) and isinstance(until, int | float)
        moment = (float(since), float(until)) if timed else None  # type: ignore[arg-type]
        with self._lock:
            self._pages[copy] = self._clock()
            self._looks = {each: look for each, look in self._looks.items() if each in self._pages}
            before = self._looks.get(copy)
            rows = self._table.shown if held and moment is None else None
            if before is not None and (before.held, before.moment) == (held, moment):
                rows = before.rows
            by, descending = str(content.get("by", "")), content.get("descending") is True
            self._looks[copy] = _PageLook(turn, max(first, 0), by, descending, held, moment, rows)
            asked = self._followed if moment is not None and (before is None or before.moment != moment) else None
            if moment is None or rows is not None:
                self._send_rows(copy, self._table.shown, asked=True)
        if asked is not None and moment is not None:
            self._ask_moment(asked, copy, moment)

    def _ask_moment(self, followed: FollowedRows, copy: str, moment: tuple[float, float]) -> None:
        """Give a page the rows of a time once they are known, unless it has asked for others since."""
        view = weakref.ref(self)

        def answer(table: pl.DataFrame, gone: int, note: str) -> None:
            watching = view()
            if watching is None or watching._table is None or watching._closed:
                return
            rows = watching._table.moment(table, gone, note)
            with watching._lock:
                now = watching._looks.get(copy)
                if now is not None and now.moment == moment:
                    watching._looks[copy] = now._replace(rows=rows)
                    watching._send_rows(copy, rows, asked=True)

        followed.moment(*moment, answer)

    def _send_rows(self, copy: str, newest: ShownRows, *, asked: bool = False) -> None:
        """Send a page the rows that it looks at; those that stay only if they were asked for."""
        at = self._looks.get(copy, _PageLook())
        if (at.held or at.moment is not None) and not asked:
            return
        content = {"kind": "rows", "turn": at.turn, "held": at.held, "moment": at.moment}
        if copy != UNKNOWN:
            content["to"] = copy
        self.send(content | (at.rows or newest).page(at.first, at.by, descending=at.descending))

    # -- pages ---------------------------------------------------------------------------------------------------

    def _receive(self, content: Mapping[str, Any]) -> None:
        if content.get("kind") == "look":
            self._look(content)
        else:
            self.on_page_message(str(content.get("kind")), str(content.get("copy", ""))[:100])

    def on_page_message(self, kind: str, copy: str = "") -> None:
        """Handle a message of a page: ``bundle`` requests the script, ``ready`` the whole state; ``here`` or ``gone``.

        Parameters
        ----------
        kind
            Kind of messages to handle; others are ignored.
        copy
            Name of this copy of the view among all pages.
        """
        woken: FollowedRows | None = None
        with self._lock:
            with contextlib.suppress(RuntimeError):
                self._loop = asyncio.get_running_loop()
            if kind == "bundle":
                self.send_bundle()
            elif kind in ("ready", "here", "gone"):
                self._offers = []
                self._pages.pop(UNKNOWN, None)
                if kind == "gone":
                    self._pages.pop(copy, None)
                    self._looks.pop(copy, None)
                    return
                self._pages[copy] = self._clock()
                if kind == "here":
                    self.send({"kind": "here", "to": copy, "number": self._number})
                if kind == "ready":
                    self._read_journal()
                    self._send_changes(quietly=len(self._pages) == 1)
                    self._send_all(copy)
                    if self._table is not None:
                        self._send_rows(copy, self._table.shown, asked=True)
                woken = self._followed
        if woken is not None:
            woken.wake()

    def _open(self) -> bool:
        """Whether a page is open, by the messages of pages."""
        now = self._clock()
        if any(now - last < FORGOTTEN for last in self._pages.values()):
            return True
        if not self._pages:
            return False
        loop = self._loop
        if loop is None or not loop.is_running():
            self._pages.clear()
            return False
        if not self._checking:  # no message for long: if the kernel was busy, messages wait in its queue
            self._checking = True
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(lambda: loop.call_later(GRACE, self._check, now))
        return True

    def _check(self, since: float) -> None:
        with self._lock:
            self._checking = False
            for copy in [copy for copy, last in self._pages.items() if last < since]:
                del self._pages[copy]

    def _flush(self) -> None:
        """Send the changes, now or as soon as the least time between two messages has passed."""
        if not self._dirty or self._closed or not self._open():
            return
        left = self._last + BETWEEN - self._clock()
        if left <= 0:
            self._dirty = False
            if self._offers and self._clock() >= self._offers[0]:
                self._offers.pop(0)
                self.send_bundle()
                self._send_changes(quietly=True)
                self._send_all("")
                if self._table is not None:
                    self._send_rows(UNKNOWN, self._table.shown)
            else:
                self._send_changes()
        else:
            self._later.after(left, self._flush)

    def _pieces(self) -> dict[str, Any]:
        pieces: dict[str, Any] = status_pieces(self._readings, self._plan)
        if self._plan is not None:
            drawn = drawn_plan(self._readings, self._plan)
            if self._picture is None or list(drawn.operators) != self._picture[0]:
                self._picture = list(drawn.operators), _picture(drawn)
            pieces["plan"] = self._picture[1]
        return pieces

    def _lines(self) -> list[tuple[str, str, Line]]:
        readings = self._readings
        wanted = [(quantity, f"{flow.application}/{flow.sink}") for flow in shown_flows(readings)
                  for quantity in ("p50", "p99", "rate", "miss")]  # fmt: skip
        if readings.application is not None:
            own = (key for key in readings.components if key[0] == readings.application)
            wanted += [("slack", "/".join(key)) for key in own]
        wanted += [(quantity, peer.address) for peer in shown_peers(readings) for quantity in ("load", "promised")]
        return [(*key, readings.lines[key]) for key in wanted if key in readings.lines]

    def _send_changes(self, *, quietly: bool = False) -> None:
        """Send the changes to all pages; ``quietly`` only notes them, as the pages will receive the whole state."""
        pieces, before = self._pieces(), self._sent
        changed = {name: piece for name, piece in pieces.items() if before.get(name) != piece}
        gone = [name for name in before if name not in pieces]
        parts: list[list[Any]] = []
        numbers = array("d")
        for quantity, of, line in self._lines():
            if line.fresh:
                whole, times, values = line.drain()
                parts.append([quantity, of, len(times), whole])
                numbers += times + values
        if not (changed or gone or parts):
            return
        self._sent = pieces
        self._number += 1
        self._last = self._clock()
        if not quietly:
            content = {"kind": "update", "number": self._number, "set": changed, "gone": gone, "lines": parts}
            self.send(content, [memoryview(numbers).cast("B")] if parts else None)

    def _send_all(self, copy: str) -> None:
        """Send the whole state to one page, or to those that have no state yet."""
        parts: list[list[Any]] = []
        numbers = array("d")
        for quantity, of, line in self._lines():
            times, values = line.points()
            if quantity in ("load", "promised"):
                times, values = times[-SPARK:], values[-SPARK:]
            parts.append([quantity, of, len(times), True])
            numbers += times + values
        content = {"kind": "update", "number": self._number, "whole": True, "set": self._sent, "lines": parts}
        if copy:
            content["to"] = copy
        self.send(content, [memoryview(numbers).cast("B")] if parts else None)


def _last(journal: Journal, plan: Plan) -> str:
    """Id of the last application with the plan's name in a journal."""
    for event in reversed(tuple(journal)):
        if isinstance(event, RequestSubmitted) and event.plan == plan.name:
            return event.subject
    return plan.name


def _picture(plan: Plan) -> dict[str, Any]:
    """Coordinates of boxes and lines of a plan, from left to right and from top to bottom, in pixels."""
    labels = {
        name: name if operator.replica_of or operator.kind in (name, "source") else f"{name} ({operator.kind})"
        for name, operator in plan.operators.items()
    }
    backups = plan.qos.availability is not None or any(each.passive > 1 for each in degrees_of(plan).values())
    least = WITH_BACKUP if backups else LEAST_WIDTH
    widths = {name: max(least, 7.6 * len(label) + 46) for name, label in labels.items()}
    edges = [(up, name) for name in plan.operators for up in plan.upstream(name)]
    picture: dict[str, Any] = {"labels": labels}
    for direction in ("right", "down"):
        place = placed(widths, edges, height=HEIGHT, direction=direction, room=-16.0)
        picture[direction] = {
            "size": [round(each, 1) for each in place.size],
            "boxes": {name: [round(each, 1) for each in box] for name, box in place.boxes.items()},
            "links": [
                [*link, any(plan.operators[end].replica_of for end in edge), *edge]
                for edge, link in place.links.items()
            ],
        }
    return picture
