"""Cancelled decisions: what they counted leaves their entry, and no other, everywhere."""

import random

import pytest

from posse.live.exchange import Flows
from posse.live.ledger import PER_UNIT
from posse.live.ledger.bounds import Bounds
from tests.live.exchange.origins import agent, link, own_entries, pump, save, start
from tests.live.exchange.world import FINGERPRINT

LATE = {"bounds": (1.0, 1.0, 1.0, 1.0), "closed": 1}
ONE = PER_UNIT
START, TAKEN_BACK = (0, 0, 0, ONE), (0, 0, 0, -ONE)
HALF_LIFE = 1000.0


def late(name="me", **options):
    return agent(name, **{**LATE, **options})


def test_a_cancelled_decision_leaves_its_entry_at_every_agent():
    mine, other = late(), late("other")
    agents = link(mine, other)
    first, second = mine.begin_decision("a"), mine.begin_decision("a")
    for incarnation in (first, second):
        mine.observe("a", START, incarnation)
    now = pump(agents, 0.0, 3)
    assert other.evidence() == {"a": (0, 0, 0, 2 * ONE)}
    mine.observe("a", TAKEN_BACK, first)
    now = pump(agents, now, 3)
    assert other.evidence() == mine.evidence() == {"a": START}
    mine.observe("a", TAKEN_BACK, second)
    pump(agents, now, 3)
    assert other.evidence() == mine.evidence() == {}
    assert not other.refusals
    assert len(own_entries(mine)) == 1  # an empty entry, whose version is the largest


def test_in_the_rest_what_is_taken_back_waits_and_is_told_after_it():
    mine, other = late(), late("other")
    agents = link(mine, other)
    old = mine.begin_decision("a")
    mine.observe("a", START, old)
    now = pump(agents, 0.0, 3)
    again = start(save(mine), **LATE)
    again.observe("a", TAKEN_BACK, old)
    assert again.evidence() == {}
    (resting,) = own_entries(again)
    assert resting.ledger() == {"a": START}
    again = start(save(again), **LATE)  # killed while it rests
    assert again.evidence() == {}
    agents = link(again, other)
    pump(agents, now, 4)
    assert not again.incarnations.resting
    assert other.evidence() == again.evidence() == {}


def test_what_a_copy_cancelled_is_superseded_in_another():
    mine, other = late(), late("other")
    agents = link(mine, other)
    old = mine.begin_decision("a")
    mine.observe("a", START, old)
    now = pump(agents, 0.0, 3)
    copy = save(mine)
    mine.observe("a", TAKEN_BACK, old)
    now = pump(agents, now, 3)
    assert other.evidence() == {}
    restored = start(copy, **LATE)
    assert restored.evidence() == {"a": START}
    agents = link(restored, other)
    pump(agents, now, 4)
    assert restored.is_superseded(old)
    restored.observe("a", TAKEN_BACK, old)  # refused: it counts no more
    assert restored.refusals["superseded"] == 1
    assert other.evidence() == restored.evidence() == {}


@pytest.mark.parametrize(
    "values",
    [
        (0, 0, 0, -2 * ONE),  # two decisions at once
        (0, 0, ONE, -ONE),  # of a closed one
        (ONE + 1, 0, 0, -ONE),  # more than a decision can have counted
        (0, 0, -ONE, -ONE),
    ],
)
def test_only_an_open_decision_can_be_taken_back(values):
    bounds = Bounds(LATE["bounds"], closed=1)
    assert bounds.check_observation("a", TAKEN_BACK) == TAKEN_BACK
    assert bounds.check_observation("a", (-ONE, 0, 0, -ONE)) == (-ONE, 0, 0, -ONE)
    with pytest.raises(ValueError, match="no statistic within the bounds"):
        bounds.check_observation("a", values)
    with pytest.raises(ValueError, match="no statistic within the bounds"):
        Bounds((1.0, 1.0)).check_observation("a", (0, -ONE))  # where none counts from its start


