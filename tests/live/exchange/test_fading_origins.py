"""Origins whose evidence fades: what holders hold, what is read, and what clocks may do."""

import random

import pytest

from posse.live.exchange import Origins, RateCap
from posse.live.ledger import PER_UNIT
from posse.live.ledger.half_life import AHEAD, JUMPED
from tests.live.exchange.drift import HALF_LIFE, DriftingWorld
from tests.live.exchange.origins import (
    ONE,
    agent,
    bases,
    entry,
    message,
    own_entries,
    pump,
    save,
    start,
)

WIDE = {"bounds": (2.5, 2.5, 1.0, 1.0), "closed": 1, "half_life": HALF_LIFE}
REWARD = int(2.5 * PER_UNIT)


def fading(name="me", now=0.0, **options):
    made = agent(name, half_life=HALF_LIFE, clock=lambda: now, **options)
    made.tick(now)
    return made


def wide(name, **options):
    """With closed sums, and rewards up to 2.5 that no quantum divides."""
    return agent(name, **WIDE, **options)


def exchange(one, other, now, rounds=4):
    """All that two have to say to each other."""
    one.connect(other.identity)
    other.connect(one.identity)
    pump({one.identity: one, other.identity: other}, now, rounds, seconds=0.0)


def wait(*agents, until):
    """Ticks as they come all day: no clock jumps."""
    for each in agents:
        now = each._epochs.position * HALF_LIFE
        while now < until:
            now = min(until, now + HALF_LIFE / 4)
            each.tick(now)


def test_twenty_epochs_of_kills_and_late_messages_leave_equal_numbers_everywhere():
    world = DriftingWorld(Origins, 3, skew=0.01, digest_every=3)
    world.settle(rounds=2)
    chance = random.Random(5)
    said, late = {}, []
    for epoch in range(20):
        for _ in range(4):
            name = chance.choice(list(world.agents))
            world.observe(name, chance.randrange(1, 9))
            if chance.random() < 0.5:
                world.restart(name)
            for each in world.agents:
                world.tick(each)
            late += chance.sample(world.network, min(2, len(world.network)))
            world.deliver_all("any")
            world.now += HALF_LIFE / 5
        if epoch % 3 == 2:  # messages of epochs ago
            world.network += late
            late = []
        for each in world.agents.values():
            for key, held in each.replica.entries.items():
                assert said.setdefault((key, held.version), held) == held
    world.settle(rounds=6)
    one, *others = world.agents.values()
    assert len({held.epoch for held in one.replica.entries.values()}) > 2
    assert all(other.replica.entries == one.replica.entries for other in others)
    left = world.read(one._epochs.position)
    for arm, values in one.evidence().items():
        for mine, true in zip(values, left[arm], strict=True):
            assert mine == pytest.approx(true, abs=len(world.observed) + 100)
    assert not world.all_refusals()


def test_an_origin_halves_its_present_entry_when_it_adds_to_it_and_nobody_else_does():
    me, other = fading("me"), fading("other")
    for _ in range(3):
        me.observe("a", ONE)
    exchange(me, other, 1.0)
    ((key, before),) = other.replica.entries.items()
    wait(me, other, until=3.5 * HALF_LIFE)
    exchange(me, other, 3.5 * HALF_LIFE)
    assert other.replica.entries[key] == before  # nothing was added: it only reads as less
    assert other.evidence()["a"][-1] == pytest.approx(3 * PER_UNIT * 2**-3.5, rel=1e-5)
    me.observe("a", ONE)
    exchange(me, other, 3.5 * HALF_LIFE)
    after = other.replica.entries[key]
    assert (before.epoch, after.epoch) == (0, 3)
    assert after.version > before.version
    assert after.ledger()["a"][-1] == int(3 * PER_UNIT) // 8 + int(2**0.5 * PER_UNIT)
    assert after == me.replica.entries[key]


def test_ones_own_words_of_an_older_epoch_are_no_other_future():
    me = fading()
    me.connect("peer")
    for _ in range(16):
        me.observe("a", ONE)
    ((_, said),) = me.tick(1.0)
    wait(me, until=3.5 * HALF_LIFE)
    me.observe("a", ONE)
    me.tick(3.5 * HALF_LIFE)
    before = me.state()
    me.receive("peer", said, 3.5 * HALF_LIFE)
    assert me.state() == before
    assert len(me.replica.entries) == 1


