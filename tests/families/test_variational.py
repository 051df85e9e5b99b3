"""Variational families: the laws of every family, and their factors against exact posteriors.

The exact posteriors are a `Grid` in one dimension and a quadrature in two. Seeds are fixed; correct
code fails a statistical test with probability below 1e-6.
"""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from scipy import integrate, special, stats

import posse
from posse import beliefs
from posse.algorithms import Problem
from posse.families import (
    FAMILIES,
    VARIATIONAL,
    Bernoulli,
    Gaussian,
    Grid,
    MixtureOfNormals,
    StudentT,
    Variational,
)

# The laws of all families that do not need a conjugate posterior: pytest runs them here with the
# fixtures `family` and `learnt` of this file.
from tests.families.test_laws import (  # noqa: F401
    test_density_distribution_function_and_posterior_mean_agree,
    test_every_entry_of_a_belief_is_treated_alone,
    test_means_and_levels_broadcast_against_beliefs,
    test_quantiles_at_the_ends_of_the_levels,
    test_quantiles_invert_the_distribution_function,
    test_samples_follow_the_distribution_function,
    test_the_distribution_function_at_and_beyond_the_range_of_means,
)
from tests.families.test_rewards import (  # noqa: F401
    test_a_reward_takes_one_variate_whatever_its_mean,
    test_rewards_have_their_means_and_stay_in_range,
    test_rewards_rise_with_the_mean_under_the_same_noise,
)
from tests.families.test_values import (  # noqa: F401
    test_fields_that_are_not_finite_numbers_are_refused_by_name,
)

STUDENT = StudentT(sigma=0.5, degrees=3.0)
KINDS = MixtureOfNormals((0.7, 0.3), (0.0, 2.0), sigma=0.5, prior_sd=0.5)
THREE = MixtureOfNormals((0.5, 0.3, 0.2), (1.0, -1.0, 4.0), sigma=0.8)
ALL = [STUDENT, KINDS, THREE]
every_family = pytest.mark.parametrize("each", ALL, ids=["student", "two kinds", "three kinds"])


@pytest.fixture(scope="module", params=VARIATIONAL)
def family(request, example_of):
    return example_of(VARIATIONAL[request.param])


def learn(family, rewards, belief=None):
    """The belief (D, ...) after rewards (n, ...), one at a time."""
    if belief is None:
        belief = np.broadcast_to(
            family.prior().reshape(-1, *[1] * (rewards.ndim - 1)),
            (len(family.prior()), *rewards.shape[1:]),
        )
    for reward in rewards:
        belief = belief + family.statistic(reward, belief)
    return belief


@pytest.fixture(scope="module")
def learnt(typical_means):
    def belief(family, generator, shape, pulls=12):
        means = np.broadcast_to(typical_means(family, generator, shape), (pulls, *shape))
        return learn(family, family.draw_rewards(means, generator))

    return belief


def kinds_log_likelihood(family, reward, means):
    """Of a reward given the means of the kinds (C, ...)."""
    shares = family.loadings.reshape(-1, *[1] * (np.ndim(means) - 1))
    return special.logsumexp(np.log(shares) - ((reward - means) / family.sigma) ** 2 / 2, axis=0)


# Names and values -----------------------------------------------------------------------------


def test_the_registry():
    assert all(cls.name == name for name, cls in VARIATIONAL.items())
    assert not set(VARIATIONAL) & set(FAMILIES)


def test_the_widest_prior_is_the_default():
    narrow, given = (
        MixtureOfNormals((0.7, 0.3), (0, 2)),
        MixtureOfNormals((0.7, 0.3), (0, 2), 1, 0.5),
    )
    np.testing.assert_array_equal(narrow.prior(), given.prior())
    np.testing.assert_array_equal(given.prior(), [0, 8, 4, 0, 4])


