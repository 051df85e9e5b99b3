"""posse.verdict: e-values by exact sums, against other ways to compute them, and at extremes."""

import itertools
import math

import numpy as np
import pytest
from scipy import optimize, special, stats

import posse
from posse import beliefs
from posse.best_arm import evaluate_arms, evaluate_tolerance
from posse.families import (
    FAMILIES,
    Bernoulli,
    Bounded,
    Exponential,
    Gaussian,
    GaussianUnknownVariance,
    Grid,
    Poisson,
)
from posse.stopping import (
    STRENGTHS,
    compute_superiority,
    explain_no_verdict,
    forecast_pulls,
    judge_by_loss,
    log_e_value,
)

ALLOWED = [Bernoulli(), Bounded(), Gaussian(2.0), Poisson(), Exponential()]


def evidence(family, pulls, total):
    """What so many rewards with this sum add, for a statistic that is affine in the reward."""
    one, two = family.statistic(np.array([0.25, 0.75])).T
    slope = (two - one) / 0.5
    ahead = np.ndim(np.asarray(pulls) * np.asarray(total))
    column = [-1, *[1] * ahead]
    return (one - slope * 0.25).reshape(column) * pulls + slope.reshape(column) * total


def of_arms(family, pulls, means):
    """The belief (D, K) of arms with these pulls and sample means."""
    pulls, means = np.asarray(pulls, dtype=float), np.asarray(means, dtype=float)
    return family.prior()[:, None] + evidence(family, pulls, pulls * means)


def expected_e(log_law, family, pulls, totals, mean):
    """The sum of law times e-value, in logarithms: the one underflows where the other overflows."""
    log_values = log_e_value(family, evidence(family, pulls, totals), np.array([mean]))[0]
    return np.exp(log_law + log_values).sum()


def test_every_family_is_allowed_or_says_why_not():
    for name, cls in FAMILIES.items():
        family = cls.example() if hasattr(cls, "example") else cls()
        assert (explain_no_verdict(family) is None) == (name in {each.name for each in ALLOWED})


@pytest.mark.parametrize("mean", [0.003, 0.03, 0.5, 0.9])
@pytest.mark.parametrize("n", [1, 5, 50, 500])
def test_the_expected_e_value_is_1_bernoulli(mean, n):
    successes = np.arange(n + 1.0)
    law = stats.binom.logpmf(successes, n, mean)
    assert expected_e(law, Bernoulli(), float(n), successes, mean) == pytest.approx(1, abs=1e-10)


@pytest.mark.parametrize(("mean", "n"), [(0.02, 10), (1.7, 1), (1.7, 20), (8.0, 5)])
def test_the_expected_e_value_is_1_poisson(mean, n):
    counts = np.arange(2000.0)
    law = stats.poisson.logpmf(counts, n * mean)
    assert expected_e(law, Poisson(), float(n), counts, mean) == pytest.approx(1, abs=1e-10)


@pytest.mark.parametrize("n", [1, 20, 300])
def test_the_expected_e_value_is_1_gaussian(n):
    """The trapezium rule on a bell is exact to rounding; e^l widens the bell by sqrt(1 + n/10)."""
    mean, sigma = 0.7, 2.0
    z = np.linspace(-12, 12, 4001) * math.sqrt(1 + n / 10)
    totals = n * mean + sigma * math.sqrt(n) * z
    law = stats.norm.logpdf(z) + math.log(z[1] - z[0])
    assert expected_e(law, Gaussian(sigma), n, totals, mean) == pytest.approx(1, abs=1e-10)


@pytest.mark.parametrize("n", [1, 5, 30])
def test_the_expected_e_value_is_1_exponential(n):
    """Over the logarithm of the sum, on which the integrand is smooth and dies out at both ends."""
    mean = 2.5
    log_total = np.linspace(-45 / n, 12, 40_001)
    totals = np.exp(log_total)
    law = stats.gamma.logpdf(totals, n, scale=mean) + log_total
    law += math.log(log_total[1] - log_total[0])
    assert expected_e(law, Exponential(), n, totals, mean) == pytest.approx(1, abs=1e-10)