def test_an_agent_that_is_gone_fades_by_itself_and_is_dropped_after_sixty_half_lives():
    me, other = fading("me"), fading("other")
    me.observe("a", ONE)
    exchange(me, other, 1.0)
    del me
    other.tick(10 * HALF_LIFE)
    assert other.evidence()["a"][-1] == PER_UNIT // 2**10
    other.tick(59 * HALF_LIFE)
    assert other.known() == {"me", "other"}
    other.changes()
    other.tick(61 * HALF_LIFE)
    assert other.evidence() == {}
    assert other.known() == {"other"}
    ((part, gone),) = (each for each in other.changes().items() if each[0].startswith("entry"))
    assert (part.split()[1], gone) == ("me", None)
    # and who still holds it cannot bring it back
    old = entry(epoch=0)
    other.receive("peer", message(old), 61 * HALF_LIFE)
    assert other.evidence() == {}
    assert not other.refusals


def test_ones_own_present_entry_is_dropped_too_and_the_next_observation_opens_another():
    me = fading()
    me.observe("a", ONE)
    wait(me, until=61 * HALF_LIFE)
    assert me.own() == {}
    me.observe("a", ONE)
    assert me.own()["a"][-1] == pytest.approx(PER_UNIT, abs=2)


def test_an_arm_whose_traffic_ended_reads_its_true_rate():
    """Rewards come half a half-life late; weighed then, sqrt(2) of the rate would be read."""
    me, rate, n = wide("me"), 0.25, 400
    paid = [nth for nth in range(n) if int((nth + 1) * rate) > int(nth * rate)]
    for now in range(n + int(HALF_LIFE)):
        me.tick(float(now))
        incarnation = me.begin_decision("a")
        if now < n:
            me.observe("a", (0, 0, 0, PER_UNIT), incarnation, at=float(now))
        begun = now - int(HALF_LIFE / 2)
        if begun in paid:
            me.observe("a", (PER_UNIT, 0, 0, 0), at=float(begun))
        if 0 <= begun < n:
            closed = (0, PER_UNIT * (begun in paid), PER_UNIT, 0)
            me.observe("a", closed, at=float(begun))
    power, closed_power, closed_count, count = me.evidence()["a"]
    weights = [2.0 ** (nth / HALF_LIFE) for nth in range(n)]
    true = sum(weights[nth] for nth in paid) / sum(weights)
    assert true == pytest.approx(rate, rel=0.02)
    assert power / count == pytest.approx(true, rel=1e-4)
    assert closed_power / closed_count == pytest.approx(true, rel=1e-4)


@pytest.mark.parametrize("epochs", [0, 1, 5, 9])
@pytest.mark.parametrize("resting", [False, True])
def test_rewards_that_come_after_a_restart_and_some_epochs_are_within_the_bounds(epochs, resting):
    """Decided, restarted, rewarded, while it rests and after; at a neighbour that joins late."""
    now, me = 0.0, wide("me", clock=lambda: now)
    made = me.begin_decision("a")
    for _ in range(150):
        now += 1.0
        me.tick(now)
        me.observe("a", (0, 0, 0, PER_UNIT), made, at=now)
    again = start(save(me), **WIDE, clock=lambda: now)
    again.connect("other")
    again.grace_ticks = 10**6 if resting else 0
    now += epochs * HALF_LIFE
    for nth in range(150):
        again.tick(now)
        assert again.incarnations.resting == resting
        again.observe("a", (REWARD, 0, 0, 0), made, at=float(nth + 1))
        again.observe("a", (0, REWARD, PER_UNIT, 0), made, at=float(nth + 1))
    read = again.evidence()["a"]
    other = wide("other", clock=lambda: now)
    exchange(again, other, now)
    assert not again.incarnations.resting
    assert not again.refusals
    assert not other.refusals
    assert other.replica.entries == again.replica.entries
    assert len(own_entries(again)) == 1
    power, closed_power, closed_count, count = other.evidence()["a"]
    assert (power, closed_power, closed_count, count) == pytest.approx(read, abs=400)
    assert power / count == pytest.approx(2.5, rel=1e-3 * 2**epochs / 8)
    assert closed_power / closed_count == pytest.approx(2.5, rel=1e-3)
    assert closed_count == pytest.approx(count, rel=2e-3)


