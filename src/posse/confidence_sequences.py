"""Confidence sequences: intervals of a mean that are valid at every look, however often one looks.

A confidence interval is right in 95% of all cases if one looks once. A confidence sequence is right
at all times at once in 95% of all cases. These are the normal mixture's (Robbins; as asymptotic
confidence sequences: Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, 2021): at information tau,
in units of the information at which it is tuned, the mean is within

    sqrt(v (1 + 1 / tau) log((1 + tau) / error^2))

of its estimate, where v is the estimate's variance. It is at most twice as wide as the interval of
one look for tau from 1 to 10,000.
"""

from __future__ import annotations

import math

from scipy import special

from posse.randomness import FloatArray

TUNED_COUNT = 100.0  # observations; fixed in advance, as a sequence must be
UNSEEN = 3  # observations at an end of the range: chance may hide so many, and hardly more
LEAST_SHARE = 0.5  # of the variance of independent observations: the least that clusters may show


def mixture_quantile(tau: float, error: float) -> float:
    """Return how many standard errors a mean may be off, at every look with this information."""
    return math.sqrt((1.0 + 1.0 / tau) * math.log((1.0 + tau) / error**2))


def widen_quantile(quantile: float, dof: float) -> float:
    """Return the quantile of Student's t with as much probability beyond as a normal one has.

    For a variance that is itself an estimate, with so many degrees of freedom.
    """
    return float(-special.stdtrit(dof, special.ndtr(-quantile)))


def cluster_variance(counts: FloatArray, sums: FloatArray) -> float:
    """Return the variance of sum(sums) / sum(counts) by its spread between clusters, (B,), (B,).

    Observations of one cluster may depend on each other; clusters may not.
    """
    n_clusters = len(counts)
    total = counts.sum()
    residuals = sums - counts * (sums.sum() / total)
    return float(n_clusters / (n_clusters - 1) * (residuals**2).sum() / total**2)


def bounded_mean_interval(
    count: float, total: float, squares: float, ends: tuple[float, float], error: float
) -> tuple[float, float]:
    """Return the interval of the mean of observations between two ends, valid at every look.

    total, squares: their sum and the sum of their squares. Some further observations at an end,
    which nobody has seen yet, are added to their spread: rare large values must not surprise.
    """
    low, high = ends
    if count <= 0:
        return low, high
    mean = total / count
    spread = max(0.0, squares - count * mean**2) + UNSEEN * (high - low) ** 2
    radius = math.sqrt(spread) / count * mixture_quantile(count / TUNED_COUNT, error)
    return max(low, mean - radius), min(high, mean + radius)


def cluster_difference_interval(
    first: tuple[FloatArray, FloatArray],
    second: tuple[FloatArray, FloatArray],
    variance: float,
    error: float,
) -> tuple[float, float, float]:
    """Return the difference of two means of clusters, and its ends, valid at every look.

    first, second: counts and sums of clusters, (B,) each. variance: that of a single observation;
    clusters that happen to agree show at least half of what it gives independent observations.
    """
    counts = [float(counts.sum()) for counts, _ in (first, second)]
    means = [
        float(sums.sum()) / count for (_, sums), count in zip((first, second), counts, strict=True)
    ]
    variances = [
        max(cluster_variance(*side), LEAST_SHARE * variance / count)
        for side, count in zip((first, second), counts, strict=True)
    ]
    total = sum(variances)
    difference = means[0] - means[1]
    if total == 0.0:
        return difference, -math.inf, math.inf
    # Welch and Satterthwaite: the degrees of freedom of a sum of estimated variances
    squares = [
        v**2 / (len(side[0]) - 1) for v, side in zip(variances, (first, second), strict=True)
    ]
    dof = total**2 / sum(squares)
    tau = counts[0] * counts[1] / sum(counts) / TUNED_COUNT
    radius = math.sqrt(total) * widen_quantile(mixture_quantile(tau, error), dof)
    return difference, difference - radius, difference + radius
