"""Whole agents through schedules of faults; `make simulate` runs many more of the same."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest

from simulation import disk as disks
from simulation.campaign import describe_failure, find_failure
from simulation.fading import fading_plan_of
from simulation.mutations import remove_rule
from simulation.schedule import Plan, plan_of
from simulation.shrink import shrink_plan
from simulation.steps import play_step
from simulation.verdict import open_folder, run_plan
from simulation.world import World
from tests.combinations import all_combinations

SCHEDULES, PART = 150, 15  # of each exchange, and of one test: the first is in `make test`
FADING = 5  # of those in which epochs pass
LONGEST, LARGEST = 20, 3  # steps; agents times experiments: `make simulate` has larger ones


def small(exchange):
    """The beginnings of schedules that cost little."""
    plans = (plan_of(seed, exchange) for seed in itertools.count())
    few = (plan for plan in plans if len(plan.names) * len(plan.experiments) <= LARGEST)
    return (replace(plan, steps=plan.steps[:LONGEST]) for plan in few)


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(PART, SCHEDULES, PART))]
)
@pytest.mark.parametrize("exchange", ["origins", "flows"])
def test_what_was_acknowledged_is_counted_once_whatever_happens(exchange, first):
    for plan in itertools.islice(small(exchange), first, first + PART):
        if find_failure(plan) is not None:
            pytest.fail(describe_failure(plan))


@pytest.mark.parametrize("exchange", ["origins", "flows"])
def test_what_fades_fades_alike_whatever_happens(exchange):
    plans = (fading_plan_of(seed, exchange) for seed in itertools.count())
    few = (plan for plan in plans if len(plan.names) * len(plan.experiments) <= LARGEST)
    for plan in itertools.islice(few, FADING):
        if find_failure(plan) is not None:
            pytest.fail(describe_failure(plan))


def test_a_seed_is_one_schedule():
    plans = [plan_of(seed, "origins") for seed in range(20)]
    assert plans == [plan_of(seed, "origins") for seed in range(20)]
    assert all(one.steps != other.steps for one, other in itertools.pairwise(plans))


KNOWN = json.loads(Path(__file__).with_name("known_schedules.json").read_text())


def read_plan(known):
    """A schedule that failed before every decision had one entry, or since then."""
    return Plan(**{key: as_tuples(value) for key, value in known.items() if key != "found"})


def as_tuples(value):
    return tuple(map(as_tuples, value)) if isinstance(value, list) else value


def name_schedule(known):
    return str(known["seed"])


@pytest.mark.parametrize("known", KNOWN, ids=name_schedule)
def test_schedules_that_once_failed(known):
    assert find_failure(read_plan(known)) is None


def test_a_schedule_replaces_nothing_for_longer_than_it_is_played():
    """Seen: tests that ran later in the same process had no policy checked."""
    before = [getattr(owner, name) for owner, name, _ in disks._list_replacements()]
    assert run_plan(plan_of(1, "origins")) is None
    assert before == [getattr(owner, name) for owner, name, _ in disks._list_replacements()]


A1 = (  # a volume set back: rewards that neighbours hold, and others before it hears of them
    *(("pull", 0, 2), ("mingle", 0, 0), ("backup", 0, 3), ("pull", 0, 2), ("pull", 0, 2)),
    *(("mingle", 0, 0), ("set_back", 0, 0)),
)


@pytest.mark.parametrize("fresh", [6, 8])
def test_the_checker_sees_a_volume_set_back_where_incarnations_are_resumed(fresh):
    """As many and more rewards than were set back: in disagreement, erased."""
    triangle = (("a", "b"), ("b", "c"), ("a", "c"))
    steps = (*A1, *[("pull", 0, 0)] * fresh)
    plan = Plan(1, "origins", ("a", "b", "c"), triangle, steps)
    assert find_failure(plan) is None
    with remove_rule("origins: an incarnation is never resumed"):
        assert run_plan(plan) is not None


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        ("store: memory goes back when a commit fails", "failing"),
        ("store: acknowledged means committed", "failing"),
        ("store: a reward waits for the disk", "power"),
        ("origins: signatures", "lie"),
        ("origins: a digest replaces what was held", "lose"),
        pytest.param(
            *("origins: own entries rest after a start", "set_back"), marks=pytest.mark.long
        ),
        ("origins: a superseded incarnation is not written", "set_back"),
        ("origins: own entries of others are taken", "lose"),
    ],
)
def test_a_rule_taken_away_is_noticed(rule, fault):
    plans = (plan_of(seed, "origins") for seed in itertools.count())
    often = (plan for plan in plans if sum(what == fault for what, _, _ in plan.steps) > 4)
    with remove_rule(rule):
        assert any(run_plan(plan) is not None for plan in itertools.islice(often, 40))


def test_a_failure_is_repeated_by_its_seed_with_fewer_steps():
    with remove_rule("store: evidence is in the same commit"):
        plan = plan_of(1, "origins")
        said = describe_failure(plan)
        assert said == describe_failure(plan)
        assert "python -m simulation --seed 1 --exchange origins" in said
        short = shrink_plan(plan, lambda fewer: find_failure(fewer) is not None)
        assert len(short.steps) < 5
        assert find_failure(short) is not None


@pytest.mark.parametrize("exchange", ["origins", "flows"])
def test_nothing_is_said_before_it_is_on_disk(exchange):
    """An answer tells what is held; one who is told of what a disk then has not, waits in vain."""

    def said_by_b_while_its_disk_fails():
        world = World(Plan(1, exchange, ("a", "b"), (("a", "b"),), ()), path)
        try:
            for what, a, b in (("mingle", 0, 0), ("pull", 0, 2), ("tick_all", 0, 0)):
                play_step(world, what, a, b)
            play_step(world, "deliver_to", 0, 0)
            play_step(world, "failing", 1, 2)
            for letter in [each for each in world.post.waiting if each.receiver == "b"]:
                world.post.waiting.remove(letter)
                world.deliver_letter(letter)
            assert world.sites["b"].disk.failed
            return [each for each in world.post.waiting if each.sender == "b"]
        finally:
            world.close()

    with open_folder() as path, disks.simulate_disks():
        assert not said_by_b_while_its_disk_fails()
    rule = remove_rule("node: nothing is sent before its commit")
    with open_folder() as path, disks.simulate_disks(), rule:
        assert said_by_b_while_its_disk_fails()


@pytest.mark.parametrize("exchange", ["origins", "flows"])
def test_a_tick_puts_decisions_on_disk(exchange):
    # the first one opens an incarnation, which any tick puts on disk
    once = (("decide", 0, 3), ("tick", 0, 0))
    steps = (("mingle", 0, 0), *once, *once, ("power", 0, 1))
    plan = Plan(1, exchange, ("a", "b"), (("a", "b"),), steps)
    assert find_failure(plan) is None
    with remove_rule("store: a tick flushes decisions"):
        assert find_failure(plan) is not None


@all_combinations(
    exchange=["origins", "flows"],
    fault={"kill": 1, "power": 2, "torn": 3},
    silence={"waits": {}, "counts": {"window": 5.0, "default_reward": 0.0}},
)
def test_a_process_that_ends_at_any_of_its_statements_and_messages(exchange, fault, silence):
    """In the middle of a commit, too, and again when the power fails after the next start."""
    for events in range(0, 30, 3):
        steps = (("bomb", 0, 4 * events + fault), ("pull", 0, 1), ("start", 0, 0), ("power", 0, 1))
        plan = Plan(events, exchange, ("a", "b"), (("a", "b"),), steps, **silence)
        assert find_failure(plan) is None


@pytest.mark.parametrize("heard", [(), (("mingle", 0, 0),)], ids=["before", "after"])
@pytest.mark.parametrize("silence", [{}, {"window": 40.0, "default_reward": 0.0}])
def test_what_was_open_in_a_copy_put_back_counts_once(silence, heard):
    """Its reward of before is with the neighbours: another one is refused, once they were heard."""
    steps = (
        *(("decide", 0, 3), ("mingle", 0, 0), ("backup", 0, 1), ("settle", 0, 0)),
        *(("mingle", 0, 0), ("set_back", 0, 0), *heard, ("settle", 0, 0), ("mingle", 0, 0)),
    )
    plan = Plan(1, "origins", ("a", "b"), (("a", "b"),), steps, **silence)
    assert find_failure(plan) is None
    if heard:  # else it waited, and no longer counts
        with remove_rule("store: what is superseded no longer counts"):
            assert run_plan(plan) is not None
