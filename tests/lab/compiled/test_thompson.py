"""Thompson Sampling of the kernels: every arm with its exact probability of being the best.

Frequencies of 120,000 decisions against numerical integration, over 60 random posteriors for each
belief and way of drawing.  The p-values of a group are tested by their minimum (Bonferroni), their
product (Fisher) and their uniformity (Kolmogorov-Smirnov), each at an error rate of 1e-5.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from posse import summary
from posse.lab.compiled import beliefs, eager, thompson
from posse.lab.compiled.random import U64

ERROR_RATE = 1e-5
POSTERIORS = 60
AGENTS, ROUNDS = 6_000, 20
# how to draw, and the bound below which arms are thinned
WAYS = {
    "lazily": (thompson.ALWAYS_LAZY, thompson.OUTRIGHT),
    "thinning at 0.25": (thompson.ALWAYS_LAZY, 0.25),
    "eagerly": (thompson.ALWAYS_EAGER, thompson.OUTRIGHT),
}


def random_posterior(belief, generator, contest):
    """(count, total), each (K,): `contest` is about how far apart arms are, in deviations."""
    n_arms = int(generator.integers(2, 19))
    sizes = 10.0 ** generator.uniform(-0.3, 3.5, n_arms)  # how much each arm was played
    if generator.random() < 0.5:
        sizes[:] = sizes[0]
    off = generator.normal(size=n_arms) * contest
    if belief.name == "GAUSSIAN":
        return sizes, sizes * generator.normal() + off * np.sqrt(sizes)
    if belief.name == "BETA":
        middle = generator.beta(0.7, 0.7)
        mean = np.clip(middle + off * np.sqrt(middle * (1 - middle) / sizes), 0.01, 0.99)
        # many shapes below 1, none so small that samples round to 1: floats would tie there
        a, b = np.maximum(sizes * mean, 0.3), np.maximum(sizes * (1 - mean), 0.5)
        return a + b, a
    if belief.name == "GAMMA":
        return sizes / 2, sizes * np.clip(1 + off / np.sqrt(sizes), 0.2, 5)
    shapes = 1.01 + sizes
    return shapes, shapes * np.clip(1 + off / np.sqrt(shapes), 0.2, 5)


def probability_best(family, coordinates):
    """P(each arm is the best), (K,): each cell's mass times the chance that the others lie below.

    From distribution functions alone, on 6,000 cells or more.
    """
    n_arms = coordinates.shape[-1]
    levels = stats.norm.cdf(np.linspace(-7.0, 7.0, max(400, 6_000 // n_arms)))
    edges = np.unique(family.mean_quantile(coordinates[:, None, :], levels[:, None]))
    below = family.mean_cdf(coordinates[:, None, :], edges[:, None])  # (edges, K)
    below = np.vstack([np.zeros(n_arms), below, np.ones(n_arms)])
    others = np.stack([np.delete(below, k, axis=1).prod(axis=1) for k in range(n_arms)], axis=1)
    best = (np.diff(below, axis=0) * (others[1:] + others[:-1]) / 2).sum(axis=0)
    return best / best.sum()


def p_value(counts, expected):
    """Chi-square of counts (K,), rare arms pooled; None where one arm is all there is."""
    order = np.argsort(expected)
    counts, expected = counts[order], expected[order]
    n_rare = np.searchsorted(np.cumsum(expected), 12.0) + 1  # the rarest, until 12 are expected
    if n_rare >= len(counts):
        return None
    counts = np.append(counts[:n_rare].sum(), counts[n_rare:])
    expected = np.append(expected[:n_rare].sum(), expected[n_rare:])
    return stats.chisquare(counts, expected).pvalue


def all_consistent(p_values):
    """Whether p-values may be uniform, by three tests."""
    p = np.array(p_values)
    assert p.min() > ERROR_RATE / len(p)
    assert stats.combine_pvalues(p).pvalue > ERROR_RATE
    assert stats.kstest(p, "uniform").pvalue > ERROR_RATE


def frequencies(choose, belief, counts, totals, way, *, pivot, seed, rounds=ROUNDS):
    """How often each arm is chosen, by agents with one belief; `pivot`: an arm, or none: any."""
    drawing, level = WAYS[way]
    n_arms = len(counts)
    thresholds = thompson.thresholds_for(belief.code, level, U64(n_arms))
    kernel = eager.choose_thompson_eagerly if way == "eagerly" else thompson.choose_thompson
    chosen = np.zeros(n_arms)
    for t in range(1, rounds + 1):
        pivots = np.arange(AGENTS) % n_arms if pivot is None else pivot
        arms, _ = choose(
            kernel, belief.code, counts, totals, AGENTS,
            level=level, thresholds=thresholds, pivots=pivots, t=t, seed=seed, drawing=drawing,
        )  # fmt: skip
        chosen += np.bincount(arms, minlength=n_arms)
    return chosen


@pytest.fixture(scope="module")
def posteriors(belief):
    """Contested and clear ones: count, total and the exact probability of being the best."""
    generator = np.random.default_rng(len(belief.name))
    drawn = [random_posterior(belief, generator, (0.5, 2.0, 5.0)[i % 3]) for i in range(POSTERIORS)]
    return [(*pair, probability_best(belief.family, belief.coordinates(*pair))) for pair in drawn]


def test_the_integration_agrees_with_the_summary_of_a_belief(belief, posteriors):
    for counts, totals, exact in posteriors[:15]:
        other = summary.probability_best(belief.family, belief.coordinates(counts, totals))
        np.testing.assert_allclose(exact, other, atol=2e-4)


@pytest.mark.parametrize("way", WAYS)
def test_arms_are_chosen_with_their_probability_of_being_the_best(choose, belief, posteriors, way):
    p_values = []
    for seed, (counts, totals, exact) in enumerate(posteriors):
        # the pivot is the likely winner, any arm, or the least likely one
        pivot = (int(exact.argmax()), None, int(exact.argmin()))[seed // 3 % 3]
        chosen = frequencies(choose, belief, counts, totals, way, pivot=pivot, seed=seed)
        p = p_value(chosen, exact * chosen.sum())
        if p is None:  # as good as decided: no arm is played that can hardly win
            assert chosen.sum() - chosen[exact.argmax()] < 60
        else:
            p_values.append(p)
    assert len(p_values) >= 50
    all_consistent(p_values)


@pytest.mark.parametrize("way", ["lazily", "thinning at 0.25"])
def test_rare_arms_are_played_as_rarely_as_they_should(choose, belief, way):
    """Arms below the thinning level, 1e-3 or so each: what the walk through thinned arms decides.

    Each alternative's own frequency over 10 posteriors, about 50 to 5,000 plays each: 90 binomial
    tests in all, together at an error rate of 1e-5.
    """
    generator = np.random.default_rng(5)
    p_values = []
    for seed in range(10):
        sizes = 10.0 ** generator.uniform(1.0, 3.0, 10)
        off = np.append(0.0, generator.uniform(-4.5, -3.2, 9))  # deviations behind the first arm
        if belief.name == "GAUSSIAN":
            counts, totals = sizes, off * np.sqrt(sizes)
        elif belief.name == "BETA":
            counts, totals = sizes, sizes * np.clip(0.7 + off * np.sqrt(0.21 / sizes), 0.03, 0.9)
        elif belief.name == "GAMMA":
            counts, totals = sizes, sizes * np.clip(1 + off / np.sqrt(sizes), 0.05, 2)
        else:
            counts, totals = 1 + sizes, sizes * np.exp(off / np.sqrt(sizes))
        counts[0], totals[0] = 400 * counts[0], 400 * totals[0]  # its own sample hardly moves
        exact = probability_best(belief.family, belief.coordinates(counts, totals))
        chosen = frequencies(choose, belief, counts, totals, way, pivot=0, seed=seed, rounds=100)
        n = int(chosen.sum())
        p_values += [stats.binomtest(int(chosen[k]), n, exact[k]).pvalue for k in range(1, 10)]
        assert chosen[1:].sum() > 0
    assert min(p_values) > ERROR_RATE / len(p_values)


def test_agents_with_their_own_rows_choose_like_agents_that_share_one(choose, belief):
    """The same bits: only where the row is read differs."""
    generator = np.random.default_rng(3)
    for _, (drawing, level) in WAYS.items():
        counts, totals = random_posterior(belief, generator, 1.0)
        thresholds = thompson.thresholds_for(belief.code, level, U64(len(counts)))
        for kernel in (thompson.choose_thompson, eager.choose_thompson_eagerly):
            options = {"level": level, "thresholds": thresholds, "drawing": drawing}
            own = np.tile(counts, (501, 1)), np.tile(totals, (501, 1))
            a = choose(kernel, belief.code, counts, totals, 501, **options)
            b = choose(kernel, belief.code, *own, 501, **options)
            np.testing.assert_array_equal(a, b)


def test_each_kernel_leaves_the_runs_of_the_other_alone(choose, belief):
    counts, totals = np.full(3, 4.0), np.full(3, 2.0)
    thresholds = thompson.thresholds_for(belief.code, thompson.OUTRIGHT, U64(3))
    for kernel, others in (
        (thompson.choose_thompson, (thompson.EAGER, thompson.ALWAYS_EAGER)),
        (eager.choose_thompson_eagerly, (thompson.LAZY, thompson.ALWAYS_LAZY)),
    ):
        for drawing in others:
            arms, pivots = choose(
                kernel, belief.code, counts, totals, 300,
                level=thompson.OUTRIGHT, thresholds=thresholds, pivots=2, drawing=drawing,
            )  # fmt: skip
            assert not arms.any()
            assert (pivots == 2).all()


def test_agents_decide_independently(choose, belief):
    """Neighbours, who share random words, agree as often as strangers: 1e-5 error rate each."""
    counts, totals = np.array([3.0, 3.0]), np.array([1.5, 1.5])
    for way, (drawing, level) in WAYS.items():
        thresholds = thompson.thresholds_for(belief.code, level, U64(2))
        kernel = eager.choose_thompson_eagerly if way == "eagerly" else thompson.choose_thompson
        arms, _ = choose(
            kernel, belief.code, counts, totals, 100_001,
            level=level, thresholds=thresholds, drawing=drawing,
        )  # fmt: skip
        for apart in (1, 2):
            agree = int((arms[apart:] == arms[:-apart])[::2].sum())
            n = len(arms[apart::2])
            assert stats.binomtest(agree, n, 0.5).pvalue > ERROR_RATE


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("pivot", [0, 1])
def test_beta_shapes_so_small_that_samples_reach_the_ends_of_the_range(choose, way, pivot):
    """Two arms alike, of which floats see many ties; and one that is 0 or 1 against a sharp one."""
    belief = SimpleNamespace(code=beliefs.BETA)
    for (a, b), (c, d) in (
        ((1e-3, 1.0), (1e-3, 1.0)),
        ((1.0, 1e-3), (1.0, 1e-3)),
        ((1e-3, 1e-3), (1e-3, 1e-3)),
        ((1e-3, 1e-3), (5e3, 5e3)),
    ):
        counts, totals = np.array([a + b, c + d]), np.array([a, c])
        chosen = frequencies(choose, belief, counts, totals, way, pivot=pivot, seed=1)
        assert stats.binomtest(int(chosen[0]), int(chosen.sum()), 0.5).pvalue > ERROR_RATE