@pytest.mark.parametrize("asleep", [0.5, 1.1, 3.0, 9.0])
def test_a_decision_made_before_the_first_tick_after_a_sleep_is_not_refused(asleep):
    """Seen: the decision closed with more than it had counted, and neighbours refused its entry."""
    now = 0.0
    me, other = (wide(name, clock=lambda: now) for name in ("me", "other"))
    me.tick(now)
    other.tick(now)
    now += asleep * HALF_LIFE
    made = me.begin_decision("a")
    me.observe("a", (0, 0, 0, PER_UNIT), made, at=now)
    exchange(me, other, now)
    me.observe("a", (REWARD, REWARD, PER_UNIT, 0), made, at=now)
    exchange(me, other, now)
    assert not other.refusals
    assert other.replica.entries == me.replica.entries


FIRST, SECOND = (0, 0, PER_UNIT, 0, 0), (0, 0, 0, 0, PER_UNIT)  # a feature alone: its square


@pytest.mark.parametrize("late", [1e-5, 1e-3, 0.1, 0.5])
def test_a_decision_cancelled_after_its_epoch_began_leaves_a_possible_matrix(late):
    """Seen: neighbours refused all later evidence of the process, for hours."""
    now = 100 * HALF_LIFE - 10.0
    options = {"bounds": (1.0,) * 12, "closed": 5, "features": 2, "half_life": HALF_LIFE}
    me, other = (agent(name, clock=lambda: now, **options) for name in ("me", "other"))
    exchange(me, other, now)
    count = (0,) * 6 + (PER_UNIT,)
    me.observe("a", FIRST + count, me.begin_decision("a"), now)
    now = (100 + late) * HALF_LIFE  # the tick of this second comes later
    made = me.begin_decision("a")
    me.observe("a", SECOND + count, made, now)
    exchange(me, other, now)
    me.observe("a", tuple(-value for value in SECOND + count), made, now)
    exchange(me, other, now)
    assert not other.refusals
    assert other.replica.entries == me.replica.entries
    assert me.evidence()["a"][4] == 0


def test_what_closes_after_a_clock_jumped_is_no_more_than_what_counted():
    """The time is held back, and at each epoch the decision seems to be of the next one."""
    now = steady = 0.0
    me = wide("me", clock=lambda: now, monotonic=lambda: steady)
    me.tick(now)
    now = 5 * HALF_LIFE
    made = me.begin_decision("a")
    me.observe("a", (0, 0, 0, PER_UNIT), made, at=now)
    steady = HALF_LIFE
    me.tick(now + steady)
    me.observe("a", (REWARD, REWARD, PER_UNIT, 0), made, at=now)
    (written,) = own_entries(start(save(me), **WIDE))
    assert me._bounds.allow_row("a", written.ledger()["a"])


def test_the_time_of_an_old_decision_does_not_set_the_time():
    """Seen: closed before the first tick after a start, it was taken for the present time."""
    now = 0.0
    me = wide("me", clock=lambda: now)
    made = me.begin_decision("a")
    me.observe("a", (0, 0, 0, PER_UNIT), made, at=now)
    now = 5 * HALF_LIFE
    again = start(save(me), **WIDE, clock=lambda: now)
    again.observe("a", (REWARD, REWARD, PER_UNIT, 0), made, at=0.0)
    assert again._epochs.position == 5.0


@pytest.mark.parametrize("asleep", [1.5, 5.0])
def test_a_reward_counts_as_much_as_its_decision_after_a_sleep(asleep):
    """Seen: a decision that was rewarded counted almost as a failure, as acted on."""
    now = 0.0
    me = wide("me", clock=lambda: now)
    me.tick(now)
    now += asleep * HALF_LIFE
    made = me.begin_decision("a")
    me.observe("a", (0, 0, 0, PER_UNIT), made, at=now)
    me.tick(now + 1)
    me.observe("a", (REWARD, 0, 0, 0), made, at=now)
    me.observe("a", (0, REWARD, PER_UNIT, 0), made, at=now)
    power, closed_power, closed_count, count = me.evidence()["a"]
    assert power / count == closed_power / closed_count
    assert power / count == pytest.approx(2.5, rel=1e-4)


