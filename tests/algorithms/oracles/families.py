"""The KL index of four families by bisection, for the plain scripts."""

from math import inf, log, sqrt


def kl(family, p, q):
    """How far the law of mean q is from that of mean p."""
    if family == "bernoulli":
        if q == 1:
            return 0.0 if p == 1 else inf
        first = p * log(p / q) if p > 0 else 0.0
        return first + ((1 - p) * log((1 - p) / (1 - q)) if p < 1 else 0.0)
    if family == "poisson":
        return (p * log(p / q) if p > 0 else 0.0) - p + q
    if family == "exponential":
        return p / q - 1 - log(p / q)
    raise KeyError(family)


def upper(family, sigma, mean, n, level):
    """The largest q with n kl(mean, q) <= level, infinite for n = 0."""
    if n == 0:
        return inf
    if family == "gaussian":
        return mean + sigma * sqrt(2 * max(level, 0.0) / n)
    mean = max(mean, 0.0) if family != "bernoulli" else min(max(mean, 0.0), 1.0)
    if level <= 0 or (family == "bernoulli" and mean == 1):
        return mean
    low = high = mean
    if family == "bernoulli":
        high = 1.0
    else:
        step = 1.0
        while n * kl(family, mean, mean + step) <= level:
            step *= 2
        high = mean + step
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if n * kl(family, mean, middle) <= level else (low, middle)
    return low
