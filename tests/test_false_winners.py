"""Looking after every pull: the verdict holds its error, where P(best) >= 0.95 names losers.

Seeds are fixed. `make study` has ten times as many runs, five times as long, in more worlds.
"""

import math
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import posse

pytestmark = pytest.mark.long
STUDIES = Path(__file__).parents[1] / "studies"
here = SimpleNamespace(**runpy.run_path(str(STUDIES / "lab_false_winners.py")))
RUNS, PULLS = 200, 2000


@pytest.mark.parametrize(
    ("kind", "means", "fraction"),
    [(here.GAUSSIAN, [0.3, 0.3], 0.0), (here.BERNOULLI, [0.03, 0.03], 0.5)],
    ids=["gaussian, Thompson", "bernoulli, TopTwo"],
)
def test_false_winners_are_rarer_than_the_error_unlike_by_the_chance_of_being_best(
    kind, means, fraction
):
    false, _, naive = here.experiments(kind, fraction, means, PULLS, RUNS)
    assert here.upper_bound(false, RUNS) <= 0.05
    assert 1 - here.upper_bound(RUNS - naive, RUNS) > 0.3


def test_a_true_winner_is_found():
    false, times, _ = here.experiments(here.GAUSSIAN, 0.5, [0.5, 0.0, 0.0], PULLS, 20)
    assert false == 0
    assert np.isfinite(times).all()


@pytest.mark.parametrize("kind", [here.GAUSSIAN, here.BERNOULLI, here.POISSON])
def test_the_screen_lets_every_winner_pass(kind):
    """On random evidence, at the very threshold that `posse.verdict` finds."""
    rng, family = np.random.default_rng(1), here.FAMILIES[kind]
    zero, one = family.statistic(np.array([0.0, 1.0])).T
    found = 0
    for _ in range(40):
        n = rng.integers(1, 3000, size=3).astype(float)
        total = np.floor(n * rng.uniform(0.02, 0.2 if kind else 0.6, size=3))
        belief = family.prior()[:, None] + np.outer(zero, n) + np.outer(one - zero, total)
        evidence = posse.verdict(family, belief).evidence
        if evidence > 0:
            found += 1
            assert here.may_win(kind, n, total, 3, evidence - 1e-6)
            # and no other is far from it
            assert not here.may_win(kind, n, total, 3, evidence + 0.2 + 1e-3 * evidence)
    assert found > 5


def test_the_screen_computes_the_same_e_values():
    for kind, family in here.FAMILIES.items():
        zero, one = family.statistic(np.array([0.0, 1.0])).T
        for n, total, x in [(3.0, 1.0, 0.4), (500.0, 20.0, 0.05), (9.0, 0.0, 0.3)]:
            exact = posse.stopping.log_e_value(
                family, (n * zero + total * (one - zero))[:, None], np.array([x])
            )
            assert here.compute_log_e(kind, n, total, x) == pytest.approx(
                float(exact[0, 0]), abs=1e-9
            )
    assert here.upper_bound(0, 2000) == pytest.approx(1 - 0.05 ** (1 / 2000))
    assert math.isclose(here.upper_bound(5, 5), 1.0)
