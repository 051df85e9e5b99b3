"""Ranks and ratios against their definitions."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from posse.lab.arena import standings as st
from posse.lab.report.scoreboard import PairedDifference, adjust_pairs, rank_algorithms
from posse.lab.statistics import Estimate, holm


def pair(first, second, difference, p):
    """A pair before Holm's correction."""
    return PairedDifference(first, second, Estimate(difference, 1.0, -1.0, 1.0), p)


def test_ranks_count_those_that_are_better_beyond_doubt():
    pairs = [
        pair("a", "b", -1.0, 1e-6),  # a is better than b
        pair("a", "c", -2.0, 1e-6),
        pair("b", "c", -1.0, 0.5),  # nobody knows
        pair("d", "a", 9.0, 1e-6),  # d is worse than all
        pair("d", "b", 9.0, 1e-6),
        pair("d", "c", 9.0, 1e-6),
    ]
    ranking = rank_algorithms(["a", "b", "c", "d"], adjust_pairs(pairs))
    assert ranking.ranks == {"a": 1, "b": 2, "c": 2, "d": 4}
    assert ranking.shared_ranks == {"a": 1.0, "b": 2.5, "c": 2.5, "d": 4.0}
    assert rank_algorithms(["alone"], []).ranks == {"alone": 1}


def test_ranks_are_corrected_for_the_number_of_pairs():
    names = [f"{k}" for k in range(10)]
    pairs = adjust_pairs([pair(a, b, -1.0, 0.02) for a in names for b in names if a < b])
    assert set(rank_algorithms(names, pairs).ranks.values()) == {1}  # 0.02 x 45 is no evidence


def test_the_error_of_a_log_ratio_is_that_of_many_repetitions():
    generator = np.random.default_rng(2)
    shared = generator.gamma(4.0, 1.0, (4000, 100))
    a = 3 * shared + generator.gamma(1.0, 1.0, (4000, 100))
    b = shared + generator.gamma(4.0, 1.0, (4000, 100))
    found = [st.log_ratio(one, other) for one, other in zip(a, b, strict=True)]
    values = np.array([ratio.value for ratio in found])
    # both estimate the deviation of ln(13/8): that of 4000 draws is known to 1.1%, so four of these
    assert np.sqrt(np.mean([ratio.variance for ratio in found])) == pytest.approx(
        values.std(), rel=0.05
    )
    assert values.mean() == pytest.approx(math.log(13 / 8), abs=0.003)
    assert st.log_ratio(a[0], np.zeros(100)) is None


def test_log_ratios_of_instances_are_averaged_as_independent():
    ratios = [st.LogRatio(0.2, 0.01, 11), st.LogRatio(0.4, 0.03, 11)]
    estimate, p = st.mean_log_ratio(ratios)
    freedom = 0.04**2 / (0.01**2 / 10 + 0.03**2 / 10)  # Satterthwaite's
    law = stats.t.interval(0.95, freedom, loc=0.3, scale=0.1)
    assert estimate.mean == pytest.approx(0.3)
    assert estimate.standard_error == pytest.approx(0.1)
    assert (estimate.low, estimate.high) == pytest.approx(law)
    assert p == pytest.approx(2 * stats.t.sf(3, freedom))
    assert st.mean_log_ratio([st.LogRatio(0.0, 0.0, 5)])[1] == 1.0
    assert st.mean_log_ratio([st.LogRatio(0.1, 0.0, 5)])[1] == 0.0


def test_one_instance_of_few_runs_is_not_overrated():
    """Ten alike, 10 runs of one instance: a difference is claimed in 5% of arenas at most."""
    generator = np.random.default_rng(3)
    arenas = 300
    claims = 0
    for _ in range(arenas):
        regrets = generator.gamma(4.0, 1.0, (10, 10))
        p_values = [
            st.mean_log_ratio([ratio])[1]
            for a, b in itertools.combinations(regrets, 2)
            if (ratio := st.log_ratio(a, b))
        ]
        claims += min(holm(p_values)) < 0.05
    # more than so many of 300 at 5% has a chance of 1e-4; the normal law would claim 28%
    assert claims <= stats.binom.isf(1e-4, arenas, 0.05)
