"""Tests of functions, plans and operators, for their authors: in this process, in milliseconds, without peers.

:func:`run` gives the rows of a plan, a stream or a function; :func:`check` asserts that these depend on nothing but the
rows that go in. :func:`feed` and :func:`drive` are for authors of operators: they cut rows into what an operator
receives, and pass it on. :func:`check_source` and :func:`check_sink` are for authors of connectors.
:class:`KafkaBrokers` are brokers for plans that read or write topics.
"""

from __future__ import annotations

from synergy_nb.testing._checks import check
from synergy_nb.testing._feeding import drive, feed
from synergy_nb.testing._kafka_brokers import KafkaBrokers
from synergy_nb.testing._running import run
from synergy_nb.testing._sink_checks import check_sink
from synergy_nb.testing._source_checks import check_source

__all__ = ["KafkaBrokers", "check", "check_sink", "check_source", "drive", "feed", "run"]