@every_family
def test_families_are_values(each):
    assert dataclasses.replace(each) == each
    assert hash(dataclasses.replace(each)) == hash(each)
    assert isinstance(each, Variational)


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: StudentT(degrees=1.0), "degrees must be a finite number above 1"),
        (lambda: StudentT(sigma=0.0), "sigma must be a finite number at least 1e-30"),
        (lambda: MixtureOfNormals((1.0,), (0.0,)), "shares must be two or more positive numbers"),
        (lambda: MixtureOfNormals((0.7, 0.4), (0, 1)), "shares must be two or more positive"),
        (lambda: MixtureOfNormals((1.3, -0.3), (0, 1)), "shares must be two or more positive"),
        (lambda: MixtureOfNormals("ab", (0, 1)), "shares: a rule knows N"),
        (lambda: MixtureOfNormals(0.5, (0, 1)), "shares must be a list of numbers, got 0.5"),
        (
            lambda: MixtureOfNormals((0.7, 0.3), (1, 1)),
            "prior_means must be 2 different numbers, one for each kind, by which kinds are told",
        ),
        (lambda: MixtureOfNormals((0.7, 0.3), (1, 2, 3)), "prior_means must be 2 different"),
        (
            lambda: MixtureOfNormals((0.7, 0.3), (0, 2), prior_sd=0.6),
            "prior_sd must be at most 0.5, a quarter of the least distance between prior_means",
        ),
        (lambda: MixtureOfNormals((0.7, 0.3), (0, 2), prior_sd="1"), "prior_sd must be a number"),
        (lambda: STUDENT.statistic(np.array(1.0)), "at is missing: the factor of a reward"),
    ],
)
def test_mistakes_are_refused_with_a_sentence(build, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}"):
        build()


def test_laws_of_rewards_are_those_of_scipy():
    generator = np.random.default_rng(1)
    noise = STUDENT.draw_rewards(np.full(20_000, 0.4), generator)
    assert stats.kstest(noise, stats.t(3.0, 0.4, 0.5).cdf).pvalue > 1e-6
    paid = THREE.draw_rewards(np.full(20_000, 0.4), generator)
    centres = 0.4 + np.array(THREE.prior_means) - THREE.loadings @ THREE.prior_means

    def cdf(y):
        return stats.norm.cdf(y[:, None], centres, 0.8) @ THREE.loadings

    assert stats.kstest(paid, cdf).pvalue > 1e-6
    # the likelihood is that of SciPy, up to a constant
    y, means = np.linspace(-4, 6, 9)[:, None], np.linspace(-1, 1, 5)
    ours = THREE.reward_log_density(y, means)
    theirs = np.log(
        stats.norm.pdf(y[..., None], means[:, None] + centres - 0.4, 0.8) @ [0.5, 0.3, 0.2]
    )
    np.testing.assert_allclose(ours - ours[0, 0], theirs - theirs[0, 0], rtol=1e-10, atol=1e-12)
    ours = STUDENT.reward_log_density(y, means)
    theirs = stats.t.logpdf(y, 3.0, means, 0.5)
    np.testing.assert_allclose(ours - ours[0, 0], theirs - theirs[0, 0], rtol=1e-10, atol=1e-12)


# The local factor -----------------------------------------------------------------------------


@every_family
def test_a_factor_has_the_slope_of_the_likelihood_where_the_belief_is_narrow(each):
    """shift - information location = gradient of the log-likelihood, by differences."""
    locations = np.array(each.prior_means) + 0.1 if each is not STUDENT else np.array([0.3])
    d = len(locations)
    precision = 1e9
    at = each.pack_coordinates(precision * locations, precision * np.eye(d))
    for reward in (-3.0, 0.2, 0.9, 1.4, 7.0):
        added = each.statistic(np.array(reward), at)
        slope = added[:d] - each.unpack_precision(added) @ locations
        step = 1e-5
        for c, shifted in enumerate(step * np.eye(d)):
            if each is STUDENT:
                ends = [each.reward_log_density(reward, locations[0] + s) for s in (-step, step)]
            else:
                ends = [
                    kinds_log_likelihood(each, reward, locations + s) for s in (-shifted, shifted)
                ]
            # the location itself moves by 1e-9 of the slope
            assert slope[c] == pytest.approx((ends[1] - ends[0]) / (2 * step), abs=1e-6, rel=1e-6)


