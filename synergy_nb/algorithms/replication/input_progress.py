"""What a reader of active replicas observes of its inputs: weights and rates of a period, and delays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from synergy_nb.algorithms.replication.revival import InputDelays
from synergy_nb.dataflow.streams.input_reports import InputReport
from synergy_nb.dataflow.tuples import END, START

__all__ = ["InputProgress"]


class InputProgress:
    """Progress of the inputs of one component.

    Parameters
    ----------
    now
        Time at which the first period begins, seconds.
    late
        Delay beyond the usual interval above which a stream is late, seconds; a stream without an interval yet is
        taken to have this one.
    """

    def __init__(self, now: float, late: float) -> None:
        self._began = now
        self._late = late
        self._reports: dict[int, InputReport] = {}
        self._before: dict[int, InputReport] = {}  # when the period began
        self._delays: dict[int, InputDelays] = {}  # by port
        self._asked: dict[int, float] = {}  # port to the time of the last request, seconds

    def update(self, reports: Mapping[int, InputReport], now: float) -> None:
        """Handle a report of all inputs, by number."""
        first = not self._reports
        for number in self._reports.keys() - reports.keys():
            self._end(self._reports[number].port, str(number))
            self._before.pop(number, None)
        for number, report in reports.items():
            delays = self._delays.get(report.port)
            if delays is None:
                delays = self._delays[report.port] = InputDelays(self._late, self._late)
            name, known = str(number), self._reports.get(number)
            if report.promise == END:
                self._end(report.port, name)
            elif name not in delays.streams:
                if report.promise > START or not (first or known):  # a stream that joins later has to begin
                    delays.begin(name, now)
            elif known is not None and report.promise > known.promise:
                delays.promise(name, now)
        self._reports = dict(reports)

    def _end(self, port: int, name: str) -> None:
        if name in self._delays[port].streams:
            self._delays[port].end(name)

    def late(self, now: float, again: float) -> Iterator[tuple[int, float]]:
        """Yield each port whose streams are all late, unless it was yielded in the last ``again`` seconds.

        With it comes the least delay of its streams beyond their usual interval, seconds. A port with a stream that
        has ended has all of its tuples.
        """
        for port, delays in self._delays.items():
            ended = any(each.port == port and each.promise == END for each in self._reports.values())
            if not ended and delays.late(now) and now - self._asked.get(port, -again) >= again:
                self._asked[port] = now
                yield port, min(delays.delay(stream, now) for stream in delays.streams)

    def period(self, now: float) -> dict[int, tuple[float, float]]:
        """End a period; return weight and rate in tuples/s of each input, the rate negative if it is not known."""
        seconds, found = now - self._began, {}
        for number, report in self._reports.items():
            before = self._before.get(number)
            began = before is None or report.weight < before.weight  # it was created anew here
            weight = report.weight if before is None or began else report.weight - before.weight
            known = before is not None and seconds > 0.0
            rate = (report.tuples - before.tuples) / seconds if before is not None and known else -1.0
            found[number] = weight, rate
        self._before, self._began = dict(self._reports), now
        return found