LAWS_ON_QUARTERS = [
    [0.7, 0, 0, 0, 0.3],
    [0.2, 0.2, 0.2, 0.2, 0.2],
    [0, 0, 1, 0, 0],
    [0.9, 0, 0.05, 0, 0.05],
    [0, 0.6, 0, 0.4, 0],
]


@pytest.mark.parametrize("law", LAWS_ON_QUARTERS)
@pytest.mark.parametrize("n", [1, 7, 60])
def test_the_expected_e_value_of_bounded_rewards_is_at_most_1_whatever_their_law(law, n):
    mean = float(np.dot(law, np.arange(5) / 4))
    of_sum = np.array([1.0])
    for _ in range(n):
        of_sum = np.convolve(of_sum, law)
    some = of_sum > 0
    totals = np.arange(4 * n + 1.0)[some] / 4
    expected = expected_e(np.log(of_sum[some]), Bounded(), float(n), totals, mean)
    assert expected <= 1 + 1e-10
    assert (expected == pytest.approx(1, abs=1e-10)) == (law[0] + law[4] == 1)


def test_on_cells_the_expected_e_value_is_above_1():
    """Why a family on a grid is refused: the mean lies between two centres."""
    family, n = Grid.example(), 2000
    mean = family.edges[100] * 0.999 + family.edges[99] * 0.001
    successes = np.arange(n + 1.0)
    added = np.multiply.outer(family.statistic(np.array(1.0)), successes)
    added += np.multiply.outer(family.statistic(np.array(0.0)), n - successes)
    law = stats.binom.logpmf(successes, n, mean)
    assert np.exp(law + log_e_value(family, added, np.array([mean]))[0]).sum() > 1.01


def test_a_martingale_under_adaptive_choice_and_optional_stopping():
    """Every path of 10 pulls of two arms, chosen and stopped by what was seen: exactly 1."""
    family, means = Bernoulli(), (0.2, 0.6)

    def value(seen):
        pulls, sums = np.array(seen, dtype=float).T
        l_ = log_e_value(family, evidence(family, pulls, sums), np.array([means]))[0]
        return math.exp(l_.sum())

    def expectation(seen, left):
        (n0, s0), (n1, s1) = seen
        if left == 0 or (s0 >= 2 and n0 > n1):  # a peeker stops when it looks good
            return value(seen)
        arm = 0 if (s0 + 1) * (n1 + 2) >= (s1 + 1) * (n0 + 2) else 1
        total = 0.0
        for reward in (0, 1):
            after = list(seen)
            after[arm] = seen[arm][0] + 1, seen[arm][1] + reward
            chance = means[arm] if reward else 1 - means[arm]
            total += chance * expectation(tuple(after), left - 1)
        return total

    assert expectation(((0, 0), (0, 0)), 10) == pytest.approx(1, abs=1e-10)


def test_gaussian_closed_form():
    sigma, n, total = 3.0, np.array([0.0, 1.0, 70.0, 1e6]), np.array([0.0, 4.0, -20.0, 1.5e6])
    x = np.linspace(-4, 4, 41)
    c = STRENGTHS[:, None, None]
    far = (total - n * x[:, None]) ** 2 / (2 * sigma**2 * (c + n))
    exact = special.logsumexp(0.5 * np.log(c / (c + n)) + far, axis=0) - math.log(len(c))
    got = log_e_value(Gaussian(sigma), evidence(Gaussian(sigma), n, total), x)
    np.testing.assert_allclose(got, exact, rtol=1e-9, atol=1e-9)


CASES = [
    (Gaussian(2.0), [900, 400, 30], [0.5, 0.1, 0.3]),
    (Bernoulli(), [4000, 3000, 50], [0.05, 0.03, 0.0]),
    (Bernoulli(), [2, 100_000, 7], [0.5, 0.0, 0.0]),  # the minimum lies at 1 in a million
    (Bounded(), [400, 300, 11], [0.6, 0.45, 0.2]),
    (Poisson(), [500, 400, 4], [2.3, 2.0, 0.0]),
    (Exponential(), [300, 80, 2], [2.0, 1.4, 0.3]),
]