@pytest.mark.parametrize("degrees", [1.5, 3.0, 8.0])
def test_the_expected_information_is_fishers_of_student(degrees):
    each = StudentT(sigma=0.5, degrees=degrees)
    at = np.array([0.3, 1.0]) * 1e12
    law = stats.t(degrees, 0.3, 0.5)

    def information(y):
        return law.pdf(y) * each.statistic(np.array(y), at)[1]

    def squared_slope(y, step=1e-5):
        ends = [each.reward_log_density(y, 0.3 + s) for s in (-step, step)]
        return law.pdf(y) * ((ends[1] - ends[0]) / (2 * step)) ** 2

    ends = (0.3, np.inf)  # both are symmetric
    expected = integrate.quad(squared_slope, *ends)[0]
    assert integrate.quad(information, *ends)[0] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("each", [KINDS, THREE], ids=["two kinds", "three kinds"])
@pytest.mark.parametrize("scale", [0.3, 1.0, 2.0])
def test_the_expected_information_is_fishers_of_a_mixture(each, scale):
    """Kinds that overlap, and kinds far apart: the integral of the outer product of the slope."""
    means = scale * np.array(each.prior_means)
    at = each.pack_coordinates(1e12 * means, 1e12 * np.eye(len(means)))
    y = np.linspace(means.min() - 8 * each.sigma, means.max() + 8 * each.sigma, 4001)
    joint = each.loadings[:, None] * stats.norm.pdf(y, means[:, None], each.sigma)  # (C, Y)
    slope = joint / joint.sum(axis=0) * (y - means[:, None]) / each.sigma**2
    fisher = np.trapezoid(joint.sum(axis=0) * slope[:, None] * slope, y)
    _, _, information = each.local_factor(y, np.repeat(at[:, None], len(y), axis=1))
    expected = np.trapezoid(joint.sum(axis=0) * information, y)
    # 20 nodes are worth half a percent of the information of a reward whose kind is known
    np.testing.assert_allclose(expected, fisher, rtol=0, atol=5e-3 / each.sigma**2)


@every_family
def test_information_is_never_negative(each):
    """Whatever the belief and the reward: a learning rate of any size leaves a proper belief."""
    generator = np.random.default_rng(2)
    n, d = 300, len(each.loadings)
    locations = generator.normal(0, 3, (d, n))
    precision = np.zeros((d, d, n))
    precision[np.arange(d), np.arange(d)] = 10.0 ** generator.uniform(-3, 8, (d, n))
    at = each.pack_coordinates(precision[np.arange(d), np.arange(d)] * locations, precision)
    rewards = generator.normal(0, 1, n) * 10.0 ** generator.uniform(-3, 6, n)
    added = each.statistic(rewards, at)
    assert np.isfinite(added).all()
    least = np.linalg.eigvalsh(np.moveaxis(each.unpack_precision(added), -1, 0)).min()
    assert least >= -1e-12 / each.sigma**2
    variance = each.posterior_variance(at + 1e3 * added)
    assert np.isfinite(variance).all()
    assert (variance > 0).all()


def test_student_with_many_degrees_is_gaussian():
    rewards = np.random.default_rng(3).normal(0.4, 0.5, (60, 5))
    student, gaussian = StudentT(0.5, 1e6, 0.2, 0.7), Gaussian(0.5, 0.2, 0.7)
    exact = gaussian.prior()[:, None] + gaussian.statistic(rewards).sum(axis=1)
    np.testing.assert_allclose(learn(student, rewards), exact, rtol=2e-5)


