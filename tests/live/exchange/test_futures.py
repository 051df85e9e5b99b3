"""A memory snapshot put back: two futures of one process, of which neither erases the other."""

import copy
from random import Random

import pytest
from posse.live.exchange.jumps import Jumps

from posse.live.exchange import Origins
from posse.live.exchange.evidence_sums import PER_UNIT
from tests.live.exchange.origins import ONE, agent, entry, message
from tests.live.exchange.world import World


def snapshot_and_back(again, arm=None, silent=False):
    """30 rewards, a snapshot, 20 more that all hold, the snapshot put back, and some again."""
    world = World(Origins, 3, digest_every=2)
    mine = "agent0"
    world.observe(mine, 30)
    world.settle(rounds=4)
    snapshot = copy.deepcopy(world.agents[mine])
    for _ in range(4):
        world.observe(mine, 5)
        world.settle(rounds=1)
    world.agents[mine] = snapshot
    if arm is not None:
        world.lives[mine] = arm
    world.cut = {mine} if silent else set()
    for _ in range(5):
        world.observe(mine, again // 5)
        world.tick(mine)
        world.deliver_all("any")
    world.settle(rounds=10)
    return world


@pytest.mark.parametrize("again", [5, 20, 25])
@pytest.mark.parametrize("arm", [None, 1])
def test_both_futures_count(again, arm):
    """Suspected of 0.1: rewards erased at all, as by a volume set back."""
    world = snapshot_and_back(again, arm)
    for each in world.agents.values():
        assert each.evidence() == world.truth
    assert world.all_refusals().keys() <= {"sequence_regressed"}


@pytest.mark.parametrize("again", [5, 20, 25])
def test_futures_that_meet_late_agree_and_erase_nothing(again):
    world = snapshot_and_back(again, arm=1, silent=True)
    one, *others = [each.evidence() for each in world.agents.values()]
    assert others == [one, one]
    assert one == world.truth


def test_two_futures_that_see_the_same_are_two():
    """Numbers of versions are drawn, so that they differ though all else is equal."""
    world = World(Origins, 3, digest_every=2)
    world.observe("agent0", 1)
    world.settle(rounds=4)
    snapshot = copy.deepcopy(world.agents["agent0"])
    for _ in range(2):
        world.observe("agent0", 1)
        world.settle(rounds=4)
        world.agents["agent0"] = copy.deepcopy(snapshot)
    world.settle(rounds=4)
    for each in world.agents.values():
        assert each.evidence() == world.truth


def test_an_entry_that_goes_back_is_refused_and_its_origin_is_shown_what_is_held():
    mine = agent()
    mine.receive("other", message(entry(seq=3, pulls=5)), 0.0)
    for seq, pulls in ((4, 4), (3, 6), (2, 2)):
        ((_, answer),) = mine.receive("other", message(entry(seq=seq, pulls=pulls)), 0.0)
        assert answer.entries == (entry(seq=3, pulls=5),)
    assert mine.refusals == {"sequence_regressed": 1}
    ((_, answer),) = mine.receive("relay", message(entry(seq=2, pulls=2)), 0.0)
    assert answer.entries == ()  # or two that differ would tell each other for ever
    assert mine.evidence() == {"a": (0, 5 * PER_UNIT)}


def test_a_clock_that_jumps_opens_a_new_incarnation():
    mine = agent()
    for nth, now in enumerate((1000.0, 1001.0, 1002.0, 5000.0, 5001.0, 4000.0, 4001.0)):
        mine.tick(now)
        mine.observe("a", ONE)
        entries = [part for part in mine.state() if part.startswith("entry ")]
        assert len(entries) == (1 if nth < 3 else 2 if nth < 5 else 3)


@pytest.mark.parametrize("again", [5, 20, 25])
def test_a_snapshot_put_back_is_exact_if_the_clock_tells(again):
    """Seen: what was observed before the first tick after it was lost."""
    now, random = [1000.0], Random(1)  # of the world: neither is put back
    options = {"clock": lambda: now[0], "draw": lambda n: random.getrandbits(n), "digest_every": 1}
    mine, other = agent("me", **options), agent("you", **options)
    mine.connect("you")
    other.connect("me")

    def exchange(rounds):
        for _ in range(rounds):
            now[0] += 1.0
            waiting = [("me", *sent) for sent in mine.tick(now[0])]
            waiting += [("you", *sent) for sent in other.tick(now[0])]
            for source, target, said in waiting:  # it grows by the answers
                answers = {"me": mine, "you": other}[target].receive(source, said, now[0])
                waiting += [(target, *answer) for answer in answers]

    for _ in range(30):
        mine.observe("a", ONE)
    exchange(3)
    snapshot = copy.deepcopy(mine)
    for _ in range(20):
        mine.observe("a", ONE)
    exchange(3)
    mine = snapshot
    now[0] += 3600.0  # the machine was put back, and its clock set
    for _ in range(again):
        mine.observe("a", ONE)
    exchange(8)
    for each in (mine, other):
        assert each.evidence()["a"][-1] == (50 + again) * PER_UNIT


def test_what_is_usual_is_no_jump():
    slow = Jumps()
    assert [slow.at(300.0 * nth) for nth in range(20)].count(True) <= 1
    quick = Jumps()
    assert not any(quick.at(now) for now in (0.0, 1.0, 1.0, 2.0, 40.0, 41.0))
