"""The kernels' KL-UCB index is the reference's."""

import numpy as np
import pytest

from posse.algorithms.rivals.kl_index import INVERSE_DIVERGENCES, divergence_kind, kl_ucb
from posse.families import FAMILIES, Gaussian
from posse.lab.compiled.numerics import kl_index as kl

EVERY = {
    "gaussian": Gaussian(sigma=2.5),
    **{
        name: FAMILIES[name]()
        for name in ("gaussian-unknown-variance", "bernoulli", "bounded", "poisson", "exponential")
    },
}
KINDS = ("GAUSSIAN", "UNKNOWN_VARIANCE", "BERNOULLI", "POISSON", "EXPONENTIAL")


def test_the_kinds_are_in_one_order():
    named = [
        function.__name__.removeprefix("_above_").upper()
        for function in INVERSE_DIVERGENCES.values()
    ]
    assert [name.removeprefix("GAUSSIAN_") for name in named] == list(KINDS)
    assert [getattr(kl, name) for name in KINDS] == list(range(len(INVERSE_DIVERGENCES)))


@pytest.mark.parametrize("name", EVERY)
def test_it_is_the_references(name):
    family = EVERY[name]
    kind, parameter = divergence_kind(family)
    generator = np.random.default_rng(1)
    means = np.concatenate([[0.0, 1.0, 0.5, 1e-9, 1 - 1e-9, -0.1, 1.2], generator.random(200)])
    counts = np.concatenate([[1.0, 3.0], generator.integers(1, 10_000, 60), [0.0]])[:, None]
    for level in (0.0, -1.0, 1e-9, 0.3, 4.0, 12.0):
        expected = np.broadcast_to(kl_ucb(family, means, counts, level), (63, 207))
        found = [
            [kl.kl_index(kind, parameter, mean, count, level) for mean in means]
            for count in counts[:, 0]
        ]
        np.testing.assert_allclose(
            found, np.minimum(expected, kl.FIRST), rtol=1e-13, atol=1e-14, err_msg=str(level)
        )


@pytest.mark.parametrize("name", EVERY)
def test_the_best_of_some_arms_is_found_without_solving_for_all(name):
    """In any order, and with ties: the same arms are the best, by the same index."""
    kind, parameter = divergence_kind(EVERY[name])
    generator, solved = np.random.default_rng(2), 0
    for _ in range(300):
        means = generator.choice([0.0, 0.1, 0.3, 0.35, 0.9, 1.0], 6)
        counts = generator.choice([0.0, 1.0, 5.0, 200.0], 6, p=[0.05, 0.15, 0.4, 0.4])
        index = [kl.kl_index(kind, parameter, *arm, 4.0) for arm in zip(means, counts, strict=True)]
        best, scores = -kl.FIRST, np.empty(6)
        for k in generator.permutation(6):
            scores[k] = kl.kl_score(kind, parameter, means[k], counts[k], 4.0, best)
            best = max(best, scores[k])
        assert best == max(index)
        np.testing.assert_array_equal(scores == best, index == best)
        solved += np.count_nonzero(scores > -kl.FIRST)
    assert kind < kl.BERNOULLI or solved < 0.8 * 1800