def test_kinds_far_apart_are_gaussian_arms_of_their_own():
    """Each reward then tells its kind, and the belief about kind c is that of its own rewards."""
    each = MixtureOfNormals((0.7, 0.3), (0.0, 40.0), sigma=0.5, prior_sd=0.7)
    generator = np.random.default_rng(4)
    kinds = generator.random(50) < 0.3
    rewards = np.where(kinds, 41.0, -0.5) + 0.5 * generator.standard_normal(50)
    means, variances = each.locations(learn(each, rewards))
    for c, own in enumerate((rewards[~kinds], rewards[kinds])):
        gaussian = Gaussian(0.5, each.prior_means[c], 0.7)
        exact = gaussian.prior() + gaussian.statistic(own).sum(axis=1)
        assert means[c] == pytest.approx(exact[0] / exact[1], rel=1e-9)
        assert variances[c] == pytest.approx(1 / exact[1], rel=1e-9)


def test_probabilities_of_kinds_are_those_of_the_predictive_law():
    """Each kind's likelihood of a reward, integrated over the belief about its mean."""
    generator = np.random.default_rng(12)
    rewards = np.array([-1.0, 0.8, 1.0, 1.3, 2.5])
    at = np.repeat(KINDS.prior()[:, None], 5, axis=1)
    _, weight, _ = KINDS.local_factor(rewards, at)
    samples = np.array(KINDS.prior_means)[:, None] + 0.5 * generator.standard_normal((2, 200_000))
    likelihood = stats.norm.pdf(rewards[:, None, None], samples, 0.5).mean(axis=2)  # (5, 2)
    joint = KINDS.loadings * likelihood
    expected = (joint / joint.sum(axis=1, keepdims=True)).T
    # 200,000 samples: a standard error of at most 0.0006
    np.testing.assert_allclose(weight * 0.5**2, expected, atol=0.004)


def test_an_outlier_hardly_moves_a_belief_and_is_believed_while_the_belief_is_wide():
    known = learn(STUDENT, np.full(50, 0.3))
    after = known + STUDENT.statistic(np.array(30.0), known)
    moved = STUDENT.posterior_mean(after) - STUDENT.posterior_mean(known)
    plain = Gaussian(0.5)
    belief = plain.prior() + 50 * plain.statistic(np.array(0.3))
    of_gaussian = plain.posterior_mean(belief + plain.statistic(np.array(30.0)))
    assert 0 < moved < 0.01 * (of_gaussian - plain.posterior_mean(belief))
    wide = StudentT(0.5, 3.0, prior_sd=100.0)
    assert wide.posterior_mean(learn(wide, np.array([30.0]))) == pytest.approx(30, abs=0.01)


# Against exact posteriors ---------------------------------------------------------------------


def exact_of_student(rewards):
    """Mean and standard deviation of the exact posterior: rewards (n, R) -> two (R,)."""
    grid = Grid(STUDENT.reward_log_density, lambda theta: theta, (-5.0, 5.0), points=800)
    log_prior = -(grid.centres**2) / 2
    belief = np.stack([log_prior + grid.statistic(y).sum(axis=1) for y in rewards.T], axis=1)
    return grid.posterior_mean(belief), np.sqrt(grid.posterior_variance(belief))


def exact_of_kinds(rewards, belief):
    """The same of the mean of two kinds, by a quadrature around the approximate belief (D, R)."""
    means, variances = KINDS.locations(belief)
    steps = np.linspace(-6.0, 6.0, 73)
    m0, m1 = (means[c] + np.sqrt(variances[c]) * steps[:, None] for c in (0, 1))  # (S, R)
    log_p = -((m0[:, None] / 0.5) ** 2 + ((m1[None] - 2.0) / 0.5) ** 2) / 2  # (S, S, R)
    for reward in rewards:
        terms = [
            np.log(share) - ((reward - m) / 0.5) ** 2 / 2
            for share, m in zip(KINDS.loadings, (m0, m1), strict=True)
        ]
        log_p = log_p + np.logaddexp(terms[0][:, None], terms[1][None])
    p = np.exp(log_p - log_p.max(axis=(0, 1)))
    p /= p.sum(axis=(0, 1))
    mean = 0.7 * m0[:, None] + 0.3 * m1[None]
    first = (p * mean).sum(axis=(0, 1))
    return first, np.sqrt((p * (mean - first) ** 2).sum(axis=(0, 1)))


