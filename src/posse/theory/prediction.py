"""Regret of decentralized Thompson Sampling predicted without simulation.

A deterministic closure, not a theorem. Every agent plays an arm of class k (arms of equal mean)
with the probability p_k(t) of Thompson Sampling under a typical belief. With c_k(t) the sum of p_k
so far, an agent's belief counts N c_k observations of an arm, but unevenly: their squared weights
sum up to N^2 q_k, where q_k(t) = sum over tau of p_k(tau) g(t - tau) and g(s) is the decay of the
network (`compute_decay`). So an agent's estimate of a mean has the variance

    V_k = sigma^2 q_k / c_k^2 >= sigma^2 / (N c_k).

The lower end is common to all agents, the luck of the run; the rest is local. The closure lets
agents act as if all had the same belief of n_k observations,

    1/n_k = 1/(N c_k) + kappa_k (q_k / c_k^2 - 1/(N c_k)),

and the luck of a run shifts the estimate of the best arm by z sigma / sqrt(N c_best), z ~ N(0, 1).
kappa is 1/4 for all arms but the best: good local luck of a bad arm is played away. Bad local luck
of the best arm lasts, because the arm is not played, the longer the more neighbours share it: there
kappa = 2 - own + 3 random, with the shares of `split_cost`. These four numbers are fitted. On the
complete graph nothing is fitted. For push-sum the decay and the shares are those of its own weights
(`follow_push_sum`); nothing was fitted to it.

Runs of equal luck of the best arm still differ by the luck of the others. An arm with a gap d is
played n times by the network until n d - S = sqrt(2 L n), where S is the sum of n errors and L is
about ln t. Near n = 2 L / d^2 the difference of both sides has the slope d / 2, so that S moves n
by 2 S / d: the standard deviation of n is 2 sigma sqrt(n) / d. Early, an arm cannot deviate by more
than its n pulls; the two variances are combined as resistors in parallel are. Nothing is fitted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from posse.families import Family, clip_means, get_family_name, get_optional, is_contextual
from posse.networks import Network
from posse.randomness import FloatArray, IntArray
from posse.theory.network_costs import (
    MERGES,
    CostShares,
    compute_decay,
    follow_push_sum,
    split_cost,
)
from posse.validation import validate_choice, validate_integer, validate_number

KAPPA_BEST = 2.0
OWN = -1.0  # the change of kappa by the share of own observations in the cost
RANDOM = 3.0  # and by the share that the randomness of W(t) adds
KAPPA_OTHERS = 0.25
STEPS = 30  # a step of t/30 rounds at round t: p(t) changes slowly
NODES = 161  # points at which distribution functions are evaluated
WIDTH = 7.5  # standard deviations around a mean that these points cover
# Lucks of the best arm: runs with bad luck matter most, and for quantiles.
LUCK = np.array([-3.3, -2.7, -2.326, -1.9, -1.5, -1.0, -0.4, 0.3, 1.2, 2.2])
RUNS = 2000  # equally likely lucks from which means are interpolated
QUANTILE_LUCKS = (200, 100)  # those of the best arm and of the others, for quantiles


@dataclass(frozen=True)
class PredictedRegret:
    """Predicted regret per agent of decentralized Thompson Sampling.

    times: rounds, ascending, the last one is the horizon, (S,)
    mean: the mean over runs of the regret per agent at these rounds, (S,)
    by_luck: the mean regret of runs with the lucks `LUCK` of the best arm, (S, 10)
    spread: the standard deviation of the regret among runs of such a luck, (S, 10)
    """

    times: IntArray = field(repr=False)
    mean: FloatArray = field(repr=False)
    by_luck: FloatArray = field(repr=False)
    spread: FloatArray = field(repr=False)

    @property
    def horizon(self) -> int:
        """The last round."""
        return int(self.times[-1])

    @property
    def final(self) -> float:
        """The mean regret per agent at the horizon."""
        return float(self.mean[-1])

    def quantile(self, level: float) -> FloatArray:
        """Return the quantile over runs at a level between 0 and 1, at all rounds: (S,).

        Regret among runs of equal luck of the best arm is taken as Gamma distributed, in the
        approximation of Wilson and Hilferty: the cube of a normal variate.
        """
        level = validate_number("level", level, above=0, below=1)
        best, others = (_list_lucks(count) for count in QUANTILE_LUCKS)
        quantiles = []
        for regrets, spreads in zip(self.by_luck, self.spread, strict=True):
            mean = np.interp(best, LUCK, regrets)[:, None]
            ratio = np.interp(best, LUCK, spreads / np.maximum(regrets, 1e-300))[:, None]
            runs = mean * np.maximum(1 - ratio**2 / 9 + others * ratio / 3, 0.0) ** 3
            quantiles.append(np.quantile(runs, level))
        return np.array(quantiles)

    def __str__(self) -> str:
        low = self.quantile(0.05)[-1]
        high = self.quantile(0.95)[-1]
        return (
            f"predicted regret per agent at round {self.horizon}: {self.final:.3g} "
            f"(9 of 10 runs from {low:.3g} to {high:.3g})"
        )


class Merge(NamedTuple):
    """What the closure needs to know of N agents that share evidence."""

    n_agents: int
    # g(0..horizon): the mean sum of squared weights of an observation that was merged s times
    decay: FloatArray
    kappa_best: float


def predicted_regret(
    bandit: Any, network: Network, horizon: int, merge: str = "average"
) -> PredictedRegret:
    """Predict the regret of `Decentralized(ThompsonSampling())` without simulation.

    bandit: with fixed means (K,), of a family whose rewards enter its belief linearly and whose
            variance the mean determines: Gaussian, Bernoulli, Poisson, exponential, bounded
    network: static, gossip, failing or user-defined, as for `network_cost`
    merge: "push-sum" for `PushSum(ThompsonSampling())`, on static networks, directed ones too

    This is a closure and not a theorem: docs/predicted-regret.md compares it with simulations.

    >>> bandit = posse.Bandit.gaussian([0.5] + [0.1] * 16)
    >>> prediction = theory.predicted_regret(bandit, posse.networks.cycle(36), horizon=500)
    >>> round(prediction.final)
    13
    """
    horizon = validate_integer("horizon", horizon, at_least=1)
    means = _validate_bandit(bandit)
    shares: CostShares | None
    if validate_choice("merge", merge, MERGES) == "push-sum":
        decay, shares = follow_push_sum(network, horizon)
    else:
        decay = compute_decay(network, horizon)
        shares = split_cost(network)
    return follow_closure(bandit.family, means, Merge(network.n_agents, decay, _fit_kappa(shares)))


def _validate_bandit(bandit: Any) -> FloatArray:
    """Return the means (K,) of a bandit that the closure covers, or raise a ValueError."""
    family = bandit.family
    if is_contextual(family):
        raise ValueError("predicted_regret needs a bandit without contexts")
    if not isinstance(getattr(bandit, "means", None), tuple):
        raise ValueError("predicted_regret needs fixed means, one number per arm")
    for name in ("drift", "delay"):
        if getattr(bandit, name) is not None:
            raise ValueError(f"predicted_regret needs a bandit without {name}")
    means = np.array(bandit.means)
    linear = get_optional(family, "powers") == (1,)
    if not linear or get_optional(family, "variance")(means) is None:
        raise ValueError(
            "predicted_regret needs rewards whose variance the mean determines, which family "
            f"{get_family_name(family)!r} does not have"
        )
    return means


def _fit_kappa(shares: CostShares | None) -> float:
    """Return kappa of the best arm; without corrections where the shares are not known."""
    if shares is None:
        return KAPPA_BEST
    return KAPPA_BEST + OWN * shares.own + RANDOM * shares.random


def follow_closure(family: Any, means: FloatArray, merge: Merge) -> PredictedRegret:
    """Follow the closure round by round, in growing steps, to the last round of the decay.

    Any merge that conserves evidence can be predicted by its own decay.
    """
    n_agents, decay, kappa_best = merge
    horizon = len(decay) - 1
    values, arms = np.unique(means, return_counts=True)  # classes, ascending: the last is the best
    gaps = values[-1] - values
    kappa = np.where(gaps == 0, kappa_best, KAPPA_OTHERS)
    spent = np.append(0.0, np.cumsum(decay[1:]))  # sum of g(1..s), (horizon + 1,)
    times = _place_steps(horizon)
    starts = np.append(0, times[:-1])

    played = np.zeros((len(times), len(LUCK), len(values)))  # p in every step
    counts = np.zeros((len(LUCK), len(values)))  # c
    regret = np.zeros(len(LUCK))
    by_luck = np.empty((len(times), len(LUCK)))
    spread = np.empty_like(by_luck)
    for step, (start, end) in enumerate(zip(starts, times, strict=True)):
        # the squared weights of what was observed in earlier steps: q
        shares = spent[start - starts[:step]] - spent[start - times[:step]]
        squares = np.tensordot(shares, played[:step], axes=1)
        observations = _count_observations(n_agents, counts, squares, kappa)
        estimates = _shift_best(family, values, n_agents * counts[:, -1])
        belief = family.prior()[:, None, None] + observations * family.statistic(estimates)
        chosen = _choose_classes(family, belief, arms)
        played[step] = chosen
        counts += (end - start) * chosen
        regret += (end - start) * (chosen @ (arms * gaps))
        by_luck[step] = regret
        spread[step] = _spread_runs(family.variance(values), gaps, n_agents, counts, arms)
    return PredictedRegret(times, by_luck @ _luck_shares(), by_luck, spread)


def _place_steps(horizon: int) -> IntArray:
    """Return the last round of each step, ascending to the horizon: (S,)."""
    ends = [1]
    while ends[-1] < horizon:
        ends.append(min(horizon, ends[-1] + max(1, ends[-1] // STEPS)))
    return np.array(ends, dtype=np.int64)


def _count_observations(
    n_agents: int, counts: FloatArray, squares: FloatArray, kappa: FloatArray
) -> FloatArray:
    """Return n, the observations that beliefs act on: (lucks, classes)."""
    seen = np.where(counts > 0, counts, 1.0)
    common = 1 / (n_agents * seen)
    local = np.maximum(squares / seen**2 - common, 0.0)
    return np.where(counts > 0, 1 / (common + kappa * local), 0.0)


def _shift_best(family: Any, values: FloatArray, pulls: FloatArray) -> FloatArray:
    """Return the estimates of all classes for each luck of the best arm: (lucks, classes)."""
    deviation = np.sqrt(family.variance(values[-1:]) / np.maximum(pulls, 1.0))
    estimates = np.tile(values, (len(LUCK), 1))
    estimates[:, -1] = clip_means(family, values[-1] + LUCK * deviation)
    return estimates


def _spread_runs(
    variance: FloatArray, gaps: FloatArray, n_agents: int, counts: FloatArray, arms: IntArray
) -> FloatArray:
    """Return the standard deviation of the regret that the luck of bad arms causes: (lucks,)."""
    late = 4 * variance * counts / n_agents  # of one arm: (gap / N)^2 times 4 sigma^2 N c / gap^2
    early = (gaps * counts) ** 2
    either = late * early / np.maximum(late + early, 1e-300)
    return np.asarray(np.sqrt(either @ arms))


def _choose_classes(family: Family, belief: FloatArray, arms: IntArray) -> FloatArray:
    """Return Thompson's probability of an arm of each class: (D, lucks, classes) -> the same.

    An arm wins with the integral of the other arms' distribution functions over its own. Between
    two points the others are taken as linear, so that a narrow arm may lie between two points.
    """
    x = _place_nodes(family, belief)
    below = family.mean_cdf(belief[:, :, None, :], x[:, :, None])  # (lucks, nodes, classes)
    logs = np.log(np.maximum(below, 1e-300))
    others = np.exp((logs @ arms)[:, :, None] - logs)
    wins = np.diff(below, axis=1) * (others[:, 1:] + others[:, :-1]) / 2
    chances = np.maximum(wins.sum(axis=1), 0.0)
    return np.asarray(chances / (chances @ arms)[:, None])


def _place_nodes(family: Any, belief: FloatArray) -> FloatArray:
    """Return points that cover the means of possible winners, ascending: (lucks, nodes)."""
    formula = getattr(family, "posterior_variance", None)
    variance = np.full(belief.shape[1:], np.inf) if formula is None else formula(belief)
    if np.isfinite(variance).all():
        mean = family.posterior_mean(belief)
        low = (mean - WIDTH * np.sqrt(variance)).max(axis=1)
        high = (mean + WIDTH * np.sqrt(variance)).max(axis=1)
        steps = (high - low)[:, None] * np.linspace(0, 1, NODES)
        return clip_means(family, low[:, None] + steps)
    # A heavy tail has no width: take quantiles of all classes.
    from scipy.special import ndtr

    levels = ndtr(np.linspace(-6, 6, NODES // 2))
    quantiles = family.mean_quantile(belief[:, :, None, :], levels[:, None])
    return np.sort(quantiles.reshape(len(quantiles), -1), axis=1)


def _list_lucks(count: int) -> FloatArray:
    """Return equally likely lucks, ascending: (count,)."""
    from scipy.special import ndtri

    return np.asarray(ndtri((np.arange(count) + 0.5) / count))


def _luck_shares() -> FloatArray:
    """Return the weight of each luck in a mean over runs, by linear interpolation."""
    lucks = _list_lucks(RUNS)
    return np.array([np.interp(lucks, LUCK, unit).mean() for unit in np.eye(len(LUCK))])
