"""The failure detector: its speed, its errors, the correction of false beliefs, and its memory."""

from __future__ import annotations

import statistics
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synergy_nb.control.peer import Effect, Message, Peer, Send
from synergy_nb.overlay.gossip import ALIVE, DEAD, LEFT, SUSPECT, Gossip, News, Ping, PingAck, PingFor, PingForAck
from synergy_nb.overlay.membership import Membership
from synergy_nb.overlay.pastry import Pastry
from tests.overlay_world import World


def bench(*known: str) -> tuple[Peer, Pastry, Membership]:
    """A joined peer that knows some others; what it sends is looked at, not carried."""
    peer = Peer("me", seed=1)
    pastry = Pastry(peer)
    membership = Membership(peer, pastry)
    peer.add(pastry)
    peer.add(membership)
    peer.start(100.0)
    peer.call(100.0, pastry.join, None)
    for address in known:
        peer.call(100.0, pastry.consider, address)
    return peer, pastry, membership


def sent(effects: list[Effect], kind: type[Message]) -> list[Send]:
    return [effect for effect in effects if isinstance(effect, Send) and isinstance(effect.message, kind)]


def dies(peer: Peer, membership: Membership, address: str, incarnation: int, now: float = 100.1) -> float:
    """Have a peer hear of a death, and find out that it is so; return the time."""
    peer.receive("b", Ping(1, 1, (News(address, DEAD, incarnation),)), now)
    while not membership.is_dead(address):
        now += 0.1
        peer.tick(now)
        assert now < 110.0
    return now


def deaths(world: World) -> list[tuple[float, str, str]]:
    """A list that fills with (when, who says so, who died)."""
    found: list[tuple[float, str, str]] = []
    for address, membership in world.membership.items():

        def note(other: str, address: str = address) -> None:
            found.append((world.simulation.now, address, other))

        membership.on_dead.append(note)
    return found


# -- detection -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 8, 30, 88])
def test_a_crashed_peer_is_declared_dead_within_a_few_seconds(count: int) -> None:
    firsts, lasts = [], []
    for seed in range(6):
        world = World(count, seed=seed, assembled=True)
        world.run(5.0 + seed / 10)
        found = deaths(world)
        gone = world.rng.choice(world.live)
        concerned = {address for address, pastry in world.pastry.items() if gone in pastry.known()} - {gone}
        start = world.simulation.now
        world.crash(gone)
        world.run(9.0)
        assert {other for _, _, other in found} == {gone}
        told = {who: when - start for when, who, _ in found}
        assert concerned <= set(told)
        firsts.append(min(told.values()))
        lasts.append(max(told[who] for who in concerned))
    assert statistics.mean(firsts) < 3.0
    assert max(lasts) < 6.0


@pytest.mark.slow
def test_everybody_in_a_large_ring_hears_of_a_death() -> None:
    world = World(200, seed=1, assembled=True)
    world.run(3.0)
    gone = world.live[50]
    world.crash(gone)
    world.run(12.0)
    assert all(membership.is_dead(gone) for membership in world.membership.values())


@pytest.mark.slow
def test_nobody_is_declared_dead_although_messages_are_lost() -> None:
    world = World(20, seed=2, assembled=True)
    world.simulation.loss = 0.1
    world.simulation.duplication = world.simulation.reordering = 0.1
    found = deaths(world)
    world.run(120.0)
    assert found == []


@pytest.mark.slow
def test_a_watched_peer_outside_the_table_is_found_dead_in_time() -> None:
    world = World(300, seed=3, assembled=True)
    world.run(3.0)
    watcher = world.live[0]
    gone = next(
        address
        for address in world.live[1:]
        if address not in world.pastry[watcher].known() and watcher not in world.pastry[address].known()
    )
    world.membership[watcher].watch(gone)
    told: list[float] = []
    world.membership[watcher].on_dead.append(lambda address: told.append(world.simulation.now))
    world.run(3.0)
    assert gone in world.pastry[watcher].latency  # pinged
    start = world.simulation.now
    world.crash(gone)
    world.run(8.0)
    assert len(told) == 1
    assert told[0] - start < 4.5


def test_a_peer_is_pinged_until_every_watch_is_cancelled() -> None:
    peer, _, membership = bench()
    membership.watch("far")
    membership.watch("far")
    membership.watch("me")
    membership.unwatch("far")
    assert [effect.to for effect in sent(peer.tick(101.0), Ping)] == ["far"]
    membership.unwatch("far")
    membership.unwatch("far")
    peer.receive("far", PingAck(10**9, 1, ()), 101.1)
    assert all(effect.to != "far" for effect in sent(peer.tick(108.0), Ping))


