"""Ties are broken uniformly at random, and only ties; seeds are fixed, error rate 1e-6."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats

from posse.policies import Greedy, argmax


@given(
    scores=arrays.arrays(
        float,
        arrays.array_shapes(min_dims=1, max_dims=3, max_side=6),
        elements=st.one_of(st.sampled_from([0.0, 1.0, -np.inf, np.inf]), st.floats(-9, 9)),
    ),
    seed=st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=80)
def test_the_arm_chosen_has_the_highest_score(scores, seed):
    arms = argmax(scores, np.random.default_rng(seed))
    chosen = np.take_along_axis(scores, np.asarray(arms)[..., None], axis=-1)[..., 0]
    assert np.shape(arms) == scores.shape[:-1]
    np.testing.assert_array_equal(chosen, scores.max(axis=-1))


@pytest.mark.parametrize(
    "row",
    [
        [1.0, 1.0, 1.0, 1.0],
        [0.0, 2.0, 1.0, 2.0, 2.0],
        [-np.inf, -np.inf, -np.inf],
        [np.inf, 0.0, np.inf],
        [0.0] * 17,
    ],
)
def test_tied_arms_are_equally_likely(row):
    row = np.array(row)
    arms = argmax(np.broadcast_to(row, (40_000, len(row))), np.random.default_rng(1))
    counts = np.bincount(arms, minlength=len(row))
    tied = row == row.max()
    assert counts[~tied].sum() == 0
    assert stats.chisquare(counts[tied]).pvalue > 1e-6


def test_agents_break_their_ties_apart():
    """All agents of a run must not move together: pairs of neighbours are independent."""
    arms = argmax(np.zeros((20_000, 2, 3)), np.random.default_rng(2))
    table = np.bincount(3 * arms[:, 0] + arms[:, 1], minlength=9)
    assert stats.chisquare(table).pvalue > 1e-6


def test_the_stream_moves_alike_with_and_without_ties():
    after = []
    for scores in (np.zeros((5, 4)), np.eye(5, 4), np.arange(20.0).reshape(5, 4)):
        stream = np.random.default_rng(3)
        argmax(scores, stream)
        after.append(stream.random())
    assert len(set(after)) == 1


def test_the_last_of_many_tied_arms_can_be_drawn_and_none_beyond():
    class Almost:
        def random(self, size):
            return np.full(size, 1 - 2.0**-53)

    for n_tied in (2, 3, 5, 9, 17, 1000):
        assert argmax(np.zeros((1, n_tied)), Almost()) == n_tied - 1


def test_greedy_scores_are_posterior_means(family, learnt):
    belief = learnt(family, np.random.default_rng(4), (3, 4))
    scores = Greedy().scores(belief, family, 1, None, np.random.default_rng(5))
    np.testing.assert_array_equal(scores, family.posterior_mean(belief))
