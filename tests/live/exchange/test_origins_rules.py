"""Each rule of origins on the schedule that needs it."""

from posse.live.exchange import Origins
from posse.live.ledger.sums import PER_UNIT
from tests.live.exchange.origins import ONE, agent, entry, message
from tests.live.exchange.world import two


def test_evidence_is_the_sum_over_origins_and_incarnations():
    mine = agent()
    mine.observe("b", ONE)
    mine.receive("peer", message(entry(), entry(incarnation=2), entry(origin="third")), 0.0)
    assert mine.evidence() == {"a": (0, 3 * PER_UNIT), "b": ONE}
    assert mine.own() == {"b": ONE}
    assert mine.known() == {"me", "other", "third"}


def test_what_is_acknowledged_is_not_sent_again_and_what_is_not_is():
    mine, other = agent("me", digest_every=100), agent("other")
    mine.connect("other")
    mine.observe("a", ONE)
    mine.tick(0.0)
    ((_, again),) = mine.tick(1.0)
    assert [e.origin for e in again.entries] == ["me"]
    assert mine.neighbours()["other"].lag is None
    ((_, acknowledgement),) = other.receive("me", again, 1.0)
    assert mine.receive("other", acknowledgement, 2.0) == []
    assert mine.neighbours()["other"].lag == 0
    assert mine.neighbours()["other"].last_heard == 2.0
    mine.connect("other")  # again, which changes nothing
    assert mine.tick(3.0) == []


def test_late_words_do_not_turn_back_what_a_neighbour_is_known_to_hold():
    mine = agent(digest_every=100)
    mine.connect("other")
    mine.tick(0.0)
    mine.receive("third", message(entry(seq=3, pulls=3)), 0.0)
    mine.receive("other", message(holds=(("other", 1, 1, 3, 0),)), 1.0)
    mine.receive("other", message(holds=(("other", 1, 1, 2, 0),)), 2.0)
    assert mine.tick(3.0) == []
    mine.receive("other", message(entry(seq=1)), 4.0)
    assert mine.tick(5.0) == []


def test_a_relay_passes_entries_on_but_not_back():
    mine = agent(digest_every=100)
    for peer in ("left", "right"):
        mine.connect(peer)
    mine.tick(0.0)
    mine.receive("left", message(entry()), 0.0)
    ((to, passed_on),) = mine.tick(1.0)
    assert to == "right"
    assert passed_on.entries == (entry(),)


def test_a_digest_heals_a_neighbour_that_forgot_what_it_acknowledged():
    world, one, other = two(Origins, digest_every=4)
    world.back_up(other)
    world.observe(one, 5)
    world.settle(rounds=2)
    world.restart(other, backup=0)
    world.tick(other)
    world.network.clear()  # its first words are lost
    world.settle(rounds=6)
    assert world.agents[other].evidence() == world.truth


def test_a_message_carries_a_batch_and_the_next_one_the_rest():
    mine = agent(batch=2, digest_every=100)
    mine.receive("left", message(*(entry(f"o{nth}") for nth in range(5))), 0.0)
    mine.connect("right")
    sent = []
    for now in range(3):
        ((_, out),) = mine.tick(float(now))
        sent += [e.origin for e in out.entries]
        keys = tuple(e.holding for e in out.entries)
        mine.receive("right", message(holds=keys), float(now))
    assert sorted(sent) == [f"o{nth}" for nth in range(5)]


def test_entries_that_a_neighbour_refuses_do_not_keep_others_from_it():
    mine, full = agent(batch=2, digest_every=100), agent("full", most_entries=3)
    mine.connect("full")
    mine.tick(0.0)
    mine.receive("left", message(*(entry(f"o{nth}") for nth in range(5))), 0.0)
    full.receive("left", message(*(entry(f"o{nth}") for nth in (2, 3, 4))), 0.0)
    mine.receive("left", message(entry("o4", seq=2, pulls=2)), 1.0)
    for now in range(2, 8):
        for _, out in mine.tick(float(now)):
            for _, answer in full.receive("me", out, float(now)):
                mine.receive("full", answer, float(now))
    assert full.refusals.keys() == {"too_many_entries"}
    assert full.evidence() == {"a": (0, 4 * PER_UNIT)}


def test_a_removed_edge_is_silent_but_still_heard():
    mine = agent()
    mine.connect("peer")
    mine.disconnect("peer")
    mine.disconnect("never connected")
    mine.receive("peer", message(entry()), 0.0)
    assert mine.tick(0.0) == []
    assert mine.evidence() == {"a": (0, PER_UNIT)}
