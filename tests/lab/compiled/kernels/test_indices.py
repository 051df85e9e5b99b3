"""Bayes-UCB and Greedy of the kernels: the arm that SciPy's quantiles and means say, ties random.

Statistical tests reject with probability 1e-5 each if all is well.
"""

import numpy as np
import pytest
from scipy import stats

import posse
from posse import networks
from posse.families import Bernoulli
from posse.lab.compiled import registry as plan

ERROR_RATE = 1e-5
LEVELS = (0.9, 0.5, 0.37, 0.35, 0.1, 1e-2, 1e-4, 1e-9)  # upper tails


def random_rows(kind, generator, n_rows, n_arms):
    """(count, total), each (rows, K): some vague, some sharp, some nearly alike."""
    sizes = 10.0 ** generator.uniform(-0.5, 4.0, (n_rows, n_arms))
    sizes[::3] = sizes[::3, :1] * generator.uniform(0.5, 2.0, (len(sizes[::3]), n_arms))
    off = generator.normal(size=(n_rows, n_arms)) * generator.choice([0.3, 2.0, 6.0], (n_rows, 1))
    return kind.rows(generator, sizes, off)


def near_best(scores, arms, within=1e-9):
    """Whether each row's arm has the largest score, up to the rounding of two solvers."""
    played = np.take_along_axis(scores, arms[:, None], axis=1)[:, 0]
    best = scores.max(axis=1)
    return played >= best - within * np.abs(best)


@pytest.mark.parametrize("n_arms", [2, 5, 18])
@pytest.mark.parametrize("level", LEVELS)
def test_bayes_ucb_plays_the_largest_quantile(choose, kind, level, n_arms):
    generator = np.random.default_rng(n_arms)
    n_rows = 300
    counts, totals = random_rows(kind, generator, n_rows, n_arms)
    scores = kind.family.mean_quantile(kind.coordinates(counts, totals), 1 - level)
    for pivots in (scores.argmax(axis=1), scores.argmin(axis=1), generator.integers(n_arms)):
        arms, _ = choose(
            kind.kernel("choose_bayes_ucb"), counts, totals, n_rows,
            level=1 - (1 - level), pivots=pivots,
        )  # fmt: skip
        assert near_best(scores, arms).all()
    ordered = np.sort(scores, axis=1)
    clear = ordered[:, -1] - ordered[:, -2] > 1e-8 * np.abs(ordered[:, -1])
    assert clear.sum() > 50  # so the same arm, not one that is nearly as good
    np.testing.assert_array_equal(arms[clear], scores.argmax(axis=1)[clear])


def rivals(kind, generator, n_rows, n_arms, level):
    """(count, total), each (rows, K), of all sizes and with almost equal quantiles at a level."""
    counts = 10.0 ** generator.uniform(0.5, 6.0, (n_rows, n_arms))
    means = kind.family.means
    low, high = max(means.low, -20.0), min(means.high, 20.0)
    target = low + (high - low) * generator.uniform(0.2, 0.8, (n_rows, 1))
    apart = 10.0 ** generator.uniform(-8, -2, (n_rows, 1))
    target = target * (1 + apart * generator.random((n_rows, n_arms)))
    low, high = np.full(counts.shape, low), np.full(counts.shape, high)
    for _ in range(60):  # quantiles rise with the mean
        middle = (low + high) / 2
        above = kind.family.mean_quantile(kind.coordinates(counts, counts * middle), level) > target
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return counts, counts * low


@pytest.mark.parametrize("t", [2, 30, 1000, 10**6])
def test_bayes_ucb_tells_almost_equal_rivals_of_all_sizes_apart(choose, kind, t):
    """No arm may be discarded by an estimate that errs by more than its bound says."""
    generator, n_rows = np.random.default_rng(t), 400
    counts, totals = rivals(kind, generator, n_rows, 8, 1 - 1 / t)
    scores = kind.family.mean_quantile(kind.coordinates(counts, totals), 1 - 1 / t)
    for pivots in (scores.argmin(axis=1), generator.integers(8, size=n_rows)):
        arms, _ = choose(
            kind.kernel("choose_bayes_ucb"), counts, totals, n_rows, level=1 - (1 - 1 / t),
            pivots=pivots,
        )  # fmt: skip
        assert near_best(scores, arms, within=1e-8).all()  # the solvers differ by 1e-9 at t = 1e6
    ordered = np.sort(scores, axis=1)
    assert (np.diff(ordered[:, -2:], axis=1) < 1e-4 * np.abs(ordered[:, -1:])).sum() > 50  # close
    assert len(np.unique(arms)) == 8


