"""Bounds: what neighbours accept of a row, and the nearest row that they accept."""

import hypothesis
import hypothesis.strategies as st

from posse.live.ledger import PER_UNIT, Bounds

CONTEXTS = Bounds((1.0,) * 12, closed=5, rounded=True, features=2, side=None)
NUMBERS = st.integers(-3 * PER_UNIT, 3 * PER_UNIT) | st.integers(-2, 2)
FEATURES = st.sampled_from([0.0, 0.25, 0.5, 1.0, -0.5, -1.0])  # whose products are whole quanta


@hypothesis.given(st.tuples(*[NUMBERS] * 12))
def test_a_clipped_row_is_one_that_neighbours_accept(row):
    clipped = CONTEXTS.clip_entry(row)
    assert CONTEXTS.allow_row("a", clipped)
    assert CONTEXTS.clip_entry(clipped) == clipped


@hypothesis.given(st.lists(st.tuples(FEATURES, FEATURES), min_size=1, max_size=9))
def test_a_row_of_decisions_is_not_clipped(points):
    columns = [(p, q, p * p, p * q, q * q) for p, q in points]
    sums = [int(PER_UNIT * sum(column)) for column in zip(*columns, strict=True)]
    count = PER_UNIT * len(points)
    row = (*sums, *sums, count, count)
    assert CONTEXTS.allow_row("a", row)
    assert CONTEXTS.clip_entry(row) == row
