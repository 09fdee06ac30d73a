"""Items that are made while the ones before them are used."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Made = TypeVar("Made")


def one_ahead(items: Iterator[Made], thread: str) -> Iterator[Made]:
    """Yield items, none of which is None; each is made in a thread of this name while the one before it is used."""
    with ThreadPoolExecutor(1, thread_name_prefix=thread) as ahead:
        coming = ahead.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = ahead.submit(next, items, None)
            yield item