def test_a_peer_that_did_not_answer_another_protocol_is_pinged_at_once() -> None:
    peer, _, membership = bench("a")
    (effect,) = sent(peer.call(100.01, membership.suspect, "a"), Ping)
    assert effect.to == "a"
    assert sent(peer.call(100.02, membership.suspect, "a"), Ping) == []  # already under way


def test_others_are_asked_before_anybody_is_suspected() -> None:
    peer, _, membership = bench("a", "b", "c", "d", "e")
    now = 100.0
    asked: list[Send] = []
    target = ""
    while not asked:
        now += 0.5
        effects = peer.tick(now)
        target = target or sent(effects, Ping)[0].to
        for effect in sent(effects, Ping):
            if effect.to != target:
                assert isinstance(effect.message, Ping)
                peer.receive(effect.to, PingAck(effect.message.number, 1, ()), now + 0.01)
        asked = sent(effects, PingFor)
    assert len(asked) == 3
    assert target not in {effect.to for effect in asked}
    request = asked[0].message
    assert isinstance(request, PingFor)
    assert request.target == target
    peer.receive(asked[0].to, PingForAck(request.number, target, 1), now + 0.2)
    peer.tick(now + 0.5)
    assert membership.status(target) == ALIVE


def test_a_helper_pings_and_reports() -> None:
    peer, _, _ = bench("a", "b")
    (ping,) = sent(peer.receive("a", PingFor(7, "b", ()), 100.1), Ping)
    assert ping.to == "b"
    assert isinstance(ping.message, Ping)
    assert Send("a", PingForAck(7, "b", 3)) in peer.receive("b", PingAck(ping.message.number, 3, ()), 100.2)
    assert sent(peer.receive("b", PingAck(ping.message.number, 3, ()), 100.3), PingForAck) == []  # once


# -- taking back ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [1.0, 4.0, 12.0, 40.0])
def test_a_peer_that_hung_is_taken_in_again_and_accuses_nobody(seconds: float) -> None:
    world = World(16, seed=4, assembled=True)
    world.run(5.0)
    found = deaths(world)
    refuted: list[float] = []
    world.membership["p3"].on_refuted.append(lambda: refuted.append(world.simulation.now))
    world.simulation.hang("p3", seconds)
    world.run(seconds + 20.0)
    assert {other for _, _, other in found} == ({"p3"} if seconds > 3.0 else set())
    assert bool(refuted) == (seconds > 3.0)
    assert not world.false_deaths()
    assert not world.wrong_leaf_sets()


@pytest.mark.parametrize("seconds", [4.0, 12.0])
def test_a_peer_that_was_cut_off_accuses_nobody_of_those_that_it_could_not_reach(seconds: float) -> None:
    """Seen in a campaign: it came back, spread its verdicts, and applications were taken over from living peers."""
    for seed in range(4):
        world = World(16, seed=seed, assembled=True)
        world.run(5.0)
        found = deaths(world)
        world.simulation.partition([["p3"]])
        world.run(seconds)
        world.simulation.heal()
        world.run(20.0)
        assert {other for _, who, other in found if who != "p3"} == {"p3"}
        assert not [other for _, who, other in found if who == "p3"], "nobody confirms what it believes of the others"
        assert not world.false_deaths()
        assert not world.wrong_leaf_sets()


def test_a_restarted_peer_overrides_the_death_of_its_earlier_life() -> None:
    world = World(16, seed=5, assembled=True)
    world.run(5.0)
    world.crash("p3")
    world.run(10.0)
    assert world.membership["p1"].is_dead("p3")
    back: list[str] = []
    world.membership["p1"].on_alive.append(back.append)
    world.restart("p3", "p0")
    world.run(10.0)
    assert back == ["p3"]
    assert not world.false_deaths()
    assert not world.wrong_leaf_sets()


def test_a_charge_is_refuted_at_once_and_to_whoever_believes_it() -> None:
    peer, _, membership = bench("a")
    own = membership.incarnation
    refuted: list[int] = []
    membership.on_refuted.append(lambda: refuted.append(1))
    effects = peer.receive("a", PingAck(1, 1, (News("me", DEAD, own),)), 100.1)
    assert membership.incarnation == own + 1
    (ping,) = sent(effects, Ping)
    assert ping.to == "a"
    assert isinstance(ping.message, Ping)
    assert ping.message.incarnation == own + 1
    assert refuted == [1]
    (ack,) = sent(peer.receive("a", Ping(2, 1, (News("me", SUSPECT, own),)), 100.2), PingAck)  # of the past
    assert isinstance(ack.message, PingAck)
    assert ack.message.incarnation == own + 1


