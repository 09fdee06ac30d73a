"""Leaf sets of a few drawn rings, compared with a sort of everything; the others of their size are in `test_pastry`."""

from __future__ import annotations

import random

import pytest

from synergy_nb.overlay.ring import MASK, LeafSet, ring_position
from tests.overlay.naive_ring import ADDRESSES, naive_leaves, naive_root


@pytest.mark.parametrize("count", [0, 1, 3, 8, 30])
def test_a_leaf_set_knows_its_sides_its_size_and_who_is_nearest(count: int) -> None:
    rng = random.Random(count)
    leaves, there = LeafSet("me", half=4), rng.sample(ADDRESSES, count)
    for address in there:
        leaves.add(address)
        assert not leaves.add(address), "it is there already"
    assert not leaves.add("me")
    left, right = naive_leaves("me", set(there), 4)
    assert (list(leaves.left), list(leaves.right)) == (left, right)
    assert len(leaves) == len({*left, *right})
    assert set(leaves) == {*left, *right}
    assert ("me" in leaves, all(each in leaves for each in left)) == (False, True)
    assert set(leaves.neighbours(2)) == {*left[:2], *right[:2]}
    numbers = [rng.randrange(MASK) for _ in range(60)] + [ring_position(each) for each in ("me", *left, *right)]
    for number in numbers:
        if leaves.covers(number):
            assert leaves.nearest(number) == naive_root(number, [*there, "me"])
    assert all(map(leaves.covers, numbers[60:]))
    assert all(map(leaves.covers, numbers)) == (count < 8), "of a large ring it knows an arc"


def test_between_two_peers_that_are_as_far_the_one_of_the_smaller_position_is_nearest() -> None:
    leaves = LeafSet("me", half=4)
    leaves.add("a0")
    one, other = sorted(map(ring_position, ("me", "a0")))
    middle = (one + other) // 2
    if (other - one) % 2:
        assert {leaves.nearest(middle), leaves.nearest(middle + 1)} == {"me", "a0"}
    else:
        assert ring_position(leaves.nearest(middle)) == one


def test_a_discarded_peer_leaves_its_place_to_the_next_that_is_known_and_a_cleared_set_is_empty() -> None:
    leaves, there = LeafSet("me", half=2), set(ADDRESSES[:6])
    for address in there:
        leaves.add(address)
    gone = leaves.left[0]
    before = leaves.version
    assert leaves.discard(gone)
    assert not leaves.discard(gone)
    assert leaves.version == before + 1
    for address in there - {gone}:
        leaves.add(address)
    assert (list(leaves.left), list(leaves.right)) == naive_leaves("me", there - {gone}, 2)
    leaves.clear()
    assert (len(leaves), tuple(leaves), leaves.nearest(7)) == (0, (), "me")


def test_a_leaf_set_needs_a_peer_on_each_side_and_can_do_with_one() -> None:
    leaves = LeafSet("me", half=1)
    for address in ADDRESSES[:5]:
        leaves.add(address)
    assert (list(leaves.left), list(leaves.right)) == naive_leaves("me", set(ADDRESSES[:5]), 1)
    with pytest.raises(ValueError, match="half: 0 peers on each side; expected at least 1"):
        LeafSet("me", half=0)
