"""Leases of the entries that a peer stores, compared with a slow twin."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from synergy_nb.overlay.directory_entries import Entry, EntryCopy, Store


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0.0, 9.0), st.sampled_from(["put", "renew", "expire"]))))
def test_an_entry_expires_when_its_lease_ends_and_not_before(acts: list[tuple[str, float, str]]) -> None:
    store, ends, now = Store(), dict[str, float](), 0.0  # host to the end of its lease, as the slow twin knows it
    for host, seconds, act in acts:
        now += 1.0
        if act == "put":
            store.put(EntryCopy(Entry("n", host, "component", {}, 100.0), 1, seconds), now)
            ends[host] = max(ends.get(host, 0.0), now + seconds) if seconds or host in ends else 0.0
        elif act == "renew" and store.renew("n", "component", host, 1, now, seconds):
            ends[host] = max(ends[host], now + seconds)
        elif act == "expire":
            store.expire(now)
            ends = {each: end for each, end in ends.items() if end > now}
            assert len(store) == len(ends)
        living = {each for each, end in ends.items() if end > now}
        assert {entry.host for entry in store.get("n", now)} == living
        renewals = {host: store.renewal("n", "component", host, now) for host in "abc"}
        assert renewals == {host: (1, ends[host] - now) if host in living else None for host in "abc"}
        copied = {host: store.copy("n", "component", host, now) for host in "abc"}
        assert {host: (each.version, each.remaining) for host, each in copied.items() if each} == {
            host: renewal for host, renewal in renewals.items() if renewal
        }
        assert list(store.copies("n", now)) == [copied[host] for host in dict.fromkeys(ends) if copied[host]]


def test_the_end_of_a_lease_is_the_first_moment_without_the_entry() -> None:
    store = Store()
    store.put(EntryCopy(Entry("n", "h", "component", {}, 30.0), 1, 5.0), 10.0)
    store.expire(14.75)
    assert (len(store), len(store.get("n", 14.75)), len(store.get("n", 15.0))) == (1, 1, 0)
    store.expire(15.0)
    assert (len(store), store.names()) == (0, ())