def test_a_dead_peer_that_sends_is_told_of_its_death() -> None:
    peer, _, membership = bench("a", "b")
    now = dies(peer, membership, "a", 5)
    (ack,) = sent(peer.receive("a", Ping(1, 5, ()), now), PingAck)
    assert isinstance(ack.message, PingAck)
    assert News("a", DEAD, 5) in ack.message.news
    peer.receive("a", Ping(2, 6, ()), now)
    assert not membership.is_dead("a")


def test_news_of_a_dead_peer_counts_after_it_has_refuted_its_death() -> None:
    peer, _, membership = bench("a", "b", "c")
    now = dies(peer, membership, "a", 5)
    peer.receive("c", Ping(1, 1, ()), now)
    peer.receive("a", Ping(1, 5, (News("c", DEAD, 1),)), now)
    peer.receive("a", PingFor(2, "b", (News("c", DEAD, 1),)), now)
    peer.receive("a", PingAck(1, 5, (News("c", DEAD, 1), News("me", DEAD, membership.incarnation))), now)
    assert membership.status("c") == ALIVE
    assert membership._died >= 0, "what it says of this peer counts, so that it is refuted"
    peer.receive("a", Ping(3, 6, (News("c", DEAD, 1),), 8.0), now)
    assert membership.status("c") == ALIVE, "what a late peer says of others does not count"
    peer.receive("a", Ping(4, 6, (News("c", DEAD, 1),)), now)
    assert membership.status("c") == SUSPECT


def test_a_peer_that_was_declared_dead_spreads_its_verdicts_no_more() -> None:
    peer, _, membership = bench("a", "b")
    peer.receive("b", Ping(1, 1, (News("c", DEAD, 5),)), 100.1)
    own = membership.incarnation
    effects = peer.receive("a", PingAck(1, 1, (News("me", DEAD, own),)), 100.2)
    news = [piece for each in sent(effects, Ping) if isinstance(each.message, Ping) for piece in each.message.news]
    assert news == [News("me", ALIVE, own + 1)]


def test_a_dead_peer_of_whom_others_speak_is_pinged_but_not_taken_in() -> None:
    peer, pastry, membership = bench("a", "b")
    now = dies(peer, membership, "a", 5)
    effects = peer.call(now + 5.0, pastry.consider, "a")
    assert "a" not in pastry.known()
    assert [effect.to for effect in sent(effects, Ping)] == ["a"]
    assert sent(peer.call(now + 5.1, pastry.consider, "a"), Ping) == []  # not again and again


def test_a_peer_that_left_is_not_looked_for() -> None:
    world = World(10, seed=6, assembled=True)
    world.run(3.0)
    world.call("p4", world.pastry["p4"].leave)
    world.crash("p4")
    world.run(3.0)
    assert all(membership.status("p4") == LEFT for membership in world.membership.values())
    sent_to: list[str] = []
    push = world.simulation.put

    def spy(when: float, address: str, sender: str, message: Message | None) -> None:
        sent_to.append(address)
        push(when, address, sender, message)

    world.simulation.put = spy  # type: ignore[method-assign]
    world.simulation.reordering = 1e-12  # so that all messages pass the spy
    world.run(60.0)
    assert "p4" not in sent_to


# -- what is believed ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from((ALIVE, SUSPECT, DEAD, LEFT)), st.integers(1, 4)),
        min_size=1,
        max_size=4,
    )
)
def test_the_order_in_which_news_arrives_does_not_matter(pieces: list[tuple[str, int, int]]) -> None:
    outcomes = set()
    for order in permutations(pieces):
        peer, _, membership = bench("a", "b", "c")
        for piece in order:
            peer.receive("d", Ping(1, 1, (News(*piece),)), 100.1)
        outcomes.add(tuple((membership.status(address), membership.is_dead(address)) for address in "abc"))
    assert len(outcomes) == 1
    assert all((status >= DEAD) == dead for status, dead in outcomes.pop())


