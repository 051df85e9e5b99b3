"""Thompson Sampling of the kernels: every arm with its exact probability of being the best.

Frequencies of 24,000 decisions, in `make test-all` of 120,000, against numerical integration, over
60 random posteriors for each belief and way of drawing.  The p-values of a group are tested by
their minimum (Bonferroni), product (Fisher) and uniformity (Kolmogorov-Smirnov), each at an
error rate of 1e-5.  The few find deviations of samples that are 8% off (3% where all arms are drawn
alike), the many 3%.
"""

import numpy as np
import pytest
from scipy import stats

from posse import summary
from posse.lab.compiled.kernels import thompson

ERROR_RATE = 1e-5
POSTERIORS = 60
AGENTS = 6_000
FEW, MANY = 4, pytest.param(20, marks=pytest.mark.long)  # rounds of decisions by all agents
# how to draw, and the bound below which arms are thinned
WAYS = {
    "lazily": (thompson.ALWAYS_LAZY, thompson.OUTRIGHT),
    "thinning at 0.25": (thompson.ALWAYS_LAZY, 0.25),
    "eagerly": (thompson.ALWAYS_EAGER, thompson.OUTRIGHT),
}


def random_posterior(kind, generator, contest):
    """(count, total), each (K,): `contest` is about how far apart arms are, in deviations."""
    n_arms = int(generator.integers(2, 19))
    sizes = 10.0 ** generator.uniform(-0.3, 3.5, n_arms)  # how much each arm was played
    if generator.random() < 0.5:
        sizes[:] = sizes[0]
    return kind.rows(generator, sizes, generator.normal(size=n_arms) * contest)


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


def frequencies(choose, kind, counts, totals, way, *, pivot, seed, rounds):
    """How often each arm is chosen, by agents with one belief; `pivot`: an arm, or none: any."""
    drawing, level = WAYS[way]
    n_arms = len(counts)
    thresholds = thompson.thresholds_for(kind.belief.factor, level, n_arms)
    kernel = kind.kernel("choose_thompson_eagerly" if way == "eagerly" else "choose_thompson")
    chosen = np.zeros(n_arms)
    for t in range(1, rounds + 1):
        pivots = np.arange(AGENTS) % n_arms if pivot is None else pivot
        arms, _ = choose(
            kernel, counts, totals, AGENTS,
            level=level, thresholds=thresholds, pivots=pivots, t=t, seed=seed, drawing=drawing,
        )  # fmt: skip
        chosen += np.bincount(arms, minlength=n_arms)
    return chosen


@pytest.fixture(scope="module")
def posteriors(kind):
    """Contested and clear ones: count, total and the exact probability of being the best."""
    generator = np.random.default_rng(len(kind.name))
    drawn = [random_posterior(kind, generator, (0.5, 2.0, 5.0)[i % 3]) for i in range(POSTERIORS)]
    return [(*pair, probability_best(kind.family, kind.coordinates(*pair))) for pair in drawn]


def test_the_integration_agrees_with_the_summary_of_a_belief(kind, posteriors):
    for counts, totals, exact in posteriors[:15]:
        other = summary.probability_best(kind.family, kind.coordinates(counts, totals))
        np.testing.assert_allclose(exact, other, atol=2e-4)