def test_the_room_of_open_decisions_stays_reserved_when_evidence_fades():
    """Seen: 200 of 1,200 acknowledged rewards did not count, for the arms of both were too many."""
    now, me = 0.0, fading("me")
    before = [(f"a{nth}", me.begin_decision(f"a{nth}")) for nth in range(600)]
    me.observe("a0", ONE, before[0][1], now)
    now = HALF_LIFE
    me.tick(now)
    me.observe("a1", ONE, before[1][1], now)
    later = [(f"b{nth}", me.begin_decision(f"b{nth}")) for nth in range(600)]
    for arm, number in before[2:] + later:
        me.observe(arm, ONE, number, now)
    assert len(me.evidence()) == 1200
    assert not me.refusals


def test_rewards_that_wait_for_epochs_fade_like_those_that_do_not():
    now, me = 0.0, fading("me")
    made = me.begin_decision("a")
    for _ in range(64):
        me.observe("a", ONE, made)
    again = start(save(me), half_life=HALF_LIFE, clock=lambda: now)
    again.connect("friend")
    again.grace_ticks = 10**6
    for _ in range(64):
        again.observe("a", ONE, made)
    for halves, until in ((1, HALF_LIFE), (3, 3 * HALF_LIFE)):
        wait(again, until=until)
        assert again.incarnations.resting
        assert again.own()["a"][-1] == pytest.approx(128 * PER_UNIT / 2**halves, abs=100)
    friend = fading("friend", now=3 * HALF_LIFE)
    exchange(again, friend, 3 * HALF_LIFE)
    assert not again.incarnations.resting
    assert friend.evidence()["a"][-1] == pytest.approx(16 * PER_UNIT, abs=100)
    assert again.evidence() == friend.evidence()


def test_old_incarnations_fade_each_by_its_own_epoch():
    """And what is written into an old one, late, leaves the others as they are."""
    now, me, made = 0.0, fading("me"), []
    for nth in range(4):
        made.append(me.begin_decision("a"))
        for _ in range(16):
            me.observe("a", ONE, made[-1])
        me.tick(now)
        now += HALF_LIFE
        me = start(save(me), half_life=HALF_LIFE)
        me.tick(now)
        worth = sum(16 * 2.0 ** -(nth + 1 - k) for k in range(nth + 1))
        assert me.own()["a"][-1] == pytest.approx(worth * PER_UNIT, abs=50)
    before = {held.incarnation: held for held in own_entries(me)}
    assert [before[each].epoch for each in made] == [0, 1, 2, 3]
    me.observe("a", ONE, made[1], at=HALF_LIFE)
    me.state()
    after = {held.incarnation: held for held in own_entries(me)}
    assert after[made[1]].epoch == 4
    assert after[made[1]].pulls() == pytest.approx(17 * PER_UNIT / 8, abs=10)
    assert all(after[each] == before[each] for each in made if each != made[1])


def test_what_is_folded_is_brought_to_the_present_epoch():
    world = DriftingWorld(Origins, 2, skew=0.0)
    for _ in range(12):
        world.observe("agent0", 7)
        world.settle(rounds=8)
        world.restart("agent0")
        world.now += HALF_LIFE
    one, other = world.agents.values()
    world.observe("agent0", 1)
    world.settle(rounds=12)
    assert len(bases(other, "agent0")) == 1
    assert len(one.replica.of_origin("agent0")) < 6
    assert one.replica.entries == other.replica.entries
    left = world.read(other._epochs.position)
    for arm in left:
        count = other.evidence().get(arm, (0, 0))[-1]
        assert count == pytest.approx(left[arm][-1], abs=100)
    assert not world.all_refusals()