def test_suspicion_of_a_stranger_is_no_concern_but_death_is() -> None:
    peer, _, membership = bench("a")
    peer.receive("a", Ping(1, 1, (News("stranger", SUSPECT, 1),)), 100.1)
    assert membership.status("stranger") == ALIVE
    now = dies(peer, membership, "stranger", 1)
    (ack,) = sent(peer.receive("a", Ping(3, 1, ()), now), PingAck)
    assert isinstance(ack.message, PingAck)
    assert News("stranger", DEAD, 1) in ack.message.news  # passed on


def test_a_death_that_others_tell_is_not_believed_of_a_peer_that_answers() -> None:
    """Seen in trials: the old verdicts of a peer that had been cut off ended applications of peers that lived."""
    peer, _, membership = bench("a", "b")
    died: list[str] = []
    membership.on_dead.append(died.append)
    peer.receive("b", Ping(1, 1, ()), 100.1)
    (ping,) = sent(peer.receive("a", Ping(1, 1, (News("b", DEAD, 1),)), 100.2), Ping)
    assert ping.to == "b"
    assert isinstance(ping.message, Ping)
    assert News("b", DEAD, 1) in ping.message.news, "it has to refute that"
    peer.receive("b", PingAck(ping.message.number, 2, ()), 100.3)
    assert (membership.status("b"), died) == (ALIVE, [])


def test_a_peer_whose_machine_refuses_connections_is_dead_within_two_seconds() -> None:
    world = World(16, seed=4, assembled=True)
    world.run(5.0)
    found = deaths(world)
    concerned = {address for address, pastry in world.pastry.items() if "p3" in pastry.known()} - {"p3"}
    start = world.simulation.now
    world.crash("p3")
    world.run(2.5)
    told = {who: when - start for when, who, other in found if other == "p3"}
    assert concerned <= told.keys()
    assert min(told.values()) < 2.0
    assert all(world.membership[address].has_ended("p3") for address in concerned)


def test_a_late_peer_says_so_and_others_wait_for_it() -> None:
    peer, _, membership = bench("a", "b", "c")
    assert membership.stretch == 1.0
    late = sent(peer.tick(110.0), Ping)
    assert membership.stretch == 8.0
    assert all(ping.message.stretch == 8.0 for ping in late)  # type: ignore[attr-defined]
    for step in range(40):
        peer.tick(110.5 + 0.5 * step)
    assert membership.stretch == 1.0


def test_a_dead_peer_is_pinged_more_and_more_rarely_also_by_the_last_one() -> None:
    world = World(2, seed=1, assembled=True)
    world.tells = False
    world.run(3.0)
    world.crash("p1")
    world.run(20.0)
    assert world.membership["p0"].is_dead("p1")
    counts = []
    for seconds in (60.0, 600.0, 600.0, 600.0, 600.0):
        before = world.simulation.messages
        world.run(seconds)
        counts.append(world.simulation.messages - before)
    assert 0 < counts[0] < 20
    assert counts[1] < 30
    assert counts[-1] == 0, "it gives up"


def test_a_dead_peer_whose_link_fails_again_is_not_pinged_for_that() -> None:
    """Each ping opened a link, whose failure was a reason to ping: five a second, for ever."""
    peer, _, membership = bench("a", "b")
    assert [each.to for each in sent(peer.call(100.0, membership.suspect, "a"), Ping)] == ["a"]
    now = dies(peer, membership, "a", 1)
    assert sent(peer.call(now, membership.suspect, "a"), Ping) == []


def test_malformed_news_is_ignored() -> None:
    peer, _, membership = bench("a")
    peer.receive("a", Ping(1, 1, (News("a", 9, 5), News("a", -1, 5))), 100.1)
    assert membership.status("a") == ALIVE


def test_a_late_period_suspects_no_peer() -> None:
    peer, _, membership = bench("a", "b")
    peer.tick(101.0)
    for now in (110.0, 120.0, 130.0):  # stopped again and again: no ping was ever given its time
        peer.tick(now)
    assert [membership.status(address) for address in "ab"] == [ALIVE, ALIVE]


@pytest.mark.parametrize(("late", "asked"), [(0.25, True), (0.26, False)])
def test_a_peer_that_is_late_by_more_than_half_a_period_judges_nobody(late: float, asked: bool) -> None:
    peer, _, _ = bench("a", "b")
    while (due := peer.next_timer) is not None and not sent(peer.tick(due), Ping):
        pass
    assert due is not None
    assert bool(sent(peer.tick(due + 0.5 + late), PingFor)) is asked