@pytest.mark.parametrize("tolerance", [0.0, 0.01])
@pytest.mark.parametrize(("family", "pulls", "means"), CASES)
def test_evidence_is_the_least_over_all_pairs_of_means(family, pulls, means, tolerance):
    """Against a search over pairs (u, v), v >= u + tolerance, that knows of no grid."""
    belief = of_arms(family, pulls, means)
    added = belief - family.prior()[:, None]
    got = compute_superiority(family, added, 0, tolerance)
    low = 1e-9 if math.isfinite(family.means.low) else -10.0
    high = 1 - 1e-9 - tolerance if math.isfinite(family.means.high) else 10.0
    for other in (1, 2):

        def both(x, gap, other=other):
            x = np.atleast_1d(x)
            u = low * (high / low) ** x if low > 0 else low + (high - low) * x
            v = u + tolerance + gap
            inside = v < family.means.high
            first = log_e_value(family, added[:, [0]], u)[:, 0]
            second = log_e_value(family, added[:, [other]], np.where(inside, v, 0.5))[:, 0]
            return np.where(inside, first + second, np.inf)

        x = np.linspace(0, 1, 2001)
        coarse = x[both(x, 0.0).argmin()]
        found = optimize.minimize_scalar(
            lambda x, both=both: both(x, 0.0)[0],
            bounds=(max(0, coarse - 0.001), min(1, coarse + 0.001)),
            method="bounded",
            options={"xatol": 1e-12},
        )
        rough = min(both(x, gap).min() for gap in (0.001, 0.003, 0.1, 0.5))
        least = min(found.fun, rough)
        assert got[other] <= least + 1e-7
        assert got[other] >= found.fun - 0.05  # the hump before a minimum, that pairs u < v dodge


@pytest.mark.parametrize("family", ALLOWED, ids=lambda family: family.name)
def test_arms_may_be_relabelled_and_the_prior_is_no_evidence(family, with_random_prior):
    pulls, means = [300, 500, 0, 40], [0.5, 0.35, 0.0, 0.2]
    belief = of_arms(family, pulls, means)
    found = posse.verdict(family, belief, tolerance=0.02)
    order = [2, 0, 3, 1]
    moved = posse.verdict(family, belief[:, order], tolerance=0.02)
    assert order[moved.arm] == found.arm == 0
    assert moved.evidence == pytest.approx(found.evidence, abs=1e-9)
    pulls[2], means[2] = 200, 0.3
    wins = posse.verdict(family, of_arms(family, pulls, means))
    others = {"sigma": 2.0} if isinstance(family, Gaussian) else {}
    prior = type(family)(**{**vars(with_random_prior(family, np.random.default_rng(1))), **others})
    again = posse.verdict(prior, of_arms(prior, pulls, means))
    assert again.evidence == pytest.approx(wins.evidence, abs=1e-6)


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1.0, 1e12])
@pytest.mark.parametrize("shift", [0.0, 7.0])
def test_gaussian_rewards_in_other_units(scale, shift):
    pulls, means = [500, 400, 450], np.array([0.5, 0.2, 0.1])
    plain = posse.verdict(Gaussian(1.0), of_arms(Gaussian(1.0), pulls, means))
    family = Gaussian(scale, prior_mean=scale * shift, prior_sd=scale)
    moved = posse.verdict(family, of_arms(family, pulls, scale * (means + shift)))
    assert (moved.verdict, moved.arm) == (plain.verdict, plain.arm)
    assert moved.evidence == pytest.approx(plain.evidence, abs=1e-6)