@pytest.mark.parametrize("n_arms", [2, 5, 18])
def test_greedy_plays_the_largest_mean(choose, kind, n_arms):
    counts, totals = random_rows(kind, np.random.default_rng(n_arms), 500, n_arms)
    scores = kind.family.posterior_mean(kind.coordinates(counts, totals))
    arms, _ = choose(kind.kernel("choose_greedy"), counts, totals, 500, level=0.5)
    assert near_best(scores, arms).all()
    if kind.name != "BETA":  # whose means are clipped, so that some are equal
        np.testing.assert_array_equal(arms, scores.argmax(axis=1))


def assert_uniform(arms, tied):
    counts = np.bincount(arms, minlength=max(tied) + 1)
    assert counts[list(tied)].sum() == len(arms)
    assert stats.chisquare(counts[list(tied)]).pvalue > ERROR_RATE


class TestTies:
    N = 20_000

    @pytest.mark.parametrize("level", [0.5, 0.1, 1e-3])
    @pytest.mark.parametrize("pivot", [0, 2, 4])
    def test_arms_of_one_belief_share_the_play_evenly(self, choose, kind, level, pivot):
        """Arms 1, 2 and 4 are alike bit for bit, arms 0 and 3 are behind them."""
        counts = np.array([40.1, 7.7, 7.7, 90.3, 7.7])
        totals = np.array([0.05, 5.3, 5.3, 0.7, 5.3])
        for kernel in map(kind.kernel, ("choose_bayes_ucb", "choose_greedy")):
            arms, _ = choose(kernel, counts, totals, self.N, level=level, pivots=pivot)
            assert_uniform(arms, (1, 2, 4))

    def test_of_arms_with_equal_means_but_different_beliefs(self, choose, kind):
        """Greedy looks at the mean alone: 2/4 equals 4/8, and 2/(5 - 1) equals 4/(9 - 1)."""
        totals, tried = np.array([2.0, 4.0, 2.0]), np.arange(2.0, 30.0, 0.5)
        mean = kind.belief.mean
        halves = [next(c for c in tried if mean(*kind.numbers(c, s)) == 0.5) for s in totals[:2]]
        counts = np.array([*halves, 20.0])
        arms, _ = choose(kind.kernel("choose_greedy"), counts, totals, self.N, level=0.5)
        assert_uniform(arms, (0, 1))

    @pytest.mark.parametrize("level", [1.0, 0.0])
    def test_at_the_ends_every_index_is_equal(self, choose, kind, level):
        """Round 1 of Bayes-UCB; and quantiles at level 1, which all lie at the end of the range."""
        counts, totals = np.array([6.0, 9.0, 700.0]), np.array([3.0, 1.0, 650.0])
        for pivot in (0, 2):
            arms, _ = choose(
                kind.kernel("choose_bayes_ucb"), counts, totals, self.N,
                level=level, pivots=pivot,
            )  # fmt: skip
            assert_uniform(arms, (0, 1, 2))

    def test_where_quantiles_round_to_the_end_of_the_range(self, choose, kind_of):
        """Beta beliefs with hardly a failure: the reference sees 1.0 for both, and so a tie."""
        counts, totals = np.array([2.001, 3.001, 9.0]), np.array([2.0, 3.0, 4.0])
        failures = counts - totals
        assert (Bernoulli().mean_quantile(np.stack([totals, failures]), 0.99) == 1.0)[:2].all()
        for pivot in (0, 1, 2):
            arms, _ = choose(
                kind_of("BETA").kernel("choose_bayes_ucb"), counts, totals, self.N,
                level=0.01, pivots=pivot,
            )  # fmt: skip
            assert_uniform(arms, (0, 1))

    @pytest.mark.parametrize("name", ["BETA", "GAMMA"])
    def test_where_quantiles_round_to_zero(self, choose, kind_of, name):
        """Shapes of 1e-4: quantiles of 1e-1000 at every arm, or at all but the last."""
        kind = kind_of(name)
        for last, tied in ((1e-4, (0, 1, 2)), (2.0, (2,))):
            counts, totals = np.array([1.0, 2.0, 3.0]), np.array([1e-4, 1e-4, last])
            tiny = kind.family.mean_quantile(kind.coordinates(counts, totals), 0.5) < 1e-300
            assert tiny.tolist() == [True, True, last < 1]
            for pivot in (0, 1, 2):
                arms, _ = choose(
                    kind.kernel("choose_bayes_ucb"), counts, totals, self.N, level=0.5, pivots=pivot
                )
                if len(tied) > 1:
                    assert_uniform(arms, tied)
                else:
                    assert (arms == tied[0]).all()