def test_only_the_acknowledgement_of_a_ping_itself_measures_the_round_trip() -> None:
    peer, _, membership = bench("a")

    def acknowledged(by: int) -> float | None:
        """Have the next ping acknowledged by that of a ping so many later."""
        while (due := peer.next_timer) is not None:
            for each in sent(peer.tick(due), Ping):
                peer.receive("a", PingAck(each.message.number + by, 1, ()), due + 0.125)  # type: ignore[attr-defined]
                return membership.latency.rtt("a")
        raise AssertionError

    assert acknowledged(by=-1) is None
    assert acknowledged(by=1) is None
    assert acknowledged(by=0) == pytest.approx(0.125)


def test_a_peer_outdoes_only_what_is_said_of_a_later_incarnation_of_it() -> None:
    peer, _, membership = bench("a")
    before = membership.incarnation
    for said in (before - 1, before):
        peer.receive("a", Ping(1, 1, (News("me", ALIVE, said),)), 100.1)
        assert membership.incarnation == before
    peer.receive("a", Ping(2, 1, (News("me", ALIVE, before + 5),)), 100.2)
    assert membership.incarnation == before + 6


def test_each_ping_has_a_number_of_its_own_until_its_peer_is_dead() -> None:
    peer, _, membership = bench("a", "b", "c")
    peer.receive("b", Ping(1, 1, (News("a", SUSPECT, 0),)), 100.1)
    numbers = [each.message.number for each in sent(peer.receive("c", PingFor(1, "b", ()), 100.2), Ping)]  # type: ignore[attr-defined]
    while (due := peer.next_timer) is not None and not membership.is_dead("a"):
        pings = sent(peer.tick(due), Ping)
        numbers += [each.message.number for each in pings]  # type: ignore[attr-defined]
        for each in pings:
            if each.to != "a":
                peer.receive(each.to, PingAck(each.message.number, 1, ()), due)  # type: ignore[attr-defined]
    assert len(numbers) > 5
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize(("others", "times"), [(2, 8), (6, 11), (14, 14)])
def test_news_is_sent_three_times_the_logarithm_of_the_ring_and_twice_more(others: int, times: int) -> None:
    """SWIM, section 4.1: a multiple of log n infects all with high probability."""
    peer, _, membership = bench(*map(str, range(others)))
    told = 0
    peer.receive("0", Ping(1, 1, (News("far", ALIVE, 1), News("far", LEFT, 1))), 100.1)
    while (due := peer.next_timer) is not None and not membership.is_dead("far"):
        peer.tick(due)
    for number in range(2 * times):
        acks = sent(peer.receive("0", Ping(number, 1, ()), peer.now), PingAck)
        told += sum(piece.address == "far" for each in acks for piece in each.message.news)  # type: ignore[attr-defined]
    assert told == times


def test_a_peer_is_silent_while_it_is_suspected_and_for_some_time_after_its_death() -> None:
    peer, _, membership = bench("a", "b")
    died = dies(peer, membership, "a", 1)
    peer.tick(died + 4.0)
    died = next(moment for moment in (died, died - 0.1) if membership.silent(peer.now - moment))
    assert membership.silent(peer.now - died) == ["a"]
    assert membership.silent(peer.now - died - 0.001) == []


def test_a_flood_of_news_and_pings_keeps_the_state_bounded() -> None:
    peer, _, membership = bench("a")
    for number in range(20_000):
        peer.receive("a", Ping(number, 1, (News(f"x{number}", DEAD if number % 2 else ALIVE, 1),)), 100.1)
        peer.receive(f"y{number}", Ping(1, 1, ()), 100.1)
        peer.receive("a", PingFor(number, f"z{number}", ()), 100.1)
    assert len(membership._members) <= 4096 + 1
    assert len(membership._dead) <= 512
    assert len(membership.relayed) <= 256
    assert len(membership._gossip) <= 256


def test_gossip_sends_each_piece_its_number_of_times_and_few_in_a_message() -> None:
    gossip = Gossip(at_once=3, capacity=10)
    for number in range(10):
        gossip.add(News(f"x{number}", DEAD, 1), times=4)
    counts: dict[str, int] = {}
    while len(gossip):
        picked = gossip.pick()
        assert 0 < len(picked) <= 3
        for piece in picked:
            counts[piece.address] = counts.get(piece.address, 0) + 1
    assert counts == {f"x{number}": 4 for number in range(10)}
    gossip.add(News("x", SUSPECT, 1), times=5)
    gossip.add(News("x", ALIVE, 2), times=1)
    assert gossip.pick() == (News("x", ALIVE, 2),)
    assert gossip.pick() == ()


