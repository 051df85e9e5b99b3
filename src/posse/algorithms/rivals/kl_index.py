"""The KL-UCB index: the largest mean of an arm that its observations do not rule out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from posse import divergences
from posse.randomness import FloatArray

InverseDivergence = Callable[..., FloatArray]

# Newton's method from above halves the error at worst and squares it at best: 6 steps are usual.
_STEPS = 60
# A step below this share of the scale is the last: the remaining error is at most as large.
LAST_STEP = 1e-14
# Enough bisections for any interval of floats.
_HALVES = 1100
# The largest distance searched between two means.
_FAR = 1e60


def kl_ucb(family: Any, mean: ArrayLike, count: ArrayLike, level: ArrayLike) -> FloatArray:
    """Return the largest q with count kl(mean, q) <= level: (...), infinite if count is 0.

    Garivier and Cappe, "The KL-UCB algorithm for bounded stochastic bandits and beyond", COLT 2011;
    kl is the family's `divergence`, so `Bounded` has that of Bernoulli, and
    `GaussianUnknownVariance` that of its sigma. Means outside the range of rewards, as averages
    over a network can be, are clipped to it.

    >>> float(kl_ucb(posse.families.Gaussian(sigma=2.0), 0.5, 8, 1.0))
    1.5
    """
    divergence = divergences.get_divergence(family)
    low = family.rewards.low
    high = family.rewards.high
    # a consensus average may leave the range of rewards
    means = np.clip(np.asarray(mean, dtype=float), low, high)
    p, n, f = np.broadcast_arrays(means, count, level)
    is_played = n > 0
    radius = np.maximum(f, 0.0) / np.where(is_played, n, 1.0)
    base, parameters = _split_divergence(divergence)
    invert = INVERSE_DIVERGENCES.get(base)
    with np.errstate(over="ignore"):  # an index above all floats is infinite
        q = (
            invert(p, radius, **parameters)
            if invert
            else _bisect_index(family, divergence, p, radius)
        )
    return np.where(is_played, np.minimum(q, high), np.inf)


def _above_gaussian(p: FloatArray, radius: FloatArray, sigma: float = 1.0) -> FloatArray:
    return np.asarray(p + sigma * np.sqrt(2 * radius))


def _above_gaussian_unknown_variance(
    p: FloatArray, radius: FloatArray, sigma: float = 1.0
) -> FloatArray:
    return np.asarray(p + sigma * np.sqrt(np.expm1(2 * radius)))


def _above_bernoulli(p: FloatArray, radius: FloatArray) -> FloatArray:
    """Invert kl(p, p + x) = -p log(1 + x/p) - (1 - p) log(1 - x/(1 - p)), slope x/(q (1 - q))."""
    complement = 1 - p
    safe_p = np.where(p > 0, p, 1.0)
    safe_complement = np.where(complement > 0, complement, 1.0)

    def newton_step(x: FloatArray) -> FloatArray:
        kl = -p * np.log1p(x / safe_p) - complement * np.log1p(-x / safe_complement)
        return np.asarray((kl - radius) * (p + x) * (complement - x) / x)

    # start at the least of three upper bounds: Pinsker's, Poisson's, and the one that follows from
    # kl >= -(1 - p) log(1 - q) - entropy
    entropy = -p * np.log(safe_p) - complement * np.log(safe_complement)
    start = np.minimum(np.sqrt(radius / 2), _poisson_bound(p, radius))
    start = np.minimum(start, complement - np.exp(-(radius + entropy) / safe_complement))
    return p + _find_root(newton_step, np.maximum(start, 0.0), np.ones_like(p))


def _above_poisson(p: FloatArray, radius: FloatArray) -> FloatArray:
    """Invert kl(p, p + x) = x - p log(1 + x/p), whose slope is x/q."""
    safe_p = np.where(p > 0, p, 1.0)

    def newton_step(x: FloatArray) -> FloatArray:
        return np.asarray((x - p * np.log1p(x / safe_p) - radius) * (p + x) / x)

    start = _poisson_bound(p, radius)
    return p + _find_root(newton_step, start, p + start)


def _above_exponential(p: FloatArray, radius: FloatArray) -> FloatArray:
    """Invert kl(p, p e^s) = s + e^-s - 1, which does not depend on p."""

    def newton_step(s: FloatArray) -> FloatArray:
        return np.asarray((s + np.expm1(-s) - radius) / -np.expm1(-s))

    # start above the root: kl >= s - 1 and kl >= s^2/(2 (1 + s))
    start = np.minimum(radius + 1, _poisson_bound(np.ones_like(radius), radius))
    safe_p = np.where(p > 0, p, 1.0)  # the index of mean 0 is 0
    return np.where(p > 0, safe_p * np.exp(_find_root(newton_step, start, 1 + start)), 0.0)


# The inverse of each divergence in its second argument, above the first. The compiled engine knows
# them by their position here.
INVERSE_DIVERGENCES: dict[Any, InverseDivergence] = {
    divergences.kl_gaussian: _above_gaussian,
    divergences.kl_gaussian_unknown_variance: _above_gaussian_unknown_variance,
    divergences.kl_bernoulli: _above_bernoulli,
    divergences.kl_poisson: _above_poisson,
    divergences.kl_exponential: _above_exponential,
}


def divergence_kind(family: Any) -> tuple[int, float] | None:
    """The place of the family's divergence in INVERSE_DIVERGENCES and its sigma, for kernels.

    None if the family has a user-defined divergence.
    """
    base, parameters = _split_divergence(divergences.get_divergence(family))
    if base not in INVERSE_DIVERGENCES:
        return None
    return list(INVERSE_DIVERGENCES).index(base), parameters.get("sigma", 1.0)


def _split_divergence(divergence: Any) -> tuple[Any, dict[str, Any]]:
    """Split a divergence into its function and the bound arguments, such as sigma."""
    return getattr(divergence, "func", divergence), getattr(divergence, "keywords", {})


def _poisson_bound(p: FloatArray, radius: FloatArray) -> FloatArray:
    """Solve x^2/(2 (p + x)) = radius, an upper bound since Poisson's divergence is larger."""
    return np.asarray(radius + np.sqrt(radius * (radius + 2 * p)))


