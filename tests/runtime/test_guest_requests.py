"""Guests at a peer: they get what is their own, or was shared with them; everything else is refused by name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import msgspec
import pytest

from synergy_nb.control.identity import NotAllowed
from synergy_nb.control.rights import Acceptance
from synergy_nb.events import (
    ApplicationStopped,
    ComponentMeasurements,
    Event,
    RequestSubmitted,
    decode_events,
    encode_events,
)
from synergy_nb.plan import source
from synergy_nb.reporting.peer_states import PeerState
from synergy_nb.runtime.process._guest_requests import NEEDS, GuestRequests
from synergy_nb.runtime.process.requests import (
    ApplicationId,
    ApplicationState,
    ChangeSinks,
    ContentPiece,
    ContentsFound,
    FindContents,
    FollowJournal,
    GrantRight,
    JournalPart,
    Listed,
    RenewLeases,
    SendContent,
    Submit,
    Submitted,
    pack,
    unpack,
)
from tests.one_peer import OnePeer

PLAN = source("packets", seed=1).sink(id="sink")
DONE = msgspec.msgpack.encode("done")
APPLICATIONS = ("of-ann", "of-bob", "of-owner")


class World:
    """A peer at which ann, bob and an owner have each submitted an application, and what its operations were asked."""

    def __init__(self, **accepts: Any) -> None:
        self.asked: list[tuple[str, bytes]] = []
        self.peer = OnePeer("a", accepts=Acceptance(**accepts))
        for name, user in zip(APPLICATIONS, ("ann", "bob", ""), strict=True):
            self.peer.call(self.peer.synergy.requests.submit, name, PLAN, user=user)
        self.answers: dict[str, bytes] = {}
        names = {*NEEDS, "submit", "grant", "applications", "renew", "contents", "content sent", "state", "events",
                 "change sinks", "follow", "troubles", "errors", "ping", "area", "content"}  # fmt: skip
        self.guests = GuestRequests(
            self.peer.synergy, {name: self._operation(name) for name in names}, self._submitted, cast("Any", self)
        )

    def _operation(self, name: str) -> Callable[[bytes], Awaitable[bytes]]:
        async def serve(payload: bytes) -> bytes:
            self.asked.append((name, payload))
            return self.answers.get(name, DONE)

        return serve

    async def find_for_guest(self, payload: bytes) -> bytes:
        """In the place of the contents of a peer."""
        return await self._operation("contents")(payload)

    async def receive_from_guest(self, sent: SendContent, user: str, folders: Sequence[str]) -> None:
        """The same."""
        self.asked.append((f"content of {user} {folders}", sent.piece.data))

    async def _submitted(self, request: Submit, user: str) -> bytes:
        self.asked.append((f"submit for {user}", request.plan))
        return DONE

    def ask(self, user: str, operation: str, request: Any) -> bytes:
        payload = request if isinstance(request, bytes) else pack(request)

        async def answer() -> bytes:
            return await self.guests(user, operation, payload)

        return asyncio.run(answer())

    def share(self, name: str, user: str, right: str | None) -> None:
        self.peer.call(self.peer.synergy.requests.grant, name, user, right)


@pytest.mark.parametrize("operation", NEEDS)
def test_an_operation_on_an_application_of_somebody_else_needs_the_right(operation: str) -> None:
    world = World()
    assert world.ask("ann", operation, ApplicationId("of-ann")) == DONE
    for name in ("of-bob", "of-owner"):
        with pytest.raises(NotAllowed, match=f"application: '{name}' is not one that 'ann' may"):
            world.ask("ann", operation, ApplicationId(name))
    world.share("of-bob", "ann", "read")
    if NEEDS[operation] == "read":
        assert world.ask("ann", operation, ApplicationId("of-bob")) == DONE
    else:
        with pytest.raises(NotAllowed, match=r"may control; .* share\('ann', 'control'\)"):
            world.ask("ann", operation, ApplicationId("of-bob"))
    world.share("of-bob", "ann", "control")
    assert world.ask("ann", operation, ApplicationId("of-bob")) == DONE
    world.share("of-bob", "ann", None)
    with pytest.raises(NotAllowed):
        world.ask("ann", operation, ApplicationId("of-bob"))
    assert {name for name, _ in world.asked} == {operation}


@pytest.mark.parametrize("operation", ["fetch", "sinks"])
def test_what_is_left_of_an_application_whose_rights_are_forgotten_is_for_no_guest(operation: str) -> None:
    world = World()
    with pytest.raises(NotAllowed, match="application: 'gone' is not one that 'ann' may read"):
        world.ask("ann", operation, ApplicationId("gone"))
    assert world.ask("ann", "leads", ApplicationId("gone")) == DONE, "the peer says that it does not lead it"


@pytest.mark.parametrize("operation", ["area", "content", "join", "nothing"])
def test_what_administers_a_peer_is_not_for_guests(operation: str) -> None:
    world = World()
    with pytest.raises(NotAllowed, match=f"operation: '{operation}' is not for guests"):
        world.ask("ann", operation, b"")
    assert not world.asked


def test_a_guest_takes_the_place_of_what_he_may_control_alone() -> None:
    world = World()
    world.share("of-bob", "ann", "read")
    for name in ("of-bob", "of-owner"):
        with pytest.raises(NotAllowed, match=f"application: '{name}' is not one that 'ann' may control"):
            world.ask("ann", "submit", Submit("x", PLAN.to_bytes(), beside=name))
    world.share("of-bob", "ann", "control")
    for name in ("of-ann", "of-bob"):
        assert world.ask("ann", "submit", Submit("x", PLAN.to_bytes(), beside=name)) == DONE


@pytest.mark.parametrize("user", ["", "ann"])
def test_what_takes_the_place_of_an_application_is_for_those_who_might_use_that_one(user: str) -> None:
    world = World()
    world.share("of-bob", "ann", "control")
    world.share("of-bob", "eve", "read")
    world.peer.call(world.peer.synergy.requests.submit, "x", PLAN, user=user, beside="of-bob")
    for one in ("ann", "bob"):
        assert world.ask(one, "halt", ApplicationId("x")) == DONE
    assert world.ask("eve", "fetch", ApplicationId("x")) == DONE
    for one, operation in (("eve", "halt"), ("zoe", "fetch")):
        with pytest.raises(NotAllowed, match="application: 'x' is not one that"):
            world.ask(one, operation, ApplicationId("x"))


def test_what_takes_the_place_of_an_application_learns_what_is_granted_meanwhile() -> None:
    world = World()
    world.share("of-bob", "ann", "control")
    world.share("of-bob", "zoe", "read")
    world.peer.call(world.peer.synergy.requests.submit, "x", PLAN, user="ann", beside="of-bob")
    world.share("of-bob", "eve", "read")
    for user in ("ann", "zoe"):
        world.share("of-bob", user, None)
    for one, operation in (("ann", "halt"), ("bob", "halt"), ("eve", "fetch")):
        assert world.ask(one, operation, ApplicationId("x")) == DONE
    with pytest.raises(NotAllowed, match="application: 'x' is not one that 'zoe' may read"):
        world.ask("zoe", "fetch", ApplicationId("x"))


def test_destinations_pass_between_what_a_guest_may_control() -> None:
    world = World()
    assert world.ask("ann", "change sinks", ChangeSinks("of-ann", "of-ann", 0)) == DONE
    for before, after in (("of-ann", "of-bob"), ("of-bob", "of-ann")):
        with pytest.raises(NotAllowed, match="application: 'of-bob' is not one that 'ann' may"):
            world.ask("ann", "change sinks", ChangeSinks(before, after, 0))
    assert len(world.asked) == 1


def test_a_submission_is_made_for_the_guest_within_his_number_and_his_files() -> None:
    world = World(applications=2)
    assert world.ask("ann", "submit", Submit("x", PLAN.to_bytes())) == DONE
    assert world.asked == [("submit for ann", PLAN.to_bytes())]
    reads = source("trace", path="/etc/passwd", format="csv", rate=1, columns={"a": "str"}).sink(id="sink")
    with pytest.raises(NotAllowed, match="path: '/etc/passwd'; expected no file"):
        world.ask("ann", "submit", Submit("y", reads.to_bytes()))
    meets = source("socket", address="meter.local:7000", columns={"time": "time", "n": "int"}).sink(id="sink")
    with pytest.raises(NotAllowed, match=r"address: 'meter\.local:7000'; expected no host"):
        world.ask("ann", "submit", Submit("y", meets.to_bytes()))
    with pytest.raises(NotAllowed, match="epoch: 7; expected 0, as only the owner's program continues applications"):
        world.ask("ann", "submit", Submit("y", PLAN.to_bytes(), epoch=7))
    assert World(hosts=("meter.local",)).ask("ann", "submit", Submit("y", meets.to_bytes())) == DONE
    world.peer.call(world.peer.synergy.requests.submit, "second", PLAN, user="ann")
    with pytest.raises(NotAllowed, match="'ann' has 2 applications at this peer; expected at most 2"):
        world.ask("ann", "submit", Submit("z", PLAN.to_bytes()))
    assert world.ask("ann", "submit", Submit("z", PLAN.to_bytes(), trial=True)) == DONE


def test_only_the_owner_of_an_application_shares_it() -> None:
    world = World()
    assert world.ask("ann", "grant", GrantRight("of-ann", "eve", "read")) == DONE
    world.share("of-bob", "ann", "control")
    for name in ("of-bob", "of-owner"):
        with pytest.raises(NotAllowed, match="only its owner shares it"):
            world.ask("ann", "grant", GrantRight(name, "ann", "control"))


def test_lists_show_and_renew_what_a_guest_may_have() -> None:
    world = World()
    listed = [Submitted(ApplicationState(name, "running"), b"", 0.0) for name in APPLICATIONS]
    world.answers["applications"] = pack(Listed(listed))
    found = unpack(world.ask("ann", "applications", b""), Listed).applications
    assert [each.state.application for each in found] == ["of-ann"]
    world.ask("ann", "renew", RenewLeases(list(APPLICATIONS)))
    assert unpack(world.asked[-1][1], RenewLeases).applications == ["of-ann"]


def test_a_peer_tells_a_guest_of_his_own_components_and_events_only() -> None:
    world = World()
    fields = dict.fromkeys(ComponentMeasurements.__struct_fields__)
    parts = [{**fields, "application": name} for name in APPLICATIONS]
    state = PeerState("a", "a", 1, 0.5, 1.0, 0.0, [], list(APPLICATIONS), parts, [], 0, 0)
    world.answers["state"] = pack(state)
    seen = unpack(world.ask("ann", "state", b""), PeerState)
    assert seen.applications == ["of-ann"]
    assert [each["application"] for each in seen.components] == ["of-ann"]
    assert seen.load == 0.5

    journal = [each for name in APPLICATIONS for each in world.peer.noted(RequestSubmitted) if each.subject == name]
    events = encode_events(list(journal))
    world.answers |= {
        "events": events,
        "troubles": events,
        "follow": pack(JournalPart("j", 3, False, msgspec.Raw(events))),
    }
    own = [each for each in decode_events(events) if each.subject == "of-ann"]
    assert decode_events(world.ask("ann", "events", msgspec.msgpack.encode(""))) == own
    assert decode_events(world.ask("ann", "troubles", b"")) == own
    assert decode_events(unpack(world.ask("ann", "follow", FollowJournal()), JournalPart).events) == own
    with pytest.raises(NotAllowed):
        world.ask("ann", "events", msgspec.msgpack.encode("of-bob"))
    world.ask("ann", "errors", b"")
    assert "errors" not in {name for name, _ in world.asked}, "errors of others are not sent to him"


@pytest.mark.parametrize(("accepted", "refused"), [((), True), (("score",), False), (None, False), (("other",), True)])
def test_code_of_a_guest_is_taken_only_where_the_owner_of_the_peer_says_so(
    accepted: tuple[str, ...] | None, refused: bool
) -> None:
    world = World(functions=accepted)
    world.answers["contents"] = pack(ContentsFound("m", ("apply:score@1f", "lookup:ab")))
    file = {"path": "/srv/shop.duckdb", "query": "COPY items TO '/srv/x'", "content": "ab"}
    wanted = FindContents({"apply:score@1f": {}, "lookup:ab": file})
    found = unpack(world.ask("ann", "contents", wanted), ContentsFound)
    asked = unpack(world.asked[-1][1], FindContents).contents
    assert asked == {"apply:score@1f": {}, "lookup:ab": {}}, "the peer would read a file for a guest"
    assert found.lacking == (("lookup:ab",) if refused else ("apply:score@1f", "lookup:ab"))
    assert set(found.refused) == ({"apply:score@1f"} if refused else set())
    sent = SendContent("ann", ContentPiece("apply:score@1f", 0, 1, b"x"))
    if refused:
        with pytest.raises(NotAllowed, match="function 'score' of guest 'ann'; expected"):
            world.ask("ann", "content sent", sent)
    else:
        assert world.ask("ann", "content sent", sent) == b""
        assert world.asked[-1] == ("content of ann ()", b"x")


def test_what_a_guest_gets_of_his_own_names_no_other_application() -> None:
    world = World()
    reason = "QoS impact on of-bob: 0.5 s now; merge of theirs-4-0a1b2c moves"
    world.peer.call(world.peer.synergy.requests.stop, "of-ann", reason)
    state = ApplicationState("of-ann", "stopped", reason)
    events = encode_events([each for each in world.peer.noted(Event) if each.subject == "of-ann"])
    world.answers = {"application": pack(state), "applications": pack(Listed([Submitted(state, b"", 0.0)]))}
    world.answers |= {"events": events, "follow": pack(JournalPart("j", 3, False, msgspec.Raw(events)))}
    told = "QoS impact on another application: 0.5 s now; another application moves"
    assert unpack(world.ask("ann", "application", ApplicationId("of-ann")), ApplicationState).reason == told
    assert unpack(world.ask("ann", "applications", b""), Listed).applications[0].state.reason == told
    for asked in (
        world.ask("ann", "events", msgspec.msgpack.encode("of-ann")),
        unpack(world.ask("ann", "follow", FollowJournal()), JournalPart).events,
    ):
        seen = decode_events(asked)
        assert [each.reason for each in seen if isinstance(each, ApplicationStopped)] == [told]
        assert {each.subject for each in seen} == {"of-ann"}
    offers = ["filter", "apply:secret@1f", "apply:installed:score", "lookup:ab"]
    world.answers["state"] = pack(PeerState("a", "a", 1, 0.5, 1.0, 0.0, offers, [], [], [], 0, 0))
    assert unpack(world.ask("ann", "state", b""), PeerState).offers == ["filter", "apply:installed:score"]
