"""P(best) of decisions: within 1e-7 of the fine rule, of closed forms and of SciPy's quadrature."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pytest
from scipy import integrate
from scipy.special import betainc, betaln, ndtr, ndtri, stdtr, stdtrit

from posse import best_arm, families
from posse.best_arm import MOST_KEPT, Cells, Race, evaluate_arms
from posse.families import FAMILIES, Interval
from tests.effort import limit_count

LIVE = [name for name in FAMILIES if getattr(FAMILIES[name], "powers", ())]
WITHIN = 1e-7


@pytest.fixture(params=LIVE)
def live(request):
    """Every registered family that is for live agents, in turn."""
    return FAMILIES[request.param]()


def believed(family, counts, means, variance=0.5):
    """The belief (D, K) after so many rewards of these means, fractions too."""
    linear = {"gaussian-unknown-variance": means**2 + variance}.get(family.name, means)
    statistic = family.statistic(np.asarray(means, dtype=float))
    if len(statistic) == 4:
        statistic[3] = linear / 2
    return family.prior()[:, None] + counts * statistic


def random_belief(family, generator):
    """Few pulls or ten million, equal arms, one far ahead, arms that are nearly as good."""
    n_arms = int(generator.choice([2, 3, 5, 17]))
    counts = 10 ** generator.uniform(-2, 7, n_arms)
    if generator.random() < 0.3:
        counts[:] = counts[0]
    means = generator.uniform(0.05, 0.95, n_arms)
    kind = generator.integers(4)
    if kind == 0:
        means = means[0] + (means - means[0]) / np.sqrt(counts)  # hard to tell apart
        means = np.clip(means, 0.01, 0.99)
    if kind == 1:
        means[:] = means[0]
    if kind == 2:
        means = 0.01 * means
        means[0] = 0.99
    return believed(family, counts, means)


def test_within_1e7_of_the_fine_rule(live):
    """Laid anew for each of these beliefs, and kept from the one before."""
    generator, kept = np.random.default_rng(20), Race(live)
    for _ in range(limit_count(live, 60, 4000)):
        belief = random_belief(live, generator)
        exact = evaluate_arms(live, belief)[0]
        for chances in (Race(live)(belief), kept(belief)):
            assert np.abs(chances - exact).max() < WITHIN
            assert chances.sum() == pytest.approx(1.0, abs=1e-12)
            assert ((chances >= 0) & (chances <= 1)).all()


def test_along_a_path_of_rewards(live, monkeypatch):
    """Cells are kept for most beliefs, and the fine rule is never needed; yet all is exact."""
    laid, fines = [], []
    lay = best_arm.Cells
    monkeypatch.setattr(best_arm, "Cells", lambda *args: laid.append(0) or lay(*args))
    monkeypatch.setattr(
        best_arm, "evaluate_arms", lambda *args: fines.append(0) or evaluate_arms(*args)
    )
    generator, one = np.random.default_rng(21), Race(live)
    means = np.array([0.3, 0.5, 0.55, 0.2])
    belief = np.repeat(live.prior()[:, None], 4, axis=1)
    for step in range(400):
        chances = one(belief)
        if step % (400 // limit_count(live, 40, 2000)) == 0:
            assert np.abs(chances - evaluate_arms(live, belief)[0]).max() < WITHIN
        arm = int(generator.choice(4, p=chances / chances.sum()))
        reward = live.draw_rewards(means[arm : arm + 1], generator)
        belief = belief.copy()
        belief[:, arm] += live.statistic(reward)[:, 0]
    assert len(laid) < 15
    assert not fines


@pytest.mark.parametrize("prior", [1e-3, 0.03, 0.3, 0.5, 0.9])
def test_priors_that_are_infinite_at_an_end(prior, monkeypatch):
    """Beta(0.3, 9.7) is the prior of a rare reward; cells shrink toward the end of the range."""
    fines = []
    monkeypatch.setattr(
        best_arm, "evaluate_arms", lambda *args: fines.append(0) or evaluate_arms(*args)
    )
    for family, priors in (
        (families.Bernoulli(), [prior, 9.7]),
        (families.Bernoulli(), [prior, prior]),
        (families.Poisson(), [prior, 1.0]),
    ):
        one = Race(family)
        for added in ([[0, 0, 0], [0, 0, 0]], [[0, 0, 1], [0, 5, 3]], [[0, 3, 4], [30, 90, 99]]):
            belief = np.array(priors)[:, None] + np.array(added)
            assert np.abs(one(belief) - evaluate_arms(family, belief)[0]).max() < WITHIN
        assert not fines or prior < 0.3 or priors[1] == 0.3
        fines.clear()


def exact_beta(alpha, beta, other_alpha, other_beta):
    """P(Beta(alpha, beta) > Beta(other)) for whole alpha: a finite sum of positive terms."""
    i = np.arange(alpha)
    logs = betaln(other_alpha + i, other_beta + beta) - np.log(beta + i) - betaln(1 + i, beta)
    return np.exp(logs - betaln(other_alpha, other_beta)).sum()


@pytest.mark.parametrize(
    ("first", "second"),
    [((3, 5), (4, 4)), ((1, 1), (30, 10)), ((200, 300), (260, 240)), ((1, 900), (2, 1000))],
)
def test_two_beta_arms_in_closed_form(first, second):
    chances = Race(families.Bernoulli())(np.array([first, second], dtype=float).T)
    assert chances[0] == pytest.approx(exact_beta(*first, *second), abs=WITHIN)


@pytest.mark.parametrize("gap", [0.0, 0.5, 3.0, 9.0])
@pytest.mark.parametrize("sds", [(1.0, 1.0), (0.2, 3.0), (1e-6, 10.0), (1e-4, 1e-4)])
def test_two_gaussian_arms_in_closed_form(gap, sds):
    sds = np.array(sds)
    means = np.array([0.0, gap * math.hypot(*sds)])
    chances = Race(families.Gaussian())(np.array([means, np.ones(2)]) / sds**2)
    np.testing.assert_allclose(chances, [ndtr(-gap), ndtr(gap)], atol=WITHIN)


@pytest.mark.parametrize("shapes", [(1.5, 2.0), (3.0, 40.0), (0.3, 0.5), (500.0, 700.0)])
@pytest.mark.parametrize("rates", [(1.0, 1.0), (2.0, 50.0)])
def test_two_gamma_arms_in_closed_form(shapes, rates):
    belief = np.array([shapes, rates])
    below = betainc(*shapes, rates[0] / sum(rates))
    np.testing.assert_allclose(Race(families.Poisson())(belief), [1 - below, below], atol=WITHIN)
    if min(shapes) > 1:
        chances = Race(families.Exponential())(belief)
        np.testing.assert_allclose(chances, [below, 1 - below], atol=WITHIN)


@pytest.mark.parametrize("counts", [(0.0, 3.0, 8.0), (0.0, 0.0, 4000.0), (50.0, 60.0, 70.0)])
def test_three_student_arms_against_scipy_quadrature(counts):
    """Heavy tails, with one degree of freedom more than two at first."""
    family = families.GaussianUnknownVariance()
    belief = believed(family, np.array(counts), np.array([0.4, 0.5, 0.6]))
    weighted, count, shape, energy = belief
    location = weighted / count
    scale = np.sqrt((energy - weighted * location / 2) / (shape * count))
    chances = Race(family)(belief)
    for k in range(3):

        def others(level, k=k):
            mean = location[k] + scale[k] * stdtrit(2 * shape[k], level)
            return np.delete(stdtr(2 * shape, (mean - location) / scale), k).prod()

        levels = ndtr(np.linspace(-8, 8, 65))
        expected = math.fsum(
            integrate.quad(others, *ends, epsabs=1e-12)[0] for ends in pairwise(levels)
        )
        assert chances[k] == pytest.approx(expected, abs=WITHIN)


class LogNormal:
    """A stranger's family: the logarithm of its means has a Gaussian belief; no OptionalMethods."""

    means: ClassVar[Interval] = Interval(0.0, math.inf)

    def mean_quantile(self, belief, level):
        return np.exp(belief[0] / belief[1] + ndtri(level) / np.sqrt(belief[1]))

    def mean_cdf(self, belief, mean):
        return ndtr((np.log(mean) - belief[0] / belief[1]) * np.sqrt(belief[1]))

    def log_density(self, belief, mean):
        return families.Gaussian().log_density(belief, np.log(mean)) - np.log(mean)


