"""RandUCB: play the arm whose posterior quantile is highest, at a level drawn anew every round."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.best_arm import Race
from posse.families import Family, get_optional
from posse.policies.policy import timeless
from posse.randomness import FloatArray, Randomness

HIGHEST = 7.0  # the largest normal score at which crossings are searched
PRECISION = 1e-12  # of a probability


@dataclass(frozen=True)
class RandUCB:
    """Bayes-UCB at a random level: one u ~ U(1/2, 1) per agent and round, common to all arms.

    The score of an arm is its posterior quantile at u; for Gaussian beliefs mean + |z| sd, with one
    standard normal z. Agents with equal beliefs spread over several arms, as they do not under
    Bayes-UCB; arms of equal evidence stay in the order of their means, as they do not under
    Thompson Sampling. (A random multiple of a confidence width: Vaswani, Mehrabian, Durand, Kveton
    2020.)

    sampling: the share of rounds, at random, in which an agent plays Thompson Sampling instead.
    width: the spread of the levels, u = Phi(width |z|), z standard normal; above 1 explores more.

    >>> belief = np.array([[100.0, 0.0], [100.0, 1.0]])  # N(1, 0.1^2) and N(0, 1)
    >>> policy = posse.RandUCB()  # the second arm where |z| > 1 + 0.1 |z|
    >>> policy.probabilities(belief, posse.families.Gaussian(), 1, None).round(3).tolist()
    [0.733, 0.267]
    """

    name: ClassVar[str] = "rand-ucb"

    sampling: float = 0.0
    width: float = 1.0

    def __post_init__(self) -> None:
        validation.validate_number("sampling", self.sampling, at_least=0, at_most=1)
        validation.validate_number("width", self.width, above=0, at_most=2)

    @timeless
    def scores(
        self,
        belief: FloatArray,
        family: Family,
        t: int,
        horizon: int | None,
        generator: Randomness,
    ) -> FloatArray:
        """Return the quantile of each mean at a random level per agent: (D, ..., K) -> (..., K)."""
        level = 0.5 + 0.5 * np.asarray(generator.random(belief.shape[1:-1]))
        if self.width != 1:
            from scipy.special import ndtr, ndtri

            # below 1, where a quantile may be infinite
            level = np.minimum(ndtr(self.width * ndtri(level)), 1 - 2.0**-53)
        quantile = family.mean_quantile(belief, level[..., None])
        if self.sampling == 0:
            return quantile
        samples = np.asarray(generator.random(belief.shape[1:-1])) < self.sampling
        return np.where(samples[..., None], family.sample_mean(belief, generator), quantile)

    def probabilities(
        self,
        belief: FloatArray,
        family: Family,
        t: int,
        horizon: int | None,
        race: Race | None = None,
    ) -> FloatArray | None:
        """Return the probability of the levels at which each arm is highest: (D, K) -> (K,).

        The error is below 1e-10 plus the probability that width |z| is above 7 (3e-12 for a width
        of 1). With `sampling`, the result is a mixture with the propensities of Thompson Sampling,
        whose error is below 1e-7. None for a family whose quantile functions may cross more than
        once.
        """
        if not get_optional(family, "quantiles_cross_once"):
            return None
        from scipy.special import ndtr

        def quantiles(score: float) -> FloatArray:
            return family.mean_quantile(belief, ndtr(score))

        shares = np.zeros(belief.shape[1])
        for low, high, highest in _find_highest_arms(quantiles, belief.shape[1]):
            # The last interval extends to infinity.
            beyond = 0.0 if high == HIGHEST else _upper_tail(high / self.width)
            levels = 2.0 * (_upper_tail(low / self.width) - beyond)
            shares += levels * highest / np.count_nonzero(highest)
        # scores are cut at HIGHEST, so the shares sum to 1 up to its tail
        shares /= shares.sum()
        if self.sampling == 0:
            return shares
        best = (race or Race(family))(belief)
        return np.asarray((1 - self.sampling) * shares + self.sampling * best)


def _upper_tail(score: float) -> float:
    """Return P(z > score) of a standard normal z."""
    return 0.5 * math.erfc(score / math.sqrt(2.0))


def _find_highest_arms(
    quantiles: Callable[[float], FloatArray], n_arms: int
) -> list[tuple[float, float, NDArray[np.bool_]]]:
    """Split the normal scores from 0 on by the highest arms: intervals (from, to, arms).

    Two quantile functions cross at most once, so each arm is highest on at most one interval: if
    the same arms are highest at both ends of an interval, they are highest inside it. As functions
    of the score the quantiles are lines (Gaussian beliefs) or nearly so, and secants find the
    crossings.
    """
    open_brackets = [(_Bracket.evaluate(quantiles, 0.0), _Bracket.evaluate(quantiles, HIGHEST))]
    intervals = []
    # More splits than there can be crossings: only rounding separates the beliefs then.
    splits = 4 * n_arms
    while open_brackets:
        low, high = open_brackets.pop()
        if np.array_equal(low.highest, high.highest):
            intervals.append((low.score, high.score, low.highest))
            continue
        crossing = _find_crossing(quantiles, low, high)
        if isinstance(crossing, _Bracket) and splits > 0:
            splits -= 1
            open_brackets += [(low, crossing), (crossing, high)]
            continue
        score = crossing.score if isinstance(crossing, _Bracket) else crossing
        intervals.append((low.score, score, low.highest))
        intervals.append((score, high.score, high.highest))
    return intervals


@dataclass(frozen=True)
class _Bracket:
    """A normal score, the quantiles there, and which are the highest."""

    score: float
    values: FloatArray  # (K,)
    highest: NDArray[np.bool_]  # (K,)

    @classmethod
    def evaluate(cls, quantiles: Callable[[float], FloatArray], score: float) -> _Bracket:
        values = np.asarray(quantiles(score))
        return cls(score, values, values == values.max())


def _find_crossing(
    quantiles: Callable[[float], FloatArray], low: _Bracket, high: _Bracket
) -> float | _Bracket:
    """Find the score at which the highest arms change from those of one end to the other's.

    Returns a point instead if a third arm is highest there. The Illinois variant of the secant
    method halves the value at an end that stays, so that the bracket shrinks from both sides.
    Every fourth step is a bisection, which bounds the steps for any functions.
    """
    first = int(low.highest.argmax())
    last = int(high.highest.argmax())
    # Ties: one of several equal arms drops out or joins.
    if first == last:
        last = int((low.highest != high.highest).argmax())
    start = low.score
    end = high.score
    at_start = float(low.values[first] - low.values[last])
    at_end = float(high.values[first] - high.values[last])
    stayed = 0
    for step in range(200):
        if _upper_tail(start) - _upper_tail(end) < PRECISION:
            break
        share = at_start / (at_start - at_end) if at_start != at_end else 0.5
        if step % 4 == 3 or not 0.0 <= share <= 1.0:
            share = 0.5
        # stay strictly inside the bracket, so that every step shrinks it
        least = 1e-13 * max(1.0, end)
        score = min(max(start + share * (end - start), start + least), end - least)
        point = _Bracket.evaluate(quantiles, score)
        difference = float(point.values[first] - point.values[last])
        if np.array_equal(point.highest, low.highest):
            start = score
            at_start = difference
            at_end = at_end / 2 if stayed == 1 else at_end
            stayed = 1
        elif np.array_equal(point.highest, high.highest):
            end = score
            at_end = difference
            at_start = at_start / 2 if stayed == -1 else at_start
            stayed = -1
        else:
            return point
    return 0.5 * (start + end)