@pytest.mark.parametrize("family", ALLOWED, ids=lambda family: family.name)
def test_evidence_of_two_agents_is_that_of_their_sum(family):
    """Learnt apart and added, or learnt by one: the same verdict."""
    rng = np.random.default_rng(2)
    means = np.array([0.6, 0.3])
    arms = rng.integers(2, size=(2, 200))
    rewards = family.draw_rewards(means[arms], rng)
    apart = beliefs.prior(family, 2, 2)
    together = beliefs.prior(family, 1, 2)
    for t in range(200):
        apart = beliefs.observe(apart, arms[:, t], rewards[:, t], family, 1.0)
        for agent in (0, 1):
            together = beliefs.observe(together, arms[[agent], t], rewards[[agent], t], family, 1.0)
    merged = apart.sum(axis=1) - family.prior()[:, None]
    one, other = posse.verdict(family, merged), posse.verdict(family, together[:, 0])
    assert one.evidence == pytest.approx(other.evidence, abs=1e-9)


def test_evidence_that_counts_twice_is_no_e_value():
    """What the docstring warns of: the expectation of evidence doubled, 1 if it were valid."""
    successes = np.arange(201.0)
    law = stats.binom.logpmf(successes, 200, 0.5)
    assert expected_e(law, Bernoulli(), 400.0, 2 * successes, 0.5) > 10


@pytest.mark.parametrize(
    ("family", "pulls", "means"),
    [
        (Bernoulli(), [1e6, 1e6], [0.03, 0.029]),
        (Bernoulli(), [1e6, 3, 0], [0.0, 0.0, 0.0]),
        (Bernoulli(), [1e6, 1e6], [1.0, 0.0]),
        (Bernoulli(1e-3, 1e4), [1e6, 1e6], [2e-9, 1e-9]),
        (Bernoulli(), np.full(50, 1e5), np.linspace(0.01, 0.02, 50)),
        (Bernoulli(), np.zeros(50), np.zeros(50)),
        (Bounded(), np.full(7, 40.0), np.linspace(0, 1, 7)),
        (Gaussian(1e15), [10, 1e6, 0], [3e14, -1e15, 0]),
        (Gaussian(1e-15, prior_sd=1e9), [10, 1e6], [1e-15, 2e-15]),
        (Poisson(), [1e6, 1e6, 5], [1e-7, 0.0, 1e4]),
        (Poisson(), [1e6, 1e6], [1e6, 1.0001e6]),
        (Exponential(), [1e6, 1, 1], [1e-8, 1e8, 1e-8]),
        (Exponential(), [1e6, 1e6], [1e4, 1.01e4]),
    ],
)
def test_extremes_give_a_verdict(family, pulls, means):
    for tolerance in (None, 0.001):
        found = posse.verdict(family, of_arms(family, pulls, means), 1e-6, tolerance)
        assert math.isfinite(found.evidence)
        assert found.evidence >= 0
        assert found.needed == pytest.approx(math.log((len(pulls) - 1) / 1e-6))
        if found.verdict == "winner":
            assert found.arm == int(np.argmax(means))
        if np.any(np.asarray(pulls) == 0):
            assert found.evidence == 0.0


def test_a_winner_by_a_mile():
    family = Bernoulli()
    found = posse.verdict(family, of_arms(family, [1e6, 1e6], [1.0, 0.0]))
    assert (found.verdict, found.arm) == ("winner", 0)
    assert found.evidence > 1e5