@pytest.mark.parametrize("policy", plan.POLICY_KERNELS, ids=lambda policy: policy.__name__)
@pytest.mark.parametrize("family", plan.POSTERIOR_KERNELS, ids=lambda family: family.__name__)
def test_in_round_one_every_agent_plays_any_arm(family, policy):
    """All arms at the prior: uniform, and agents on their own: the variance is multinomial too."""
    bandit = posse.Bandit(family(), [0.2, 0.5, 0.6, 0.1])
    result = posse.simulate(
        bandit, networks.cycle(50), posse.Decentralized(policy()),
        horizon=1, runs=400, seed=3, engine="compiled",
    )  # fmt: skip
    assert stats.chisquare(result.pulls.sum(axis=(0, 1))).pvalue > ERROR_RATE
    of_first = result.pulls.sum(axis=1)[:, 0]  # (runs,) each binomial(50, 1/4)
    dispersion = ((of_first - 12.5) ** 2).sum() / (50 * 0.25 * 0.75)
    assert ERROR_RATE / 2 < stats.chi2.sf(dispersion, 400) < 1 - ERROR_RATE / 2


# Means as the benchmark of Bayes-UCB draws them: uniform, spread, close and rare.
INSTANCES = {
    "uniform": np.random.default_rng(4).uniform(size=10),
    "spread": np.linspace(0.1, 0.9, 10),
    "close": np.append(0.5, np.full(9, 0.45)),
    "rare": np.linspace(0.001, 0.02, 10),
}


@pytest.mark.long
def test_no_contested_choice_of_real_runs_is_wrong(choose, kind_of):
    """Of 100,000 choices of Bernoulli agents that the quick test leaves open, 0 differ from SciPy.

    The beliefs are those of runs at learning rate 1 and N, a choice is open if the common bound at
    the mean of the best arm does not exclude all others, and pivots are arbitrary.
    """
    kind, generator = kind_of("BETA"), np.random.default_rng(8)
    n_open = n_wrong = 0
    for (means, rate), seed in zip(
        [(means, rate) for means in INSTANCES.values() for rate in (1.0, 20.0)],
        range(8),
        strict=True,
    ):
        times = np.arange(3, 500, 8)
        result = posse.simulate(
            posse.Bandit.bernoulli(means), networks.cycle(20),
            posse.Decentralized(posse.BayesUCB(), learning_rate=rate),
            horizon=500, runs=16, seed=seed, record=times, keep="beliefs", threads=1,
        )  # fmt: skip
        for column, t in enumerate(times):
            beliefs = np.moveaxis(result.beliefs[:, column], 1, 0).reshape(2, -1, 10)
            totals = beliefs[0]
            counts = beliefs.sum(axis=0)
            level = 1 / (t + 1)
            scores = kind.family.mean_quantile(beliefs, 1 - level)
            best = scores.argmax(axis=1)[:, None]
            x = np.take_along_axis(totals / counts, best, axis=1)
            d = x * counts - totals
            spread = np.where(x < 0.5, x * (1 - x), 0.25)
            is_open = (d * abs(d) <= -2 * np.log(level) * spread * counts).sum(axis=1) > 1
            arms, _ = choose(
                kind.kernel("choose_bayes_ucb"), counts, totals, len(counts),
                level=1 - (1 - level), pivots=generator.integers(10, size=len(counts)), t=int(t),
            )  # fmt: skip
            n_open += int(is_open.sum())
            n_wrong += int((~near_best(scores, arms))[is_open].sum())
    print(f"{n_wrong} wrong of {n_open} contested choices")
    assert n_open >= 100_000
    assert n_wrong == 0