def _find_root(
    newton_step: Callable[[FloatArray], FloatArray], x: FloatArray, scale: FloatArray
) -> FloatArray:
    """Find the root of a convex, increasing function by Newton's method from above.

    From above no step overshoots. The unknown is the distance from the mean, not q: near the mean
    the divergence is flat and its terms cancel, but the error is then at most a rounding of q.
    """
    for _ in range(_STEPS):
        with np.errstate(divide="ignore", invalid="ignore"):
            down = newton_step(x)
        down = np.where(np.isfinite(down), down, 0.0)  # already at the root, or radius 0
        x = np.maximum(x - down, 0.0)
        if (np.abs(down) <= LAST_STEP * scale).all():
            break
    return x


def _bisect_index(
    family: Any, divergence: divergences.Divergence, p: FloatArray, radius: FloatArray
) -> FloatArray:
    """Find the index of a user-defined divergence: double the distance, then bisect."""
    high = family.means.high
    low = p.astype(float)
    width = np.ones_like(radius)

    def is_within(q: FloatArray) -> Any:
        return divergence(p, q) <= radius

    if np.isfinite(high):
        top = np.full_like(low, high)
    else:
        # double the width until the divergence exceeds the radius everywhere
        for _ in range(_HALVES):
            growing = is_within(low + width) & (width < _FAR)
            if not growing.any():
                break
            width = np.where(growing, 2 * width, width)
        top = low + width
    for _ in range(_HALVES):
        middle = low + (top - low) / 2
        if ((middle <= low) | (middle >= top)).all():
            break
        inside = is_within(middle)
        low = np.where(inside, middle, low)
        top = np.where(inside, top, middle)
    return low