def test_the_verdicts_and_their_sentences():
    family = Gaussian(1.0)
    names = ["red", "green", "blue"]

    def of(pulls, means, **keys):
        return posse.verdict(family, of_arms(family, pulls, means), names=names, **keys)

    wins = of([900, 900, 900], [0.5, 0.1, 0.0])
    assert wins.sentence == (
        "red wins; wrong in at most 5% of such experiments, however often you look, if sigma is "
        "right: posse pin red"
    )
    goes_on = of([90, 90, 90], [0.5, 0.4, 0.0])
    assert goes_on.sentence == (
        f"keep going: red leads, with evidence {goes_on.evidence:.1f} of the 3.7 needed"
    )
    assert goes_on.verdict == "keep-going"
    same = of([9e4, 9e4, 9e4], [0.3, 0.3, 0.301], tolerance=0.1)
    assert same.verdict == "no-difference"
    assert same.sentence.startswith("no two arms differ by 0.1 or more; wrong in at most 5%")
    assert of([9e4, 9e4, 9e4], [0.3, 0.3, 0.301], tolerance=0.005).verdict != "no-difference"
    enough = of([900, 900, 900], [0.3, 0.22, 0.1], tolerance=0.05)
    assert enough.verdict == "good-enough"
    chance = 100 * enough.probability_best
    within = 100 * evaluate_tolerance(family, of_arms(family, [900] * 3, [0.3, 0.22, 0.1]), 0.05)[0]
    assert enough.sentence == (
        f"red is good enough, though no winner: the best with a chance of {chance:.3g}%, and with "
        f"a chance of {min(within, 99.9):.3g}% it loses less than 0.05 against the best"
    )
    belief = of_arms(family, [900] * 3, [0.3, 0.22, 0.1])
    counted = np.full(3, 900.0)
    assert judge_by_loss(family, belief, counted, 0.05, 0.05, names).verdict == "good-enough"
    assert judge_by_loss(family, belief, counted, 0.05, None, names).evidence is None
    # however certain, not before every arm has a hundred pulls
    few = of_arms(Bernoulli(), [5000, 99], [0.3, 0.01])
    assert posse.verdict(Bernoulli(), few, error=1e-40, tolerance=0.1).verdict == "keep-going"
    more = of_arms(Bernoulli(), [5000, 100], [0.3, 0.01])
    assert posse.verdict(Bernoulli(), more, error=1e-9, tolerance=0.1).verdict != "keep-going"


@pytest.mark.parametrize("family", [Bernoulli(), Gaussian(1.0), Poisson(), Exponential()], ids=repr)
@pytest.mark.parametrize("tolerance", [1e-6, 0.01, 0.3])
def test_the_chance_to_lose_no_more_than_a_tolerance(family, tolerance):
    """Against draws from the posterior: 200,000, within four standard errors."""
    belief = of_arms(family, [30, 50, 20], [0.4, 0.5, 0.45])
    chances = evaluate_tolerance(family, belief, tolerance)
    levels = np.random.default_rng(5).random((200_000, 3))
    means = family.mean_quantile(belief[:, None, :], levels)
    drawn = (means.max(axis=1, keepdims=True) - means <= tolerance).mean(axis=0)
    error = np.sqrt(chances * (1 - chances) / 200_000)
    assert (np.abs(drawn - chances) <= 4 * error + 1e-5).all()
    assert evaluate_tolerance(family, belief, 1e6).min() == pytest.approx(1.0, abs=1e-7)
    if tolerance == 1e-6:
        assert chances == pytest.approx(evaluate_arms(family, belief)[0], abs=1e-3)


def test_a_tolerance_may_be_relative_to_the_leader():
    belief = of_arms(Bernoulli(), [3e5, 3e5], [0.05, 0.049])
    tenth = posse.verdict(Bernoulli(), belief, tolerance="10%")
    assert tenth.verdict == posse.verdict(Bernoulli(), belief, tolerance=0.005).verdict
    assert tenth.sentence.startswith("no two arms differ by 0.005 (10% of 0.05) or more")
    assert posse.verdict(Bernoulli(), belief, tolerance="0.1%").verdict == "keep-going"
    nothing = of_arms(Bernoulli(), [200, 200], [0.0, 0.0])  # a share of nothing is nothing
    assert posse.verdict(Bernoulli(), nothing, tolerance="10%").verdict == "keep-going"
    for wrong in ("10", "x%", "0%", "100%", "-5%", "nan%"):
        with pytest.raises(ValueError, match="tolerance must be a number above 0, or a share"):
            posse.verdict(Bernoulli(), belief, tolerance=wrong)
    with pytest.raises(ValueError, match="needs rewards that are not negative: give a number"):
        posse.verdict(Gaussian(1.0), of_arms(Gaussian(1.0), [9, 9], [0.1, 0.2]), tolerance="10%")


