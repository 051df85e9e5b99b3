"""Rejection replay: what a learning policy would have earned, from a log with propensities.

Each site walks through its own decisions of the log. At every one its policy chooses an arm; the
decision counts if that is the arm of the log, and then only with probability floor / propensity,
where `floor` is the lowest propensity at the site. So every decision is accepted with probability
`floor` whatever the policy chooses, and the accepted decisions are distributed as if the policy had
played itself (Li, Chu, Langford and Wang, WSDM 2011, for uniform logs). `posse.offline` evaluates
policies that do not learn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posse import networks, rules, validation
from posse.algorithms import ArrivedRewards, Isolated, Problem
from posse.families import get_family_name, is_contextual
from posse.networks import Network
from posse.offline import SCORE, Estimate
from posse.randomness import FloatArray, Streams

COLUMNS = ("context", "arm", "probability", "reward", "site")
NONE = -1  # the arm of a site after its last decision


@dataclass(frozen=True, eq=False, repr=False)
class Replay:
    """The accepted decisions of a replay: R runs, N sites, T rounds.

    sites:   the names of the sites, sorted: agent i is site i
    arms:    the names of the arms, sorted
    played:  (R, N, T) the number of the arm of every accepted decision, -1 after a site's last
    rewards: (R, N, T) its reward, nan after a site's last
    """

    sites: tuple[Any, ...]
    arms: tuple[Any, ...]
    played: NDArray[np.intp]
    rewards: FloatArray

    @property
    def decisions(self) -> NDArray[np.intp]:
        """The number of accepted decisions, (R, N)."""
        return np.asarray((self.played != NONE).sum(axis=2))

    @property
    def site_rewards(self) -> FloatArray:
        """The mean reward per decision of each site over all runs, (N,); nan without decisions."""
        totals = np.nansum(self.rewards, axis=(0, 2))
        counts = self.decisions.sum(axis=0)
        means = np.full(len(counts), np.nan)
        return np.asarray(np.divide(totals, counts, out=means, where=counts > 0))

    def estimate(self) -> Estimate:
        """Estimate the mean reward per decision, over all sites, with its 95% interval.

        The error is that of one run: more runs average over the luck of the policy, but all of
        them read the same log.
        """
        values = []
        variances = []
        for rewards in self.rewards:
            paid = rewards[np.isfinite(rewards)]
            values.append(paid.mean() if paid.size else math.nan)
            variances.append(paid.var(ddof=1) / paid.size if paid.size > 1 else math.nan)
        value = float(np.mean(values))
        error = math.sqrt(np.mean(variances))
        low = value - SCORE * error
        accepted = float(self.decisions.sum(axis=1).mean())
        return Estimate(value, error, low, value + SCORE * error, 1.0, accepted)

    def __repr__(self) -> str:
        runs, n_sites, _ = self.played.shape
        estimate = self.estimate()
        return (
            f"Replay(runs={runs}, sites={n_sites}, arms={len(self.arms)}, "
            f"decisions={estimate.effective_samples:.0f} a run, "
            f"reward={estimate.value:.4g} ± {estimate.error:.2g} a decision)"
        )


def replay(
    log: Any,
    policy: Any,
    family: Any = None,
    *,
    network: Network | None = None,
    horizon: int | None = None,
    floor: float | None = None,
    shuffle: bool = False,
    runs: int = 1,
    seed: int = 0,
) -> Replay:
    """Replay a log with known propensities by rejection: unbiased for a policy that learns.

    log:     a table with columns arm, probability (that of the arm, when it was played), reward,
             and if there are any site and context: a DataFrame, or a dict of arrays. Its rows are
             in the order of time. A context is a row of d features.
    policy:  a policy, with which each site learns by itself, or an algorithm such as
             `posse.Decentralized(...)`, whose agents are the sites in sorted order
    family:  the reward model with its prior, such as `posse.families.Bernoulli()`
    network: of the sites; None: every site is a neighbour of every other
    horizon: rounds, one decision of each site in each; None: until every log is used up
    floor:   the lowest probability with which any arm was ever played; None: the lowest of each
             site in the log, which is right where every arm occurs in it
    shuffle: whether each run reads the rows of a site in a random order, for logs without time
    runs:    repetitions, which differ by the random choices of policy, rejection and shuffle

    A site whose log is used up plays no more; it still passes messages on.

    >>> log = {"arm": [0, 1, 0, 1], "probability": [0.5] * 4, "reward": [1, 0, 1, 0]}
    >>> posse.replay(log, posse.ThompsonSampling(), posse.families.Bernoulli(), seed=1).sites
    (0,)
    """
    table = _Table.read(log, floor)
    algorithm = policy
    if not hasattr(policy, "init"):
        algorithm = Isolated(policy)
    model = getattr(algorithm, "family", None) or family
    if model is None:
        raise ValueError("family must be given, such as posse.families.Bernoulli()")
    table.check_family(model)
    if is_contextual(model):
        assert table.contexts is not None  # checked
        model = model.with_features(table.contexts.shape[-1])
    if not hasattr(algorithm, "learn_delayed") and not hasattr(algorithm, "learn_arrived"):
        raise ValueError(
            f"policy is {type(algorithm).__name__}, which cannot skip a site whose log has ended: "
            "use a policy, or Decentralized, Isolated, Centralized, PartialPooling, Flooding, Tree"
        )
    n_sites = len(table.sites)
    network = networks.complete(n_sites) if network is None else network
    if network.n_agents != n_sites:
        raise ValueError(
            f"network has {network.n_agents} agents, but the log has {n_sites} sites: "
            "each site is an agent"
        )
    runs = validation.validate_integer("runs", runs, at_least=1)
    seed = validation.validate_integer("seed", seed, at_least=0)
    rounds = int(table.sizes.max())
    if horizon is not None:
        rounds = min(rounds, validation.validate_integer("horizon", horizon, at_least=1))
    needed = 16.0 * runs * n_sites * rounds / 1e9
    if needed > validation.detect_memory():
        raise ValueError(
            f"runs is {runs}, whose decisions take {validation.format_gigabytes(needed)} of memory:"
            " take fewer, or a horizon"
        )
    problem = Problem(n_sites, len(table.arms), rounds, model, network, n_runs=runs)
    return _replay_runs(table, algorithm, problem, shuffle, seed)


def _replay_runs(
    table: _Table, algorithm: Any, problem: Problem, shuffle: bool, seed: int
) -> Replay:
    """Play rounds until the horizon, or until the log of every site is used up."""
    n_runs = problem.n_runs
    size = (n_runs, problem.n_agents)
    policy_stream = Streams.for_runs(seed, range(n_runs), "policy")
    network_stream = Streams.for_runs(seed, range(n_runs), "network")
    rejection = Streams.for_runs(seed, range(n_runs), "rewards")
    draw_weights = problem.network.sampler(n_runs)
    order = table.order_rows(n_runs, Streams.for_runs(seed, range(n_runs), "contexts"), shuffle)
    position = np.zeros(size, dtype=np.intp)  # how many rows of its log each site has read
    played = np.full((*size, problem.horizon), NONE, dtype=np.intp)
    rewards = np.full((*size, problem.horizon), np.nan)
    prepare = getattr(algorithm, "prepare", None)
    contextual = is_contextual(problem.family)
    features: Any = table.contexts
    state = algorithm.init(problem)
    for t in range(1, problem.horizon + 1):
        state = prepare(state, t, policy_stream) if prepare else state
        accepted_rows = np.full(size, NONE, dtype=np.intp)
        waiting = position < table.sizes
        while waiting.any():
            # A site that waits no more reads any row; what it would choose is ignored.
            place = table.first + np.minimum(position, table.sizes - 1)
            rows = np.take_along_axis(order, place, axis=1)
            context_arguments = {"contexts": features[rows]} if contextual else {}
            chosen = algorithm.choose(state, t, policy_stream, **context_arguments)
            kept = rejection.random(size) * table.propensities[rows] < table.floor
            accepted = waiting & (chosen == table.played[rows]) & kept
            accepted_rows[accepted] = rows[accepted]
            position[waiting] += 1
            waiting &= ~accepted & (position < table.sizes)
        run, site = np.nonzero(accepted_rows != NONE)
        if not len(run):
            break
        rows = accepted_rows[run, site]
        played[run, site, t - 1] = table.played[rows]
        rewards[run, site, t - 1] = table.rewards[rows]
        arrivals = ArrivedRewards(
            t,
            run,
            site,
            table.played[rows],
            table.rewards[rows],
            np.full(len(run), t),
            table.features_of_arms(rows) if contextual else None,
        )
        weights = draw_weights(network_stream, t)
        # PartialPooling has no open pulls, and so none of delayed rewards, but can skip a site.
        learn = getattr(algorithm, "learn_arrived", None) or algorithm.learn_delayed
        state = learn(state, played[:, :, t - 1], arrivals, weights)
    last = int((played != NONE).any(axis=(0, 1)).sum())
    return Replay(table.sites, table.arms, played[:, :, :last], rewards[:, :, :last])


@dataclass(frozen=True)
class _Table:
    """A validated log, its rows numbered; `order_rows` sorts them by site."""

    sites: tuple[Any, ...]
    arms: tuple[Any, ...]
    site: NDArray[np.intp]  # (n,)
    played: NDArray[np.intp]  # (n,)
    rewards: FloatArray  # (n,)
    propensities: FloatArray  # (n,)
    contexts: FloatArray | None  # (n, d) or (n, K, d)
    sizes: NDArray[np.intp]  # (N,) rows of each site
    floor: FloatArray  # (N,)

    @classmethod
    def read(cls, log: Any, floor: float | None) -> _Table:
        """Validate the columns of a log."""
        if not isinstance(log, Mapping) and not hasattr(log, "columns"):
            raise ValueError(
                f"log must be a table with columns {', '.join(COLUMNS)}, got "
                f"{validation.format_value(log)}"
            )
        for name in ("arm", "probability", "reward"):
            if name not in log:
                raise ValueError(f"log must have a column {name!r}")
        propensities = validation.validate_array("probability", log["probability"], 0, 1)
        n_rows = propensities.size
        if propensities.ndim != 1 or not n_rows or not (propensities > 0).all():
            raise ValueError("probability must be a column of numbers above 0 and at most 1")
        try:
            rewards = validation.validate_array("reward", log["reward"])
        except ValueError as error:
            raise ValueError(f"{error}: leave out decisions without a reward") from error
        arms, played = _number_names("arm", log["arm"], n_rows)
        sites, site = (
            _number_names("site", log["site"], n_rows)
            if "site" in log
            else ((0,), np.zeros(n_rows, dtype=np.intp))
        )
        if rewards.shape != (n_rows,):
            raise ValueError(f"reward must be a column of {n_rows} numbers, as probability is")
        if len(arms) < 2:
            raise ValueError(f"arm must take at least two values, got {arms[0]!r} only")
        contexts = None
        if "context" in log:
            rows = validation.validate_array("context", [np.asarray(x) for x in log["context"]])
            if rows.shape[:1] != (n_rows,) or rows.ndim not in (2, 3):
                raise ValueError(
                    f"context must have shape ({n_rows}, d) or ({n_rows}, K, d), got {rows.shape}"
                )
            contexts = rows
        lowest = np.full(len(sites), np.inf)
        np.minimum.at(lowest, site, propensities)
        if floor is not None:
            validation.validate_number("floor", floor, above=0, at_most=float(lowest.min()))
            lowest[:] = floor
        sizes = np.bincount(site, minlength=len(sites))
        return cls(sites, arms, site, played, rewards, propensities, contexts, sizes, lowest)

    @property
    def first(self) -> NDArray[np.intp]:
        """The place of the first row of each site among the rows sorted by site, (N,)."""
        return np.asarray(np.cumsum(self.sizes) - self.sizes)

    def check_family(self, family: Any) -> None:
        """Refuse a family that cannot learn from this log."""
        validation.validate_methods("family", family, ["statistic"], "posse.families.Bernoulli()")
        rules.refuse_rules("family", family)
        name = get_family_name(family)
        if is_contextual(family) and self.contexts is None:
            raise ValueError(f"family {name!r} needs contexts: give the log a column 'context'")
        inside = family.rewards.contains(self.rewards)
        if not inside.all():
            raise ValueError(
                f"reward must lie in {family.rewards} for family {name!r}, got "
                f"{float(self.rewards[~inside][0])!r}"
            )

    def order_rows(self, n_runs: int, streams: Streams, shuffle: bool) -> NDArray[np.intp]:
        """Sort the rows by site, within a site in the order of the log or a random one: (R, n)."""
        if not shuffle:
            return np.tile(np.argsort(self.site, kind="stable"), (n_runs, 1))
        keys = streams.random((n_runs, len(self.site)))
        return np.stack([np.lexsort((key, self.site)) for key in keys])

    def features_of_arms(self, rows: NDArray[np.intp]) -> FloatArray:
        """Return the features of the arms played in some rows, (n, d)."""
        assert self.contexts is not None
        x = self.contexts[rows]
        return x if x.ndim == 2 else x[np.arange(len(rows)), self.played[rows]]


def _number_names(name: str, values: Any, n_rows: int) -> tuple[tuple[Any, ...], NDArray[np.intp]]:
    """Number the distinct values of a column in sorted order."""
    column = np.asarray(values)
    column = column.astype(str) if column.dtype == object else column
    if column.shape != (n_rows,):
        raise ValueError(f"{name} must be a column of {n_rows} values, as probability is")
    names, numbers = np.unique(column, return_inverse=True)
    return tuple(names.tolist()), numbers
