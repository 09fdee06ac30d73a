"""Rights to applications, and what a peer accepts from guests."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from synergy_nb.control.ledger import Ledger
from synergy_nb.control.rights import Acceptance, Admission, Rights


def test_an_owner_of_the_cluster_may_do_everything_and_a_guest_what_is_his_own_or_granted() -> None:
    rights = Rights("ann").granted("bob", "read").granted("eve", "control")
    allowed = {
        user: [rights.allow(user, right) for right in ("read", "control")] for user in ("", "ann", "bob", "eve", "x")
    }
    assert allowed == {
        "": [True, True], "ann": [True, True], "bob": [True, False], "eve": [True, True], "x": [False, False],
    }  # fmt: skip
    assert not rights.granted("eve", "read").allow("eve", "control")
    assert not rights.granted("bob", None).allow("bob", "read")


def test_the_components_of_a_guest_have_his_share_of_the_cores_together_and_the_owner_all() -> None:
    ledger = Ledger(2.0, 1e6)
    admission = Admission(ledger, Acceptance(cores=0.5))
    for request, user in (("a", "ann"), ("b", "ann"), ("c", "bob"), ("d", "")):
        assert admission.refusal(request, user) == ""
    assert ledger.commit("a", "filter", 0.75, {}) == ""
    assert ledger.residual_cores("b") == 0.25
    assert ledger.commit("b", "filter", 0.5, {}) == (
        "processing capacity: 0.25 left of the 1 core that its user may have here, where 0.5 are needed"
    )
    assert [ledger.residual_cores("c"), ledger.residual_cores("d")] == [1.0, 1.25]
    ledger.release("a")
    assert admission.refusal("b", "ann") == ""
    assert ledger.commit("b", "filter", 0.5, {}) == ""
    assert ledger.overbooked() is None


def test_the_components_of_a_guest_have_his_share_of_the_memory_together_and_the_owner_all() -> None:
    ledger = Ledger(2.0, 1e6)
    admission = Admission(ledger, Acceptance(memory=0.5), 1e9)
    for request, user in (("a", "ann"), ("b", "ann"), ("c", "bob"), ("d", "")):
        assert admission.refusal(request, user) == ""
    assert ledger.commit("a", "sort", 0.1, {}, memory=3e8) == ""
    assert ledger.beyond_memory("a", 2e8) == ledger.beyond_memory("c", 5e8) == ledger.beyond_memory("d", 5e9) == ""
    said = "memory: 200 MB left of the 500 MB that its user may have here, where 300 MB are needed"
    assert ledger.beyond_memory("b", 3e8) == ledger.commit("b", "sort", 0.1, {}, memory=3e8) == said
    ledger.reserve("b", "sort", 0.1, None, 0.0, memory=1e8)
    assert ledger.overbooked() is None
    assert ledger.beyond_memory("a", 6e8).startswith("memory: 400 MB left"), "what it has itself is no obstacle"
    for request, user in (("c", "bob"), ("d", "")):
        assert ledger.commit(request, "sort", 0.1, {}, memory=5e8) == "", user
    ledger.release("a")
    admission.refusal("b", "ann")
    assert ledger.commit("b", "join", 0.1, {}, memory=4e8) == ""


def test_a_peer_without_a_limit_of_memory_has_no_quota() -> None:
    ledger = Ledger(1.0, 1e6)
    assert Admission(ledger, Acceptance(memory=0.0)).refusal("a", "ann") == ""
    assert ledger.commit("a", "sort", 0.1, {}, memory=1e15) == ""


def test_reservations_of_a_guest_count_on_him_and_what_is_released_counts_no_more() -> None:
    ledger = Ledger(1.0, 1e6)
    admission = Admission(ledger, Acceptance(cores=0.5))
    admission.refusal("a", "ann")
    admission.refusal("b", "ann")
    ledger.reserve("a", "filter", 0.5, None, 0.0)
    assert ledger.residual_cores("b") == 0.0
    ledger.expire("a")
    assert ledger.residual_cores("b") == 0.5
    ledger.expire("b")  # it holds nothing: nobody counts it any more
    assert ledger.residual_cores("b") == 1.0


def test_a_peer_refuses_plans_of_others_than_its_owner_accepts() -> None:
    admission = Admission(Ledger(1.0, 1e6), Acceptance(users=("ann",)))
    assert admission.refusal("a", "ann") == admission.refusal("b", "") == ""
    assert admission.refusal("c", "bob").startswith("this peer accepts no plans of bob; expected")


@pytest.mark.parametrize(
    "field",
    [
        *({"cores": each} for each in (1.5, -0.1, math.nan, "half", None)),
        *({"memory": each} for each in (1.5, -0.1, math.nan, "half", None)),
        *({"applications": each} for each in (-1, 1.5, "four")),
        *({name: "ann"} for name in ("users", "functions", "folders")),
        *({"folders": each} for each in (None, (1,))),
    ],
)
def test_what_no_peer_can_accept_is_refused(field: dict[str, Any]) -> None:
    ((name, value),) = field.items()
    with pytest.raises(ValueError, match=re.escape(f"{name}: {value!r}; expected")):
        Acceptance(**field)


def test_the_number_of_applications_of_a_guest_is_limited() -> None:
    accepted = Acceptance(applications=1)
    assert accepted.too_many("ann", 0) == ""
    assert accepted.too_many("ann", 1) == (
        "user 'ann' has 1 application at this peer; expected at most 1: stop one, or ask the peer's owner"
    )