class Careless(LogNormal):
    """Its density lacks a constant, so that it does not integrate to one."""

    def log_density(self, belief, mean):
        return super().log_density(belief, mean) + 0.01


def test_a_family_of_ones_own():
    """Who is best is the same on any scale."""
    belief = np.array([[0.0, 3.0, -4.0], [1.0, 9.0, 30.0]])
    expected = evaluate_arms(families.Gaussian(), belief)[0]
    np.testing.assert_allclose(Race(LogNormal())(belief), expected, atol=WITHIN)
    np.testing.assert_array_equal(Race(Careless())(belief), evaluate_arms(Careless(), belief)[0])


def test_beliefs_that_jump():
    """Kept cells are given up where the best lies below them, above, or is another arm."""
    family = families.Gaussian()
    one = Race(family)
    sds = np.array([0.1, 0.1, 0.2])
    for means in ([5.0, 4.9, 1.0], [0.0, 0.1, 0.2], [9.0, 0.0, 8.9], [8.9, 9.2, 9.0], [9.0] * 3):
        belief = np.array([np.array(means), np.ones(3)]) / sds**2
        assert np.abs(one(belief) - evaluate_arms(family, belief)[0]).max() < WITHIN
    for n_arms in (2, 5, 3):
        belief = np.array([np.linspace(0, 1, n_arms), np.ones(n_arms)]) * 30.0
        assert np.abs(one(belief) - evaluate_arms(family, belief)[0]).max() < WITHIN


def test_arms_known_to_the_last_digit():
    certain = np.array([[1.0, 2.0, 2.0], [1.0, 1.0, 1.0]]) * 1e40
    np.testing.assert_allclose(Race(families.Gaussian())(certain), [0.0, 0.5, 0.5], atol=1e-12)


def test_a_thousand_arms():
    """The best of so many lies far out; equal arms share, and the cells are few."""
    family, one = families.Gaussian(), Race(families.Gaussian())
    belief = np.repeat(np.array([[0.0], [1.0]]), 1000, axis=1)
    np.testing.assert_allclose(one(belief), 1e-3, rtol=1e-7)
    belief = np.array([np.random.default_rng(22).uniform(0, 30, 1000), np.full(1000, 20.0)])
    assert np.abs(one(belief) - evaluate_arms(family, belief)[0]).max() < WITHIN
    cells = Cells(family, belief)
    assert cells.size <= MOST_KEPT
    assert len(cells.half) < 100


def test_a_belief_that_may_change_is_not_taken_for_the_last_one():
    family, one = families.Gaussian(), Race(families.Gaussian())
    belief = np.array([[0.0, 1.0], [1.0, 1.0]])
    before = one(belief)
    belief[0] = [1.0, 0.0]
    np.testing.assert_allclose(one(belief), before[::-1])
    belief.setflags(write=False)
    assert one(belief) is one(belief)
    with pytest.raises(ValueError, match="read-only"):
        one(belief)[0] = 1.0
    assert family.means == one.family.means
