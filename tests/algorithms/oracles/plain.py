"""What the plain scripts share: ties, the index of a mean, and who hears whom."""

from functools import cache
from math import inf, log, sqrt


def pick(scores, uniform):
    """The place of the largest score, of several the one that the uniform falls on."""
    best = max(scores)
    tied = [k for k, score in enumerate(scores) if score == best]
    return tied[int(uniform * len(tied))]


@cache
def kl_bound(p, radius, sigma):
    """The largest q at a divergence of `radius` from p: Gaussian, or Bernoulli if sigma is None."""
    if sigma is not None:
        return p + sigma * sqrt(2 * radius)
    if p == 1:
        return 1.0

    def kl(q):
        return (p * log(p / q) if p > 0 else 0.0) + (1 - p) * log((1 - p) / (1 - q))

    low, high = p, 1.0
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return low
        low, high = (middle, high) if kl(middle) <= radius else (low, middle)


def bounds(observations, n_arms, t, kl, sigma, width):
    """The index of every arm from (arm, reward) pairs, infinite where there are none.

    kl: the published one if False, mean + sqrt(width ln t / m); width is its constant.
    """
    index = []
    for k in range(n_arms):
        rewards = [reward for arm, reward in observations if arm == k]
        m = len(rewards)
        if m == 0:
            index.append(inf)
            continue
        mean = sum(rewards) / m
        index.append(kl_bound(mean, log(t) / m, sigma) if kl else mean + sqrt(width * log(t) / m))
    return index