def test_an_entry_of_an_epoch_no_clock_near_ours_can_say_is_refused_and_counted():
    me = fading(now=10.5 * HALF_LIFE)
    near, far = entry(epoch=11), entry(origin="liar", epoch=12)
    ((_, answer),) = me.receive("peer", message(near, far), 10.5 * HALF_LIFE)
    assert me.refusals == {AHEAD: 1}
    assert me.known() == {"me", "other"}
    assert answer.holds == (near.holding,)  # not acknowledged, the other comes again


def test_the_rate_cap_allows_for_the_weight_of_a_pull():
    cap = RateCap(per_second=1.0, since=0.0)
    me = fading(now=100.0, rate_cap=cap)
    me.receive("peer", message(entry(pulls=199, epoch=1)), 100.0)
    assert not me.refusals
    me.receive("peer", message(entry(seq=2, pulls=201, epoch=1)), 100.0)
    assert me.refusals == {"rate_cap_exceeded": 1}


def test_a_clock_that_jumps_ten_epochs_ahead_destroys_no_evidence():
    steady = [0.0]
    me = fading(monotonic=lambda: steady[0])
    for second in range(40):
        steady[0] = float(second)
        jump = 10 * HALF_LIFE if 10 <= second < 20 else 0.0
        me.tick(second + jump)
        me.observe("a", ONE)
    assert me.refusals == {JUMPED: 1}
    me.tick(40.0)
    for second in range(40, 200):
        steady[0] = float(second)
        me.tick(float(second))
    # time stood still until it had caught up: nothing reads as less than by the right clock / 2
    right = sum(2.0 ** ((second - 199.0) / HALF_LIFE) for second in range(40))
    assert right / 2 < me.own()["a"][-1] / PER_UNIT < 2 * right


def test_two_agents_whose_clocks_are_a_hundredth_apart_hold_the_same_and_read_alike():
    world = DriftingWorld(Origins, 2, skew=0.02)
    world.settle(rounds=3)
    for _ in range(30):
        world.observe("agent0", 5)
        world.observe("agent1", 5)
        world.settle(rounds=8)
    one, other = world.agents.values()
    assert one.replica.entries == other.replica.entries
    for arm, values in one.evidence().items():
        assert values[-1] / other.evidence()[arm][-1] == pytest.approx(2.0**0.01, rel=0.02)
    assert not world.all_refusals()


def test_without_a_half_life_nothing_is_said_of_epochs():
    me = agent(clock=lambda: 1e9)
    me.observe("a", ONE)
    me.connect("peer")
    ((_, said),) = me.tick(1e9)
    assert said.entries[0].epoch == 0
    revision = me.revision
    me.tick(2e9)
    assert me.evidence() == {"a": ONE}
    assert me.revision == revision
    assert "epoch" not in me.state()


def test_the_revision_rises_when_evidence_fades_and_not_between_ticks():
    me = fading()
    me.observe("a", ONE)
    before, read = me.revision, me.evidence()
    assert me.evidence() == read
    assert me.revision == before
    me.tick(10.0)
    assert me.revision > before
    assert me.evidence()["a"][-1] < read["a"][-1]


@pytest.mark.parametrize(("n_ahead", "n_folded"), [(2, 3), (3, 2)])  # of 3 the base is one
def test_entries_of_a_clock_that_was_ahead_are_not_folded_before_their_time(n_ahead, n_folded):
    """Seen: one start with a clock ten half-lives ahead, and a fold made 800 pulls of 8."""
    ahead, now = 10 * HALF_LIFE, 1000 * HALF_LIFE
    disk = None
    for nth in range(6):
        begun = now + ahead * (nth < n_ahead)
        process = (
            fading(now=begun)
            if disk is None
            else agent(half_life=HALF_LIFE, clock=lambda begun=begun: begun)
        )
        if disk is not None:
            process.restore(disk)
        process.reward_window, process.compaction.fold_above = 1.0, 1
        process.compaction.every = 1
        process.tick(begun)
        process.observe("a", ONE, process.begin_decision("a"))
        pulls = process.own()["a"][-1]
        if process.needs_compaction():
            process.compact(())
        assert process.own()["a"][-1] == pytest.approx(pulls, abs=10)
        disk = save(process)
    (folded,) = bases(process)
    assert len(folded.covers) == n_folded
    assert (folded.epoch > process._epochs.epoch) == (n_ahead == 3)