@pytest.mark.parametrize("rounds", [FEW, MANY])
@pytest.mark.parametrize("way", WAYS)
def test_arms_are_chosen_with_their_probability_of_being_the_best(
    choose, kind, posteriors, way, rounds
):
    p_values = []
    for seed, (counts, totals, exact) in enumerate(posteriors):
        # the pivot is the likely winner, any arm, or the least likely one
        pivot = (int(exact.argmax()), None, int(exact.argmin()))[seed // 3 % 3]
        chosen = frequencies(
            choose, kind, counts, totals, way, pivot=pivot, seed=seed, rounds=rounds
        )
        p = p_value(chosen, exact * chosen.sum())
        if p is None:  # as good as decided: no arm is played that can hardly win
            assert chosen.sum() - chosen[exact.argmax()] < 60
        else:
            p_values.append(p)
    assert len(p_values) >= 50
    all_consistent(p_values)


@pytest.mark.parametrize("rounds", [20, pytest.param(100, marks=pytest.mark.long)])
@pytest.mark.parametrize("way", ["lazily", "thinning at 0.25"])
def test_rare_arms_are_played_as_rarely_as_they_should(choose, kind, way, rounds):
    """Arms below the thinning level, 1e-3 or so each: what the walk through thinned arms decides.

    Each alternative's own frequency over 10 posteriors, about 50 to 5,000 plays each in 100 rounds:
    90 binomial tests in all, together at an error rate of 1e-5.
    """
    generator = np.random.default_rng(5)
    p_values, n_rare = [], 0
    for seed in range(10):
        sizes = 10.0 ** generator.uniform(1.0, 3.0, 10)
        off = np.append(0.0, generator.uniform(-4.5, -3.2, 9))  # deviations behind the first arm
        counts, totals = kind.rows(generator, sizes, off)
        counts[0], totals[0] = 400 * counts[0], 400 * totals[0]  # its own sample hardly moves
        exact = probability_best(kind.family, kind.coordinates(counts, totals))
        chosen = frequencies(choose, kind, counts, totals, way, pivot=0, seed=seed, rounds=rounds)
        n = int(chosen.sum())
        p_values += [stats.binomtest(int(chosen[k]), n, exact[k]).pvalue for k in range(1, 10)]
        n_rare += int(chosen[1:].sum())
    assert n_rare > 10 * rounds
    assert min(p_values) > ERROR_RATE / len(p_values)


def test_agents_with_their_own_rows_choose_like_agents_that_share_one(choose, kind):
    """The same bits: only where the row is read differs."""
    generator = np.random.default_rng(3)
    for _, (drawing, level) in WAYS.items():
        counts, totals = random_posterior(kind, generator, 1.0)
        thresholds = thompson.thresholds_for(kind.belief.factor, level, len(counts))
        for kernel in map(kind.kernel, ("choose_thompson", "choose_thompson_eagerly")):
            options = {"level": level, "thresholds": thresholds, "drawing": drawing}
            own = np.tile(counts, (501, 1)), np.tile(totals, (501, 1))
            a = choose(kernel, counts, totals, 501, **options)
            b = choose(kernel, *own, 501, **options)
            np.testing.assert_array_equal(a, b)


def test_each_kernel_leaves_the_runs_of_the_other_alone(choose, kind):
    counts, totals = np.full(3, 4.0), np.full(3, 2.0)
    thresholds = thompson.thresholds_for(kind.belief.factor, thompson.OUTRIGHT, 3)
    for kernel, others in (
        (kind.kernel("choose_thompson"), (thompson.EAGER, thompson.ALWAYS_EAGER)),
        (kind.kernel("choose_thompson_eagerly"), (thompson.LAZY, thompson.ALWAYS_LAZY)),
    ):
        for drawing in others:
            arms, pivots = choose(
                kernel, counts, totals, 300,
                level=thompson.OUTRIGHT, thresholds=thresholds, pivots=2, drawing=drawing,
            )  # fmt: skip
            assert not arms.any()
            assert (pivots == 2).all()


def test_agents_decide_independently(choose, kind):
    """Neighbours, who share random words, agree as often as strangers: 1e-5 error rate each."""
    counts, totals = np.array([3.0, 3.0]), np.array([1.5, 1.5])
    for way, (drawing, level) in WAYS.items():
        thresholds = thompson.thresholds_for(kind.belief.factor, level, 2)
        kernel = kind.kernel("choose_thompson_eagerly" if way == "eagerly" else "choose_thompson")
        arms, _ = choose(
            kernel, counts, totals, 100_001,
            level=level, thresholds=thresholds, drawing=drawing,
        )  # fmt: skip
        for apart in (1, 2):
            agree = int((arms[apart:] == arms[:-apart])[::2].sum())
            n = len(arms[apart::2])
            assert stats.binomtest(agree, n, 0.5).pvalue > ERROR_RATE


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("pivot", [0, 1])
def test_beta_shapes_so_small_that_samples_reach_the_ends_of_the_range(choose, kind_of, way, pivot):
    """Two arms alike, of which floats see many ties; and one that is 0 or 1 against a sharp one."""
    kind = kind_of("BETA")
    for (a, b), (c, d) in (
        ((1e-3, 1.0), (1e-3, 1.0)),
        ((1.0, 1e-3), (1.0, 1e-3)),
        ((1e-3, 1e-3), (1e-3, 1e-3)),
        ((1e-3, 1e-3), (5e3, 5e3)),
    ):
        counts, totals = np.array([a + b, c + d]), np.array([a, c])
        chosen = frequencies(choose, kind, counts, totals, way, pivot=pivot, seed=1, rounds=20)
        assert stats.binomtest(int(chosen[0]), int(chosen.sum()), 0.5).pvalue > ERROR_RATE
