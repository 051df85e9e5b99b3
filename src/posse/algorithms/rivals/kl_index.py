"""The KL-UCB index: how high the mean of an arm may lie, given what was seen of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from posse import divergences
from posse.randomness import FloatArray

Above = Callable[..., FloatArray]

# Newton's method from above halves the error at worst and squares it at best: 6 are usual.
_STEPS = 60
# A step below this share of the scale is the last one: what is still missing is no longer than it.
LAST_STEP = 1e-14
# Enough for the halves of any interval of floats.
_HALVES = 1100
# No mean is further from another.
_FAR = 1e60


def kl_ucb(family: Any, mean: ArrayLike, count: ArrayLike, level: ArrayLike) -> FloatArray:
    """The largest q with count kl(mean, q) <= level: (...), infinite where count is 0.

    Garivier and Cappe, "The KL-UCB algorithm for bounded stochastic bandits and beyond", COLT 2011;
    kl is the family's `divergence`, so `Bounded` has that of Bernoulli, and
    `GaussianUnknownVariance` that of its sigma. Means outside the range of rewards, as averages
    over a network can be, are taken as the nearest end.

    >>> float(kl_ucb(posse.families.Gaussian(sigma=2.0), 0.5, 8, 1.0))
    1.5
    """
    divergence = divergences.get_divergence(family)
    low = family.rewards.low
    high = family.rewards.high
    means = np.clip(np.asarray(mean, dtype=float), low, high)
    p, n, f = np.broadcast_arrays(means, count, level)
    seen = n > 0
    radius = np.maximum(f, 0.0) / np.where(seen, n, 1.0)
    base, parameters = _parts(divergence)
    above = ABOVE.get(base)
    with np.errstate(over="ignore"):  # an index above all floats is infinite
        q = above(p, radius, **parameters) if above else _bisected(family, divergence, p, radius)
    return np.where(seen, np.minimum(q, high), np.inf)


def _above_gaussian(p: FloatArray, radius: FloatArray, sigma: float = 1.0) -> FloatArray:
    return np.asarray(p + sigma * np.sqrt(2 * radius))


def _above_gaussian_unknown_variance(
    p: FloatArray, radius: FloatArray, sigma: float = 1.0
) -> FloatArray:
    return np.asarray(p + sigma * np.sqrt(np.expm1(2 * radius)))


def _above_bernoulli(p: FloatArray, radius: FloatArray) -> FloatArray:
    """p + x, kl = -p log(1 + x/p) - (1 - p) log(1 - x/(1 - p)), whose slope is x/(q (1 - q))."""
    rest = 1 - p
    some = np.where(p > 0, p, 1.0)
    less = np.where(rest > 0, rest, 1.0)

    def step(x: FloatArray) -> FloatArray:
        kl = -p * np.log1p(x / some) - rest * np.log1p(-x / less)
        return np.asarray((kl - radius) * (p + x) * (rest - x) / x)

    # three bounds from above: Pinsker's, Poisson's, and that of kl >= -rest log(1 - q) - entropy
    entropy = -p * np.log(some) - rest * np.log(less)
    start = np.minimum(np.sqrt(radius / 2), _poisson_bound(p, radius))
    start = np.minimum(start, rest - np.exp(-(radius + entropy) / less))
    return p + _newton(step, np.maximum(start, 0.0), np.ones_like(p))


def _above_poisson(p: FloatArray, radius: FloatArray) -> FloatArray:
    """p + x, kl = x - p log(1 + x/p), whose slope is x/q."""
    some = np.where(p > 0, p, 1.0)

    def step(x: FloatArray) -> FloatArray:
        return np.asarray((x - p * np.log1p(x / some) - radius) * (p + x) / x)

    start = _poisson_bound(p, radius)
    return p + _newton(step, start, p + start)


def _above_exponential(p: FloatArray, radius: FloatArray) -> FloatArray:
    """p e^s, kl = s + e^-s - 1, whatever p is."""

    def step(s: FloatArray) -> FloatArray:
        return np.asarray((s + np.expm1(-s) - radius) / -np.expm1(-s))

    # kl >= s - 1 and kl >= s^2/(2 (1 + s))
    start = np.minimum(radius + 1, _poisson_bound(np.ones_like(radius), radius))
    some = np.where(p > 0, p, 1.0)  # nothing lies above 0 times anything
    return np.where(p > 0, some * np.exp(_newton(step, start, 1 + start)), 0.0)


# What inverts a divergence in its second argument, above the first.
ABOVE: dict[Any, Above] = {
    divergences.kl_gaussian: _above_gaussian,
    divergences.kl_gaussian_unknown_variance: _above_gaussian_unknown_variance,
    divergences.kl_bernoulli: _above_bernoulli,
    divergences.kl_poisson: _above_poisson,
    divergences.kl_exponential: _above_exponential,
}


def kind_of(family: Any) -> tuple[int, float] | None:
    """Which of ABOVE is the family's and its sigma, for kernels; None: a divergence of its own."""
    base, parameters = _parts(divergences.get_divergence(family))
    return (list(ABOVE).index(base), parameters.get("sigma", 1.0)) if base in ABOVE else None


def _parts(divergence: Any) -> tuple[Any, dict[str, Any]]:
    """The function itself and what it is always given, such as sigma."""
    return getattr(divergence, "func", divergence), getattr(divergence, "keywords", {})


def _poisson_bound(p: FloatArray, radius: FloatArray) -> FloatArray:
    """The x of x^2/(2 (p + x)) = radius, above that of Poisson's divergence, which is larger."""
    return np.asarray(radius + np.sqrt(radius * (radius + 2 * p)))


def _newton(
    step: Callable[[FloatArray], FloatArray], x: FloatArray, scale: FloatArray
) -> FloatArray:
    """The root of a convex, increasing function from a start above it, where no step overshoots.

    The unknown is the distance from the mean, not q: near the mean, where the divergence is flat,
    its terms cancel, and what is lost is then a rounding of q at most.
    """
    for _ in range(_STEPS):
        with np.errstate(divide="ignore", invalid="ignore"):
            down = step(x)
        down = np.where(np.isfinite(down), down, 0.0)  # already at the end, or radius 0
        x = np.maximum(x - down, 0.0)
        if (np.abs(down) <= LAST_STEP * scale).all():
            break
    return x


def _bisected(
    family: Any, divergence: divergences.Divergence, p: FloatArray, radius: FloatArray
) -> FloatArray:
    """The same for a divergence of one's own: doubles the distance, then halves the interval."""
    high = family.means.high
    low = p.astype(float)
    width = np.ones_like(radius)

    def fits(q: FloatArray) -> Any:
        return divergence(p, q) <= radius

    if np.isfinite(high):
        top = np.full_like(low, high)
    else:
        for _ in range(_HALVES):
            growing = fits(low + width) & (width < _FAR)
            if not growing.any():
                break
            width = np.where(growing, 2 * width, width)
        top = low + width
    for _ in range(_HALVES):
        middle = low + (top - low) / 2
        if ((middle <= low) | (middle >= top)).all():
            break
        inside = fits(middle)
        low = np.where(inside, middle, low)
        top = np.where(inside, top, middle)
    return low