def test_a_forecast_is_when_the_same_rates_would_win():
    family = Bernoulli()
    pulls = np.array([1000.0, 1000.0])
    belief = of_arms(family, pulls, [0.05, 0.03])
    answer = posse.verdict(family, belief)
    forecast = forecast_pulls(family, belief, answer.needed, answer.arm)
    assert 0 < forecast.least < forecast.likely < forecast.most
    for factor, wins in ((0.85, False), (1.15, True)):  # a forecast is exact to 10%
        growth = 1 + factor * forecast.likely / pulls.sum()
        later = posse.verdict(family, of_arms(family, growth * pulls, [0.05, 0.03]))
        assert (later.verdict == "winner") == wins
    equal = of_arms(family, pulls, [0.05, 0.05])
    assert forecast_pulls(family, equal, answer.needed, 0) is None
    assert forecast_pulls(family, of_arms(family, [50, 50], [0.9, 0.1]), 3.0, 0) is None
    close = forecast_pulls(family, of_arms(family, pulls, [0.05, 0.045]), answer.needed, 0)
    assert close is None or close.most is None  # one standard error nearer, the leader is none


def test_no_difference_is_claimed_where_the_worst_pair_is_within():
    """The worst pair alone decides: widen its gap beyond the tolerance and the claim is gone."""
    family = Bernoulli()
    for worst, claimed in ((0.05, True), (0.055, True), (0.066, False)):
        found = posse.verdict(
            family, of_arms(family, [2e4] * 3, [0.05, 0.052, worst]), tolerance=0.02
        )
        assert (found.verdict == "no-difference") == claimed


def test_arms_that_left_count_too():
    belief = of_arms(Bernoulli(), [900, 900], [0.2, 0.1])
    for ever in (2, 3, 20):
        needed = posse.verdict(Bernoulli(), belief, arms_ever=ever).needed
        assert needed == pytest.approx(math.log((ever - 1) / 0.05))
    assert posse.verdict(Bernoulli(), belief[:, :1]).verdict == "keep-going"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({"error": 0.0}, "error must be a finite number above 0 and below 1"),
        ({"error": 1.0}, "error must be"),
        ({"tolerance": 0.0}, "tolerance must be a finite number above 0"),
        ({"tolerance": 1.0}, "tolerance must be a finite number above 0 and below 1"),
        ({"belief": np.ones((3, 2))}, r"belief must be that of one agent, of shape \(2, K\)"),
        ({"belief": np.ones((2, 4, 2))}, r"belief must be that of one agent"),
        ({"belief": np.full((2, 2), np.nan)}, "belief must be finite"),
        ({"belief": np.full((2, 2), 0.5)}, "belief must hold the prior"),
        ({"family": GaussianUnknownVariance()}, "a nuisance parameter beside the mean"),
        ({"family": Grid.example()}, "its belief is on a grid"),
        ({"arms_ever": 1}, "arms_ever must be a whole number at least 2"),
    ],
)
def test_what_cannot_be_judged_is_refused(call, words):
    whole = {"family": Bernoulli(), "belief": np.full((2, 2), 3.0), **call}
    with pytest.raises(ValueError, match=words):
        posse.verdict(**whole)


def test_many_arms_are_judged_like_few():
    """In parts, on a thinned grid: a winner of 300 arms beats its runner-up as if they were two."""
    family = Bernoulli()
    pulls, means = np.full(300, 4000.0), np.full(300, 0.1)
    means[[7, 200]] = 0.3, 0.2
    added = of_arms(family, pulls, means) - family.prior()[:, None]
    found = compute_superiority(family, added, 7)
    pair = compute_superiority(family, added[:, [7, 200]], 0)[1]
    assert found[200] == pytest.approx(pair, abs=1e-6)
    assert np.delete(found, 7).min() == found[200]


def test_all_pairs_are_judged_alike():
    """What `beats` says of the leader it says of any arm, in the same units."""
    family = Bernoulli()
    added = of_arms(family, [500, 600, 700], [0.3, 0.2, 0.1]) - family.prior()[:, None]
    table = np.array([compute_superiority(family, added, arm) for arm in range(3)])
    for a, b in itertools.permutations(range(3), 2):
        alone = compute_superiority(family, added[:, [a, b]], 0)[1]
        assert table[a, b] == pytest.approx(alone, abs=1e-7)
        assert (table[a, b] > 0) == (a < b)