def problems(each, n, runs, seed):
    """True means (R,) drawn from the prior, and rewards (n, R)."""
    generator = np.random.default_rng(seed)
    if each is STUDENT:
        means = generator.standard_normal(runs)
        return means, STUDENT.draw_rewards(np.broadcast_to(means, (n, runs)), generator)
    kinds = np.array(each.prior_means)[:, None] + each.prior_sd * generator.standard_normal(
        (len(each.shares), runs)
    )
    which = (generator.random((n, runs)) > each.shares[0]).astype(int)
    rewards = np.take_along_axis(kinds, which, axis=0)
    return each.loadings @ kinds, rewards + each.sigma * generator.standard_normal((n, runs))


@pytest.mark.parametrize(("n", "apart", "width"), [(10, 0.5, 0.15), (200, 0.3, 0.05)])
def test_student_beliefs_are_near_the_exact_posterior(n, apart, width):
    """Root mean square distance in its standard deviations, and mean ratio of the widths.

    A distance of 0.3 of them adds 4% to the root mean square error of a mean.
    """
    _, rewards = problems(STUDENT, n, 80, seed=5)
    belief = learn(STUDENT, rewards)
    mean, sd = exact_of_student(rewards)
    distance = (STUDENT.posterior_mean(belief) - mean) / sd
    assert np.sqrt((distance**2).mean()) < apart
    assert (np.sqrt(STUDENT.posterior_variance(belief)) / sd).mean() == pytest.approx(1, abs=width)


@pytest.mark.parametrize(("n", "apart", "width"), [(10, 0.5, 0.15), (100, 0.3, 0.05)])
def test_beliefs_of_kinds_are_near_the_exact_posterior(n, apart, width):
    _, rewards = problems(KINDS, n, 20, seed=6)
    belief = learn(KINDS, rewards)
    mean, sd = exact_of_kinds(rewards, belief)
    distance = (KINDS.posterior_mean(belief) - mean) / sd
    assert np.sqrt((distance**2).mean()) < apart
    assert (np.sqrt(KINDS.posterior_variance(belief)) / sd).mean() == pytest.approx(1, abs=width)


class CompleteData(StudentT):
    """Counts the latent variable as known, as plain coordinate ascent does."""

    def local_factor(self, rewards, at):
        target, weight, _ = super().local_factor(rewards, at)
        return target, weight, weight[None]


def covers(each, n, runs, seed):
    """The share of 95% intervals that hold the true mean."""
    means, rewards = problems(STUDENT if isinstance(each, StudentT) else each, n, runs, seed)
    belief = learn(each, rewards)
    low, high = (each.mean_quantile(belief, level) for level in (0.025, 0.975))
    return ((low <= means) & (means <= high)).mean()


def test_intervals_hold_the_truth_where_those_of_complete_data_do_not():
    """3000 problems have a standard error of 0.4%, 500 of 1%: the bounds are 5 of them away."""
    assert 0.93 < covers(STUDENT, 100, 3000, seed=7) < 0.97
    assert covers(KINDS, 60, 500, seed=8) > 0.9
    assert covers(CompleteData(0.5, 3.0), 100, 3000, seed=7) < 0.9  # 86%


@every_family
def test_a_million_pulls_leave_every_number_finite(each):
    """A hundred rewards, each as if it had been seen ten thousand times, and hardly at all."""
    generator = np.random.default_rng(9)
    rewards = each.draw_rewards(np.full((100, 3), 0.4), generator)
    for rate in (1e-9, 1e4):
        belief = np.repeat(each.prior()[:, None], 3, axis=1)
        for reward in rewards:
            belief = belief + rate * each.statistic(reward, belief)
        low, centre, high = (each.mean_quantile(belief, level) for level in (0.01, 0.5, 0.99))
        sample = each.sample_mean(belief, generator)
        assert np.isfinite([low, centre, high, sample]).all()
        assert ((low < centre) & (centre < high)).all()


# The seam: beliefs, networks and algorithms ---------------------------------------------------


