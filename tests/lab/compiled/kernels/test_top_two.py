"""Top-two sampling of the kernels: every arm with the probability that the policy itself states.

Frequencies of 20,000 decisions against `TopTwo.probabilities`, which integrates numerically, over
12 random posteriors for each belief. The least p-value of all is tested at an error rate of 1e-5.
"""

import numpy as np
import pytest
from scipy import stats

import posse
from posse.lab.compiled.jit import KERNELS
from posse.lab.compiled.kernels import thompson

ERROR_RATE, POSTERIORS, AGENTS = 1e-5, 12, 20_000


def random_posterior(kind, generator):
    """(count, total), each (K,), some arms equal to each other so that challengers tie."""
    n_arms = int(generator.integers(3, 9))
    sizes = 10.0 ** generator.uniform(0.5, 3.0, n_arms)
    off = generator.normal(size=n_arms) * generator.choice([0.5, 2.0])
    count, total = kind.rows(generator, sizes, off)
    count[-1], total[-1] = count[-2], total[-2]
    return count, total


def play(kind, choose, count, total, fraction, drawing, seed):
    """How often 20,000 agents with one belief play each arm."""
    factor = kind.belief.factor
    table = thompson.thresholds_for(factor, thompson.OUTRIGHT, len(count))
    kernels = [
        kind.kernel("choose_thompson"),
        kind.kernel("choose_thompson_eagerly"),
        KERNELS[f"challenge_{kind.name}"],
    ]
    arms, _ = choose(
        kernels, count, total, AGENTS, level=thompson.OUTRIGHT, drawing=drawing, seed=seed,
        thresholds=np.append(table, fraction),
    )  # fmt: skip
    return np.bincount(arms, minlength=len(count))


@pytest.mark.parametrize("fraction", [0.3, 1.0])
def test_every_arm_has_its_probability(kind, choose, fraction):
    generator = np.random.default_rng(7)
    policy = posse.TopTwo(fraction)
    least = 1.0
    for seed in range(POSTERIORS):
        count, total = random_posterior(kind, generator)
        drawing = (thompson.ALWAYS_LAZY, thompson.ALWAYS_EAGER)[seed % 2]
        played = play(kind, choose, count, total, fraction, drawing, seed)
        chance = policy.probabilities(kind.coordinates(count, total), kind.family, 1, None)
        expected = AGENTS * chance
        common = expected >= 5
        # rare arms together are one more class
        rare = [played[~common].sum()], [expected[~common].sum()]
        ours, theirs = (
            np.append(x[common], y) for x, y in zip((played, expected), rare, strict=True)
        )
        if theirs[-1] < 5:
            assert ours[-1] < 30
            ours, theirs = ours[:-1], theirs[:-1]
        if len(ours) > 1:
            statistic = ((ours - theirs) ** 2 / theirs).sum()
            least = min(least, stats.chi2.sf(statistic, len(ours) - 1))
    assert least > ERROR_RATE / POSTERIORS
