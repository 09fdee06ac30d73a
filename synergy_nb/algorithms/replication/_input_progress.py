"""Progress of the inputs of a reader of active replicas: weights and rates in a period, and delays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from synergy_nb.algorithms.replication.revival import InputDelays
from synergy_nb.dataflow.streams.hosting.input_reports import InputReport
from synergy_nb.dataflow.tuples import END, START


class InputProgress:
    """Progress of the inputs of one component.

    ``now``: time at which the first period begins, seconds.
    """

    def __init__(self, now: float, late: float) -> None:
        self._period_start = now
        # delay beyond the usual interval above which a stream is late, seconds; it is also the interval of a stream of
        # which no interval is known yet
        self._late = late
        self._reports: dict[int, InputReport] = {}
        self._period_reports: dict[int, InputReport] = {}  # at the start of the period
        self._delays: dict[int, InputDelays] = {}  # by port
        self._asked: dict[int, float] = {}  # port to the time of the last request, seconds

    def update(self, reports: Mapping[int, InputReport], now: float) -> None:
        """Handle a report of all inputs.

        ``reports``: number of each input of the component to its report; ``now``: time of the report, seconds.
        """
        first = not self._reports
        for number in self._reports.keys() - reports.keys():
            self._end(self._reports[number].port, str(number))
            self._period_reports.pop(number, None)
        for number, report in reports.items():
            delays = self._delays.get(report.port)
            if delays is None:
                delays = self._delays[report.port] = InputDelays(self._late, self._late)
            name, known = str(number), self._reports.get(number)
            if report.promise == END:
                self._end(report.port, name)
            elif name not in delays.streams:
                if report.promise > START or not (first or known):  # a stream that is added later counts from now on
                    delays.begin(name, now)
            elif known is not None and report.promise > known.promise:
                delays.promise(name, now)
        self._reports = dict(reports)

    def _end(self, port: int, name: str) -> None:
        if name in self._delays[port].streams:
            self._delays[port].end(name)

    def late(self, now: float, again: float) -> Iterator[tuple[int, float]]:
        """Yield each port whose streams are all late, with the least delay of these beyond their interval, seconds.

        A port with a stream that has ended is not late, as it has all of its tuples.

        ``again``: time after which a port that was yielded is yielded again, seconds.
        """
        for port, delays in self._delays.items():
            ended = any(each.port == port and each.promise == END for each in self._reports.values())
            if not ended and delays.late(now) and now - self._asked.get(port, -again) >= again:
                self._asked[port] = now
                yield port, min(delays.delay(stream, now) for stream in delays.streams)

    def period(self, now: float) -> dict[int, tuple[float, float]]:
        """End a period, and return the weight and the rate (tuples/s; negative if unknown) of each input in it."""
        seconds, found = now - self._period_start, {}
        for number, report in self._reports.items():
            before = self._period_reports.get(number)
            began = before is None or report.weight < before.weight  # it was created anew here
            weight = report.weight if before is None or began else report.weight - before.weight
            known = before is not None and seconds > 0.0
            rate = (report.tuples - before.tuples) / seconds if before is not None and known else -1.0
            found[number] = weight, rate
        self._period_reports, self._period_start = dict(self._reports), now
        return found