@every_family
def test_rewards_meet_the_belief_about_the_arm_played(each):
    """And `acted_on` instead of the belief, if that is given."""
    generator = np.random.default_rng(10)
    belief = beliefs.prior(each, (2, 3), 4)
    for _ in range(3):
        arms, rewards = generator.integers(4, size=(2, 3)), generator.normal(size=(2, 3))
        after = beliefs.observe(belief, arms, rewards, each, 5.0)
        for place in np.ndindex(2, 3):
            cell = (slice(None), *place, arms[place])
            added = each.statistic(rewards[place], belief[cell])
            np.testing.assert_allclose(after[cell], belief[cell] + 5 * added, rtol=1e-12, atol=1e-9)
        untouched = np.ones((2, 3, 4), dtype=bool)
        np.put_along_axis(untouched, arms[..., None], False, axis=-1)
        np.testing.assert_array_equal(after[:, untouched], belief[:, untouched])
        elsewhere = beliefs.observe(belief, arms, rewards, each, 5.0, acted_on=after)
        added = beliefs.statistic(after, arms, rewards, each)
        taken = np.take_along_axis(elsewhere - belief, arms[None, ..., None], axis=-1)[..., 0]
        np.testing.assert_allclose(taken, 5 * added, rtol=1e-6, atol=1e-9)
        belief = after


