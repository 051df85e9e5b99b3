"""Side rows: exact like all rows of an entry, within their bounds, and no pulls."""

import pytest

from posse.live.exchange.message_validation import RateCap
from posse.live.ledger import PER_UNIT, name_side_row
from tests.live.exchange.origins import (
    agent,
    bases,
    entry,
    link,
    message,
    own_entries,
    pump,
    save,
    start,
)

SIDE = {"bounds": (1.0, 1.0, 1.0, 1.0), "closed": 1, "side": 2.0}
ONE = PER_UNIT
CELL = (ONE // 2, ONE // 4, ONE)
NAME = name_side_row("metric", "latency", "red")
WHOLE = (ONE, ONE, ONE, ONE)


def add(process, incarnation=0):
    number = incarnation or process.begin_decision("a", [NAME])
    process.observe("a", WHOLE, number)
    process.observe_side(NAME, CELL, number)
    return number


def test_side_rows_reach_every_agent_and_are_no_evidence_about_arms():
    mine, other = agent(**SIDE), agent("other", **SIDE)
    agents = link(mine, other)
    for _ in range(3):
        add(mine)
    pump(agents, 0.0, 3)
    for process in (mine, other):
        assert process.side_cells() == {("metric", "latency", "red"): (*(3 * x for x in CELL),)}
        assert process.evidence() == {"a": (*(3 * x for x in WHOLE),)}
        assert process.by_origin() == {"me": process.evidence()}
        assert process.pulls_by_origin() == {"me": 3}
    assert mine.side_cells(own=True) == mine.side_cells()
    assert other.side_cells(own=True) == {}
    assert own_entries(mine)[0].version[0] == 3  # decisions, not rows
    assert mine.refusals + other.refusals == {}


def test_they_wait_in_the_rest_and_survive_restarts_and_compaction():
    mine, other = agent(**SIDE), agent("other", **SIDE)
    agents = link(mine, other)
    old = add(mine)
    now = pump(agents, 0.0, 3)
    for _ in range(12):
        mine = start(save(mine), **SIDE)
        mine.reward_window = 5.0
        mine.compaction.every, mine.compaction.fold_above = 1, 2
        mine.observe_side(NAME, CELL, old)  # while it rests
        assert mine.side_cells() == mine.side_cells(own=True)
        agents = link(mine, other)
        now = pump(agents, now, 3)
        old = add(mine)
        now = pump(agents, now, 3)
        if mine.needs_compaction():
            mine.compact([old])
    pump(agents, now, 12)
    total = (*(25 * x for x in CELL),)
    assert mine.side_cells() == other.side_cells() == {("metric", "latency", "red"): total}
    assert bases(mine)
    assert mine.evidence() == {"a": (*(13 * x for x in WHOLE),)}


@pytest.mark.parametrize(
    "cell",
    [
        (3 * ONE, ONE, ONE),  # more than the largest observation
        (0, 2 * ONE, ONE),  # squares above the count
        (0, -1, ONE),
        (0, 0, -ONE),
        (0, ONE, 0),
    ],
)
def test_what_no_observation_gives_is_refused_here_and_of_neighbours(cell):
    mine = agent(**SIDE)
    with pytest.raises(ValueError, match="no observation within the bounds"):
        mine.observe_side(NAME, cell)
    forged = entry(evidence={"a": WHOLE, NAME: cell})
    mine.receive("other", message(forged), 1.0)
    assert mine.refusals == {"evidence_exceeds_pulls": 1}
    assert mine.side_cells() == {}


def test_where_nothing_is_measured_side_rows_are_refused():
    options = SIDE | {"side": None}
    mine = agent(**options)
    with pytest.raises(ValueError, match="no observation"):
        mine.observe_side(NAME, CELL)
    mine.receive("other", message(entry(evidence={"a": WHOLE, NAME: CELL})), 1.0)
    assert mine.refusals == {"evidence_exceeds_pulls": 1}
    with pytest.raises(ValueError, match="do not fade"):
        agent(**SIDE, half_life=10.0)


def test_a_side_row_has_three_numbers_and_counts_as_no_pull():
    mine = agent(**SIDE, rate_cap=RateCap(1.0, 0.0))
    mine.receive("other", message(entry(evidence={NAME: (*CELL, ONE)})), 1.0)
    assert mine.refusals == {"malformed": 1}
    ok = entry(evidence={"a": WHOLE, NAME: CELL})
    assert ok.pulls() == ONE
    mine.receive("other", message(ok), 1.0)
    assert mine.side_cells() == {("metric", "latency", "red"): CELL}


def test_room_is_reserved_for_all_rows_of_a_decision():
    mine = agent(**SIDE)
    first = mine.begin_decision("a0", [name_side_row("metric", "m", "a0")])
    for number in range(1, 600):
        made = mine.begin_decision(f"a{number}", [name_side_row("metric", "m", f"a{number}")])
        mine.observe(f"a{number}", WHOLE, made)
        mine.observe_side(name_side_row("metric", "m", f"a{number}"), CELL, made)
    assert made != first  # 1,200 rows are more than one entry holds
    assert mine.refusals == {}
    assert len(mine.side_cells()) == 599


def test_side_rows_take_no_more_room_where_contexts_have_many_columns():
    """Seen: they were as wide as the rows of arms, and neighbours refused what they filled."""
    wide = {"bounds": (1.0,) * 1056, "closed": 527, "side": 2.0}
    mine, other = agent(**wide), agent("other", **wide)
    agents = link(mine, other)
    row = (0,) * 1055 + (ONE,)
    buckets = [name_side_row("uplift", f"bandit {n}") for n in range(64)]
    numbers = set()
    for bucket in buckets * 2:
        numbers.add(mine.begin_decision("a", [bucket]))
        mine.observe("a", row, max(numbers))
        mine.observe_side(bucket, CELL, max(numbers))
    assert len(numbers) == 1  # all of it is in one entry
    pump(agents, 0.0, 3)
    assert other.evidence() == {"a": (0,) * 1055 + (128 * ONE,)}
    assert len(other.side_cells()) == 64
    assert set(other.side_cells().values()) == {tuple(2 * x for x in CELL)}
    assert own_entries(mine)[0].size() < 20_000
