"""Bounds on the regret per agent side by side: published ones, the prediction, a simulation."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from posse.families import get_optional
from posse.networks import Network, Static, is_symmetric
from posse.randomness import FloatArray
from posse.theory.paper import lai_robbins, theorem_1
from posse.theory.prediction import predicted_regret
from posse.validation import validate_integer, validate_number

if TYPE_CHECKING:
    import pandas as pd

DDUCB_EXPLORATION = 2.0  # eta of its theorem
DDUCB_EPSILON = 1 / 22


class MeanInterval(Protocol):
    """The part of a result's summary that the table shows."""

    @property
    def mean(self) -> float:
        """The mean regret per agent."""

    @property
    def low(self) -> float:
        """The lower end of its interval."""

    @property
    def high(self) -> float:
        """The upper end of its interval."""


class Bound(NamedTuple):
    """A row of the table; low and high are an interval, NaN where there is none."""

    name: str
    regret: float
    kind: str
    source: str
    low: float = math.nan
    high: float = math.nan


def bounds(
    bandit: Any,
    network: Network,
    horizon: int,
    simulated: MeanInterval | None = None,
    *,
    epsilon: float = 0.5,
) -> pd.DataFrame:
    """Return a table of bounds on the regret per agent at the horizon, with their sources.

    simulated: the summary of a simulation, `result.summary()`, as a last row
    epsilon: of Theorem 1

    The rows are those that apply: Lai-Robbins (a lower bound for large T only), the explicit terms
    of Theorem 1 (Bernoulli rewards; NOT a finite-time bound), UCB1 without cooperation (rewards in
    [0, 1]), DDUCB (static symmetric weights), and the prediction, which is a closure and no bound.
    For the prediction, low and high contain 9 of 10 runs; for a simulation, they are the interval
    of its mean.

    >>> bandit = posse.Bandit.bernoulli([0.5, 0.3, 0.3])
    >>> table = theory.bounds(bandit, posse.networks.cycle(10), horizon=1000)
    >>> table.regret.round(1).to_dict()["Lai-Robbins"]
    3.4
    """
    import pandas as pd

    horizon = validate_integer("horizon", horizon, at_least=1)
    epsilon = validate_number("epsilon", epsilon, above=0)
    gaps = _find_gaps(bandit)
    rows = [
        _bound_lai_robbins(bandit, network, horizon),
        _bound_theorem_1(bandit, network, horizon, epsilon),
        _bound_ucb1(bandit, gaps, horizon),
        _bound_dducb(bandit, network, gaps, horizon),
        _predict(bandit, network, horizon),
    ]
    if simulated is not None:
        interval = (float(simulated.low), float(simulated.high))
        rows.append(
            Bound(
                "simulated", float(simulated.mean), "simulation, dec-TS", "Algorithm 2", *interval
            )
        )
    table = pd.DataFrame([row for row in rows if row is not None], columns=Bound._fields)
    return table.set_index("name")[["regret", "low", "high", "kind", "source"]]


def _find_gaps(bandit: Any) -> FloatArray:
    """Return the gaps of a bandit with fixed means (K,), or raise a ValueError."""
    means = getattr(bandit, "means", None)
    if not isinstance(means, tuple) or getattr(bandit, "drift", None) is not None:
        raise ValueError("bounds needs fixed means, one number per arm, without drift")
    return np.asarray(bandit.gaps)


def _bound_lai_robbins(bandit: Any, network: Network, horizon: int) -> Bound | None:
    with suppress(ValueError):  # a family without a divergence
        regret = lai_robbins(bandit, network.n_agents) * math.log(horizon)
        return Bound(
            "Lai-Robbins", regret, "lower bound, for large T only", "Lai and Robbins 1985, Remark 1"
        )
    return None


def _bound_theorem_1(bandit: Any, network: Network, horizon: int, epsilon: float) -> Bound | None:
    """Return the explicit terms of Theorem 1, for Bernoulli rewards."""
    if getattr(bandit.family, "name", "") != "bernoulli":
        return None
    with suppress(ValueError):  # a network whose spectral gap is not known, or 0
        terms = theorem_1(bandit.means, network.n_agents, network.spectral_gap, horizon, epsilon)
        return Bound(
            "Theorem 1",
            terms.explicit,
            f"explicit terms at epsilon = {epsilon:g}; plus O(10^{terms.log10_omitted:.0f}), so no "
            "finite-time bound",
            "the paper, Theorem 1",
        )
    return None


def _bound_ucb1(bandit: Any, gaps: FloatArray, horizon: int) -> Bound | None:
    """Return the bound of UCB1 for one agent: 8 sum of ln T / gap + (1 + pi^2/3) sum of gaps."""
    rewards = bandit.family.rewards
    if rewards.low < 0 or rewards.high > 1:
        return None
    regret = 8 * math.log(horizon) * float((1 / gaps[gaps > 0]).sum())
    regret += (1 + math.pi**2 / 3) * float(gaps.sum())
    return Bound(
        "UCB1 alone",
        regret,
        "upper bound, no cooperation",
        "Auer, Cesa-Bianchi and Fischer 2002, Theorem 1",
    )


def _bound_dducb(bandit: Any, network: Network, gaps: FloatArray, horizon: int) -> Bound | None:
    """Return the bound of DDUCB on the regret of the network, divided by N.

    Sum over worse arms of 16 eta (1 + 2 epsilon) sigma^2 ln(N T) / gap + (N (6 C + 1) + 4) sum of
    gaps, with C rounds a stage; eta = 2 and epsilon = 1/22 give 32 (1 + 1/11).
    """
    sigma = get_optional(bandit.family, "subgaussian")
    static = isinstance(network.dynamics, Static)
    if sigma is None or not static or not is_symmetric(network.weights):
        return None
    n_agents = network.n_agents
    second = min(max(network.second_eigenvalue, 1e-300), 1 - 1e-15)
    rounds = math.ceil(math.log(2 * n_agents / DDUCB_EPSILON) / math.sqrt(-2 * math.log(second)))
    leading = 16 * DDUCB_EXPLORATION * (1 + 2 * DDUCB_EPSILON) * sigma**2
    leading *= math.log(n_agents * horizon) * float((1 / gaps[gaps > 0]).sum())
    delay = (n_agents * (6 * rounds + 1) + 4) * float(gaps.sum())
    return Bound(
        "DDUCB",
        (leading + delay) / n_agents,
        "upper bound, another algorithm",
        "Martinez-Rubio, Kanade and Rebeschini 2019, Theorem 3.2, constants from memory",
    )


def _predict(bandit: Any, network: Network, horizon: int) -> Bound | None:
    with suppress(ValueError):  # a family or a network that the closure does not cover
        prediction = predicted_regret(bandit, network, horizon)
        ends = [float(prediction.quantile(level)[-1]) for level in (0.05, 0.95)]
        return Bound(
            "prediction", prediction.final, "closure, dec-TS", "docs/predicted-regret.md", *ends
        )
    return None