@every_family
def test_a_merge_is_the_log_linear_pool(each):
    """The average of natural parameters is the density that is proportional to the product."""
    generator = np.random.default_rng(11)
    belief = learn(each, generator.normal(0.5, 1.0, (6, 2)))[..., None]  # (D, 2, 1)
    weights = np.array([[0.3, 0.7], [0.7, 0.3]])
    merged = beliefs.merge(belief, weights)

    def log_density(q, theta):
        """Of the locations, up to a constant: theta (d, G) -> (G,)."""
        shift = q[: len(theta)]
        precision = each.unpack_precision(q)
        return shift @ theta - np.einsum("ig,ij,jg->g", theta, precision, theta) / 2

    theta = generator.normal(0, 1, (len(each.loadings), 20))
    pool = 0.3 * log_density(belief[:, 0, 0], theta) + 0.7 * log_density(belief[:, 1, 0], theta)
    np.testing.assert_allclose(log_density(merged[:, 0, 0], theta), pool, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("each", [STUDENT, THREE], ids=["student", "three kinds"])
@pytest.mark.parametrize(
    "algorithm", [posse.Decentralized, posse.Isolated, posse.Centralized, posse.Tree]
)
def test_algorithms_of_beliefs_play(each, algorithm):
    bandit = posse.Bandit(each, [0.5, 0.1, 0.3])
    play = algorithm(posse.ThompsonSampling())
    for world, keep in ((bandit, ("messages",)), (bandit.delayed(mean=3), ())):
        result = posse.simulate(
            world, posse.networks.path(3), play, horizon=12, runs=2, seed=1, keep=keep
        )
        assert (result.pulls.sum(axis=2) == 12).all()


@every_family
def test_flooding_on_a_complete_graph_is_centralized(each):
    network, policy = posse.networks.complete(4), posse.ThompsonSampling()
    one, other = (
        posse.simulate(
            posse.Bandit(each, [0.5, 0.1]), network, algorithm(policy), horizon=15, runs=2, seed=3,
            record=[15], keep=("beliefs", "messages"),
        )
        for algorithm in (posse.Flooding, posse.Centralized)
    )  # fmt: skip
    np.testing.assert_array_equal(one.pulls, other.pulls)
    np.testing.assert_allclose(one.beliefs, other.beliefs, rtol=1e-9, atol=1e-9)
    # an observation is an arm and its factor
    size = 1 + len(each.prior())
    np.testing.assert_array_equal(one.numbers_sent, 15 * 3 * size)
    np.testing.assert_array_equal(other.numbers_sent, 15 * 3 * size)


@every_family
def test_experiment_files_hold_them(each, tmp_path):
    experiment = posse.Experiment(
        posse.Bandit(each, [0.5, 0.1]), posse.networks.cycle(3),
        {"dec-TS": posse.Decentralized(posse.ThompsonSampling(), family=each)}, horizon=5, runs=2,
    )  # fmt: skip
    posse.write_experiment(experiment, tmp_path / "e.toml")
    assert posse.read_experiment(tmp_path / "e.toml") == experiment


def test_what_needs_exact_posteriors_refuses():
    ts = posse.ThompsonSampling()
    belief = beliefs.prior(STUDENT, 1, 2)[:, 0]
    with pytest.raises(ValueError, match="its belief is an approximation, which is no martingale"):
        posse.verdict(STUDENT, belief)
    problem = Problem(2, 2, 9, STUDENT, posse.networks.complete(2), 1)
    with pytest.raises(ValueError, match="need a family whose mean determines the variance"):
        posse.PartialPooling(ts).init(problem)
    late = posse.Bandit.bernoulli([0.5, 0.1]).delayed(mean=3)
    counting = posse.Decentralized(ts, family=STUDENT, open="count")
    with pytest.raises(ValueError, match="open='count' of algorithm needs rewards with a lowest"):
        posse.simulate(late, posse.networks.complete(2), counting, horizon=5, runs=1)
    assert counting.open_pull_statistic(0.0, Bernoulli()) is not None


# Regret: a short form of the study behind docs/complex-rewards.md --------------------------------


class Outliers:
    """Noise 0.9 N(0, 0.5^2) + 0.1 N(0, 5^2)."""

    name = "outliers"
    means = STUDENT.means
    rewards = STUDENT.rewards

    def draw_rewards(self, means, generator):
        uniform = generator.random(means.shape)
        within = np.where(uniform < 0.1, uniform / 0.1, (uniform - 0.1) / 0.9)
        z = special.ndtri(np.clip(within, 2.0**-54, 1 - 2.0**-53))
        return means + np.where(uniform < 0.1, 5.0, 0.5) * z


@pytest.mark.filterwarnings("ignore:.*can be saved but not rerun")
def test_outliers_cost_a_gaussian_twice_as_much():
    """Paired, 40 runs: the difference is 8 standard errors, its bound 2 to 3 below it."""
    regret = {}
    for family in (STUDENT, Gaussian(np.sqrt(0.9 * 0.25 + 0.1 * 25))):
        regret[family.name] = posse.simulate(
            posse.Bandit(Outliers(), [0.5, 0.4, 0.3, 0.2, 0.1]), posse.networks.cycle(16),
            posse.Decentralized(posse.ThompsonSampling(), family=family), horizon=200, runs=40,
            seed=1, record=[200], engine="reference",
        ).regret[:, -1]  # fmt: skip
    excess = regret["gaussian"] - 2 * regret["student-t"]
    assert excess.mean() > 0
    assert excess.mean() / (excess.std(ddof=1) / 40**0.5) > 2


def test_kinds_keep_their_order_and_cost_less_than_one_gaussian():
    """No belief of any agent, arm and round has the kinds in the other order."""
    bandit = posse.Bandit(KINDS, [0.5, 0.4, 0.3, 0.2, 0.1])
    prior_mean, prior_sd = 0.6, 0.5 * np.sqrt(0.58)
    gaussian = Gaussian(np.sqrt(0.25 + 0.21 * 4), prior_mean, prior_sd)
    regret = {}
    for family in (KINDS, gaussian):
        result = posse.simulate(
            bandit, posse.networks.cycle(16),
            posse.Decentralized(posse.ThompsonSampling(), family=family), horizon=150, runs=20,
            seed=2, record=[1, 2, 3, 5, 10, 20, 50, 150], engine="reference", keep=("beliefs",),
        )  # fmt: skip
        regret[family.name] = result.regret[:, -1]
        if family is KINDS:
            locations, _ = KINDS.locations(np.moveaxis(result.beliefs, 2, 0))
            assert (locations[0] < locations[1]).all()
    apart = regret["gaussian"] - regret["mixture-of-normals"]
    assert apart.mean() / (apart.std(ddof=1) / 20**0.5) > 2