@pytest.mark.parametrize("resting", [False, True])
def test_where_evidence_fades_an_entry_stays_one_that_neighbours_accept(resting):
    """What is taken back and what was added are rounded apart: there is never less than nothing."""
    chance = random.Random(7)
    options = {
        "bounds": (1.0, 1.0, 1.0, 1.0),
        "closed": 1,
        "half_life": HALF_LIFE,
    }
    assumed = int(-0.377 * ONE)
    for _ in range(20):
        clock = [1e6 + chance.random() * HALF_LIFE]
        mine = agent(clock=lambda clock=clock: clock[0], **options)
        mine.tick(clock[0])
        decisions = []
        for _ in range(200):
            made = mine.begin_decision("a")
            mine.observe("a", (assumed, 0, 0, ONE), made, clock[0])
            decisions.append((made, clock[0]))
            clock[0] += chance.random() * HALF_LIFE / 100
            mine.tick(clock[0])
        disk = save(mine)
        for epoch in range(3):
            if resting:
                mine = start(disk, clock=lambda clock=clock: clock[0], **options)
                mine.connect("away")
                mine.tick(clock[0])
                assert mine.incarnations.resting
            chance.shuffle(decisions)
            for made, at in decisions[: 70 if epoch < 2 else 200]:
                mine.observe("a", (-assumed, 0, 0, -ONE), made, at)
                decisions = [each for each in decisions if each != (made, at)]
                if chance.random() < 0.05:
                    clock[0] += HALF_LIFE / 9
                    mine.tick(clock[0])
            mine.incarnations.end_rest()
            disk = save(mine)
            bounds = Bounds(options["bounds"], 1, rounded=True)
            for held in own_entries(mine):
                assert all(bounds.allow_row("a", row) for row in held.ledger().values())
        left = mine.evidence().get("a", (0, 0, 0, 0))
        assert abs(left[0]) + left[-1] < 1000  # quanta, of 200 decisions
        assert mine.evidence() == mine.own()


@pytest.mark.parametrize("resting", [False, True])
@pytest.mark.parametrize("ahead", [0.0, 1.5])  # epochs by which the decisions' clock was ahead
def test_an_entry_of_cancelled_decisions_alone_is_not_less_than_nothing(resting, ahead):
    clock = [8 * HALF_LIFE]
    options = LATE | {"half_life": HALF_LIFE, "clock": lambda: clock[0]}
    mine, other = agent(**options), agent("other", **options)
    agents = link(mine, other)
    pump(agents, clock[0], 2, seconds=0.0)
    at = clock[0] + ahead * HALF_LIFE
    assumed = -(ONE - 1)
    made = [mine.begin_decision("a") for _ in range(200)]
    for incarnation in made:
        mine.observe("a", (assumed, 0, 0, ONE), incarnation, at)
    pump(agents, clock[0], 2, seconds=0.0)
    if resting:
        mine = start(save(mine), **options)
        agents = link(mine, other)
    for _ in range(3):
        clock[0] += HALF_LIFE
        other.tick(clock[0])
        mine._follow_time(clock[0])
    for incarnation in made:
        mine.observe("a", (-assumed, 0, 0, -ONE), incarnation, at)
    pump(agents, clock[0], 12, seconds=0.0)
    assert not mine.incarnations.resting
    assert mine.refusals + other.refusals == {}
    assert other.evidence() == mine.evidence()
    assert abs(mine.evidence().get("a", (0,))[0]) <= 200  # quanta


def test_a_correction_that_waits_survives_the_end_of_an_epoch():
    clock = [0.4 * HALF_LIFE]
    options = LATE | {"half_life": HALF_LIFE, "clock": lambda: clock[0]}
    mine = agent(**options)
    mine.tick(clock[0])
    made = mine.begin_decision("a")
    mine.observe("a", START, made, clock[0])
    again = start(save(mine), **options)
    again.connect("away")
    again.tick(clock[0])
    again.observe("a", (ONE, 0, 0, 0), made, clock[0])
    before = again.evidence()["a"][0]
    clock[0] += HALF_LIFE
    again.tick(clock[0])
    again.observe("b", START, again.begin_decision("b"), clock[0])
    again.observe("a", (0, 0, 0, 0), made, clock[0])
    again.observe("a", (0, ONE, ONE, 0), made, 0.4 * HALF_LIFE)  # brings what waits to this epoch
    assert again.evidence()["a"][0] == pytest.approx(before / 2, abs=4)
    again.incarnations.end_rest()
    assert again.evidence()["a"][0] == pytest.approx(before / 2, abs=4)


def test_flows_take_back_what_has_flowed():
    def make(name):
        return Flows(fingerprint=FINGERPRINT, identity=name, network_size=2, **LATE)

    one, two = make("1"), make("2")
    one.connect("2")
    two.connect("1")
    agents = {"1": one, "2": two}
    one.observe("a", (0, 0, 0, ONE))
    now = pump(agents, 0.0, 30)
    assert two.evidence()["a"][-1] == pytest.approx(ONE, abs=8)
    one.observe("a", TAKEN_BACK)
    pump(agents, now, 60)
    assert one.own() == {}
    assert two.evidence().get("a", (0,))[-1] == pytest.approx(0, abs=8)
    assert one.refusals + two.refusals == {}
