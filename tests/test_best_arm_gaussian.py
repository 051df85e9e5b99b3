"""The race of Gaussian beliefs at many contexts: against the fine rule, and of known arms."""

import numpy as np
import pytest

from posse import families
from posse.best_arm import evaluate_arms, gaussian_probability_best


@pytest.mark.parametrize("n_arms", [2, 3, 5, 10])
@pytest.mark.parametrize("spread", [0.1, 2.5, 7.0])
def test_chances_are_those_of_the_fine_rule(n_arms, spread):
    generator = np.random.default_rng(n_arms)
    mean = 0.5 * generator.normal(size=(20, n_arms))
    sd = np.exp(-spread * generator.random((20, n_arms)))
    found = gaussian_probability_best(mean, sd)
    for row, m, s in zip(found, mean, sd, strict=True):
        wanted, _ = evaluate_arms(families.Gaussian(), np.array([m / s**2, 1 / s**2]))
        np.testing.assert_allclose(row, wanted, atol=1e-7)
        np.testing.assert_array_equal(
            row, gaussian_probability_best(m[None], s[None])[0]
        )  # each by itself


def test_arms_known_to_the_last_digit_share_or_win():
    mean = np.array([[1.0, 2.0, 2.0], [3.0, 1.0, 2.0]])
    sd = np.full((2, 3), 1e-20)
    np.testing.assert_array_equal(gaussian_probability_best(mean, sd), [[0, 0.5, 0.5], [1, 0, 0]])
    sd[1] = [1.0, 1e-20, 1.0]  # of one arm alone
    assert gaussian_probability_best(mean, sd)[1].sum() == pytest.approx(1)
    assert (gaussian_probability_best(mean, sd) >= 0).all()