def test_load_does_not_depend_on_the_size_of_the_ring() -> None:
    for count in (8, 60):
        world = World(count, seed=7, assembled=True)
        world.run(5.0)
        before = world.simulation.messages
        world.run(30.0)
        assert (world.simulation.messages - before) / 30.0 / count < 4.6  # 2 pings, 2 acknowledgements, and the ring


def test_a_period_of_nothing_is_refused() -> None:
    peer = Peer("a", seed=1)
    with pytest.raises(ValueError, match=r"period: 0 s; expected more than 0"):
        Membership(peer, Pastry(peer), period=0)


# -- what counts as a confirmation ---------------------------------------------------------------------------------


def spread(peer: Peer, now: float) -> set[tuple[str, int]]:
    """What a peer tells of others with its next pings."""
    pings = [each.message for each in sent(peer.tick(now), Ping)]
    return {(piece.address, piece.status) for each in pings if isinstance(each, Ping) for piece in each.news}


def test_a_peer_that_refuses_connections_is_suspected_and_others_are_told() -> None:
    peer, _, membership = bench("a", "b", "c")
    peer.call(100.1, membership.note_refused, "a")
    assert membership.status("a") == SUSPECT
    assert membership.suspects["a"].own
    assert ("a", SUSPECT) in spread(peer, 100.5) | spread(peer, 101.0)


@pytest.mark.parametrize("stretch", [1.0, 3.0, 3.1])
def test_the_word_of_a_peer_that_is_late_itself_does_not_count(stretch: float) -> None:
    peer, _, membership = bench("a", "b", "c")
    peer.receive("b", Ping(1, 1, (News("a", DEAD, 1),), stretch), 100.1)
    assert ("a" in membership.suspects) == (stretch <= 3.0)


def test_each_other_peer_that_does_not_reach_a_suspect_confirms_it_once() -> None:
    peer, _, membership = bench("a", "b", "c", "d")
    peer.receive("b", Ping(1, 1, (News("a", SUSPECT, 1),)), 100.1)
    assert membership.suspects["a"].confirmed == {"b"}
    peer.receive("b", Ping(2, 1, (News("a", SUSPECT, 1),)), 100.2)
    peer.receive("c", Ping(1, 1, (News("a", SUSPECT, 1),)), 100.2)
    assert membership.suspects["a"].confirmed == {"b", "c"}
    peer.receive("d", PingForAck(99, "a", -1, reached=False), 100.3)
    assert membership.suspects["a"].confirmed == {"b", "c", "d"}


def test_helpers_that_do_not_reach_a_silent_peer_confirm_its_suspicion_from_the_beginning() -> None:
    peer, _, membership = bench("a", "b", "c", "d", "e")
    now, target, number, helpers = 100.0, "", 0, list[str]()
    while not target or target not in membership.suspects:
        now += 0.5
        effects = peer.tick(now)
        for effect in sent(effects, Ping):
            assert isinstance(effect.message, Ping)
            target = target or effect.to
            if effect.to != target:
                peer.receive(effect.to, PingAck(effect.message.number, 1, ()), now + 0.01)
        for effect in sent(effects, PingFor):
            assert isinstance(effect.message, PingFor)
            number = effect.message.number
            helpers.append(effect.to)
            if len(helpers) <= 2:
                peer.receive(effect.to, PingForAck(number, target, -1, reached=False), now + 0.02)
        assert now < 110.0
    assert membership.suspects[target].confirmed == set(helpers[:2])


def test_a_peer_that_is_to_be_measured_for_the_table_is_pinged_first(monkeypatch: pytest.MonkeyPatch) -> None:
    peer, pastry, _ = bench("a", "b")
    rivals = ["rival"]
    monkeypatch.setattr(pastry, "next_rival", lambda: rivals.pop() if rivals else None)
    assert [each.to for each in sent(peer.tick(100.5), Ping)] == ["rival"]
    assert [each.to for each in sent(peer.tick(101.0), Ping)] in (["a"], ["b"])


def test_eight_pieces_of_news_are_told_in_a_message() -> None:
    gossip = Gossip()
    for number in range(20):
        gossip.add(News(f"p{number}", DEAD, 1), times=3)
    assert [len(gossip.pick()) for _ in range(8)] == [8, 8, 8, 8, 8, 8, 8, 4]
