"""Kullback-Leibler divergences by family: how hard two arms are to distinguish.

Arguments are means; 0 log 0 = 0 and p log(p/0) = inf, as in the paper's notation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from posse.randomness import FloatArray
from posse.validation import validate_array, validate_number

Divergence = Callable[[ArrayLike, ArrayLike], FloatArray]


def kl_bernoulli(p: ArrayLike, q: ArrayLike) -> FloatArray:
    """Divergence d(p, q) of Bernoulli laws with means p and q in [0, 1] (Theorem 1).

    >>> round(float(theory.kl_bernoulli(0.5, 0.9)), 4)
    0.5108
    """
    p = validate_array("p", p, 0, 1)
    q = validate_array("q", q, 0, 1)
    return _relative_entropy(p, q) + _relative_entropy(1 - p, 1 - q)


def kl_gaussian(p: ArrayLike, q: ArrayLike, sigma: float = 1.0) -> FloatArray:
    """Divergence of Gaussian laws with means p and q and the same known sigma."""
    gap = validate_array("p", p) - validate_array("q", q)
    return (gap / validate_number("sigma", sigma, above=0)) ** 2 / 2


def kl_gaussian_unknown_variance(p: ArrayLike, q: ArrayLike, sigma: float = 1.0) -> FloatArray:
    """Smallest divergence from N(p, sigma^2) to a Gaussian of mean q and any variance.

    log(1 + (p - q)^2 / sigma^2) / 2 takes the place of `kl_gaussian` when the agents do not know
    sigma: Burnetas & Katehakis (1996); attained by Cowan, Honda & Katehakis (2018).
    """
    gap = validate_array("p", p) - validate_array("q", q)
    return np.log1p((gap / validate_number("sigma", sigma, above=0)) ** 2) / 2


def kl_poisson(p: ArrayLike, q: ArrayLike) -> FloatArray:
    """Divergence of Poisson laws with means p and q >= 0."""
    return _relative_entropy(validate_array("p", p, 0), validate_array("q", q, 0))


def kl_exponential(p: ArrayLike, q: ArrayLike) -> FloatArray:
    """Divergence of exponential laws with means p and q > 0."""
    p = validate_array("p", p, 0, open_low=True)
    q = validate_array("q", q, 0, open_low=True)
    return _relative_entropy(q, p) / q


def get_divergence(family: Any) -> Divergence:
    """Return the divergence d(means, best) of a reward family.

    `Bounded` gets the Bernoulli divergence, the one behind its quasi-likelihood
    theta^y (1 - theta)^(1 - y). No two laws on [0, 1] with these means are closer, so the
    Lai-Robbins constant it gives is an upper estimate for any law one might know more about.
    """
    function: Divergence | None = getattr(family, "divergence", None)
    if not callable(function):
        raise ValueError(
            f"family {getattr(family, 'name', family)!r} has no divergence: "
            "give it a method divergence(p, q)"
        )
    return function


# x - log(1 + x) = x^2/2 - x^3/3 + ...: exact to rounding for |x| < 0.01.
_SERIES = [0.0, 0.0] + [(-1) ** n / n for n in range(2, 11)]


def _relative_entropy(p: FloatArray, q: FloatArray) -> FloatArray:
    """Compute p log(p/q) - p + q, the common term of three divergences.

    0 log 0 = 0 and p log(p/0) = inf. Nearly equal means go through the series, because the plain
    formula loses every digit when the gap is below 1e-8.
    """
    from scipy.special import kl_div

    # p log(p/q) - p + q = p (x - log(1 + x)) with x = (q - p) / p
    near = np.abs(q - p) < 0.01 * p
    step = np.where(near, q - p, 0.0) / np.where(near, p, 1.0)
    series = p * np.polynomial.polynomial.polyval(step, _SERIES)
    return np.where(near, series, kl_div(p, q))
