"""Messages of a driver to its own peer: declared, handled, and refused from any other sender."""

from __future__ import annotations

import msgspec
import pytest

from synergy_nb.assembly import PeerConfig, SynergyPeer
from synergy_nb.control import driver_messages as driver
from synergy_nb.control.peer import DRIVER, Codec, DriverMessage, Instruct, Record, UnknownMessage
from synergy_nb.models.signatures import Segment
from synergy_nb.plan import source
from synergy_nb.runtime.process._peer_reports import Advertised, LoadReports
from synergy_nb.runtime.transport.wide_area import WideArea
from tests.driver_message_examples import EXAMPLES
from tests.simulated import Ring


def test_a_peer_has_a_handler_for_each_driver_message_and_no_other() -> None:
    handled = SynergyPeer("a", PeerConfig()).peer.driver_message_types
    assert set(handled) == {type(each) for each in EXAMPLES}


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda each: type(each).__name__)
def test_the_codec_of_a_driver_decodes_driver_messages_and_that_of_links_refuses_them(
    message: DriverMessage,
) -> None:
    peer = SynergyPeer("a", PeerConfig()).peer
    everything = Codec((*peer.message_types, *peer.driver_message_types))
    data = everything.encode(message)
    assert everything.encode(everything.decode(data)) == data  # as bytes: a rate that is not a number equals nothing
    with pytest.raises(UnknownMessage, match=type(message).__name__):
        Codec(peer.message_types).decode(data)


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda each: type(each).__name__)
def test_driver_messages_of_another_sender_are_refused_by_name(message: DriverMessage) -> None:
    peer = SynergyPeer("a", PeerConfig()).peer
    (effect,) = peer.receive("a", message, 1.0)
    assert isinstance(effect, Record)
    assert effect.event.detail == {"message": type(message).__name__, "reason": "only its driver may send it"}


def answers(peer: SynergyPeer, message: DriverMessage) -> list[msgspec.Struct]:
    effects = peer.peer.receive(DRIVER, message, 1.0)
    return [each.instruction for each in effects if isinstance(each, Instruct)]


def test_commands_that_make_no_sense_are_answered_with_the_reason() -> None:
    peer = SynergyPeer("a", PeerConfig())
    (answer,) = answers(peer, driver.SubmitPlan("r", b"no plan", number=7))
    assert isinstance(answer, driver.Answer)
    assert (answer.number, answer.begun) == (7, False)
    assert answer.refusal
    (answer,) = answers(peer, driver.MoveComponent("r", "filter", "b", 8))
    assert answer == driver.Answer(8, "application: 'r'; expected one that runs and was submitted at this peer", False)
    assert answers(peer, driver.StopApplication("r")) == []


def test_hosts_are_found_by_number() -> None:
    ring = Ring(4, seed=3)
    found: list[object] = []
    ring.simulation.on_instruction.append(lambda _, instruction: found.append(instruction))
    ring.simulation.report("peer-1", driver.LookUpHosts(5, ("filter", "nothing"), 3.0))
    ring.run(1.0)
    assert driver.HostsLookedUp(5, {"filter": [f"peer-{n}" for n in range(4)], "nothing": []}) in found


def test_bandwidths_of_a_wide_area_are_those_of_the_links() -> None:
    area = WideArea([[0, 10, 20], [10, 0, 30], [20, 30, 0]], [[5e8, 1e6, 2e6], [1e6, 5e8, 3e6], [2e6, 3e6, 5e8]])
    area.set_sites(["tcp://a", "tcp://b"])
    peer = SynergyPeer("tcp://a", PeerConfig(bandwidth=2e8))
    assert answers(peer, driver.BandwidthsLimited(area.bandwidths("tcp://a"), area.sites)) == []
    shape = area.shape("tcp://a")
    for other in ("tcp://b", "tcp://c", "tcp://d"):  # those without a place are at the site of their key
        assert peer.ledger.bandwidth_from(other) == min(shape(other)[1], 2e8)
    answers(peer, driver.BandwidthsLimited())
    assert peer.ledger.bandwidth_from("tcp://b") == 2e8


def test_unchanged_values_are_not_reported_again() -> None:
    sent: list[DriverMessage] = []
    times = iter((0.0, 0.1, 0.2, 0.9, 1.3))
    advertised = Advertised(lambda: next(times), sent.append)
    for cores in (0.5, 0.5, 0.4, 0.4, 0.4):
        advertised.receive("b", cores)
    assert sent == [driver.CoresAdvertised("b", cores) for cores in (0.5, 0.4, 0.4)]
    sent.clear()
    loads = LoadReports(sent.append)
    segments = (Segment(0.0, 1.0, 0.5), Segment(1.0, 1.0, 0.1))
    for measured in ({}, {("r", "filter"): segments}, {}, {}):
        loads.measured(measured)
    assert sent == [
        driver.LoadsMeasured((driver.MeasuredLoad("r", "filter", segments),)),
        driver.LoadsMeasured(()),
    ]


def test_a_plan_is_submitted_and_stopped_by_messages() -> None:
    ring = Ring(4, seed=3, codec=True)
    plan = source("packets", rate=100.0).filter("bytes > 0").sink(delay="2 s")
    ring.submit("peer-1", "r", plan)
    assert ring.until_decided("r").status == "running"
    with pytest.raises(ValueError, match="request: 'r'; expected an identifier that is not in use"):
        ring.submit("peer-1", "r", plan)
    ring.simulation.report("peer-1", driver.StopApplication("r"))
    assert ring.status("r") == "stopped"
