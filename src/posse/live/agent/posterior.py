"""Posteriors of the weights of features, factorised (Cholesky) once for each state of an arm."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from posse.best_arm import Race
from posse.families.family import Family
from posse.families.gaussian_weights import LEAST_VARIANCE
from posse.families.linear import Linear
from posse.families.logistic import Logistic
from posse.live.agent.context_evidence import Moments
from posse.live.agent.evidence import Evidence
from posse.live.agent.site_pooling import SiteReading
from posse.live.exchange import Exchange
from posse.randomness import FloatArray


class Weights:
    """What a belief (D, K) says at contexts, as `family.at`, without solving for every one of them.

    With Lambda = L L' and R the inverse of L, x'theta has the variance |R x|^2 and the mean
    (R x)'(R b): R and R b are kept of every arm until its belief is another.
    """

    def __init__(self, family: Linear | Logistic, n_arms: int) -> None:
        d = family.features
        self._belief = np.full((d + d * (d + 1) // 2, n_arms), np.nan)
        rows, columns = np.triu_indices(d)
        self._matrix = np.empty((d, d), dtype=np.intp)  # where a belief has each of Lambda
        self._matrix[rows, columns] = self._matrix[columns, rows] = d + np.arange(len(rows))
        self._roots = np.zeros((n_arms, d, d))
        self._shifts = np.zeros((n_arms, d))
        self._followed: FloatArray | None = None
        self._least = float(np.diagonal(family.prior()[self._matrix]).min())  # precision

    def follow(self, belief: FloatArray) -> None:
        """Take over the belief about all arms, (D, K), if it is a new one."""
        if belief is self._followed:
            return
        (changed,) = (belief != self._belief).any(axis=0).nonzero()
        for arm in changed.tolist():
            root = self._root(belief[self._matrix, arm])
            self._roots[arm], self._shifts[arm] = root, root @ belief[: len(root), arm]
        self._belief = belief
        self._followed = belief

    def at(self, x: FloatArray, arm: int | None = None) -> FloatArray:
        """Shift and precision of the means at contexts: (B, d) -> (2, B, K), or of one arm."""
        which = slice(None) if arm is None else slice(arm, arm + 1)
        scaled = x @ self._roots[which].swapaxes(1, 2)  # (K, B, d)
        variance = np.maximum((scaled * scaled).sum(axis=2).T, LEAST_VARIANCE)
        mean = (scaled @ self._shifts[which, :, None])[:, :, 0].T
        return np.stack([mean / variance, 1.0 / variance])

    def _root(self, precision: FloatArray) -> FloatArray:
        """The inverse of a root of a matrix: (d, d) -> (d, d).

        Evidence adds to the prior's precision in every direction. Where matrices were rounded, as
        evidence fades, or a neighbour lies, it may not: then no direction is known worse than by
        the prior.
        """
        try:
            return np.asarray(np.linalg.inv(np.linalg.cholesky(precision)))
        except np.linalg.LinAlgError:
            values, vectors = np.linalg.eigh(precision)
            values = np.maximum(values, self._least)
            return np.asarray(vectors.T / np.sqrt(values)[:, None])


# An agent's posterior, kept between decisions and brought up to date where evidence changed.

# sets of arms that decisions are asked from, of which the one not asked longest goes first; fewer
# where there are many arms, so that all of them take some 16 MB at most
MOST_SUBSETS = 64
MOST_PLACES = 2000


class Subset:
    """Some of the arms: the belief about them, and the race between them."""

    def __init__(
        self, names: Sequence[str], places: NDArray[np.intp] | None, family: Family
    ) -> None:
        """The arms at these places, None if it is all of them."""
        self.names = tuple(names)
        self.race = Race(family)
        self.places = places
        self._whole = self.belief = np.empty((0, 0))

    def follow(self, whole: FloatArray) -> Subset:
        """Take over the belief about all arms, (D, K), if it is a new one."""
        if whole is not self._whole:
            self._whole = whole
            if self.places is None:
                self.belief = whole
                return self
            belief = whole[:, self.places]
            if not np.array_equal(belief, self.belief):  # else the race was run already
                belief.setflags(write=False)
                self.belief = belief
        return self


class Beliefs:
    """Prior and evidence of each arm, as the agent acts on it or, `honest`, as people are shown it.

    Shown is what closed decisions say, for what it is worth; an open one may still be rewarded.

    Arrays are read-only, and the same object as long as the belief is the same.
    """

    def __init__(
        self,
        evidence: Evidence,
        exchange: Exchange,
        arms: Sequence[str],
        honest: bool = False,
        reading: SiteReading | None = None,
    ) -> None:
        """reading: how the evidence of others is read; None: like the own."""
        self._evidence = evidence
        self._exchange = exchange
        self._honest = honest
        self._reading = None if reading is None or reading.pools else reading
        self._arms = list(arms)
        self._revision = -1
        self._prior = evidence.family.prior()
        self._held: dict[str, tuple[int, ...]] = {}
        self._others = np.empty(0)  # as it was read last, where sites differ
        self.closed = [0.0] * len(arms)  # decisions of each arm in the network, up to `now`
        self._belief = np.repeat(self._prior[:, None], len(arms), axis=1)
        self._belief.setflags(write=False)
        self._subsets: OrderedDict[tuple[str, ...], Subset] = OrderedDict()
        self._weights: Weights | None = None
        if isinstance(evidence.sums, Moments):
            self._weights = Weights(evidence.sums.family, len(arms))

    def at(self, x: FloatArray, arm: int | None = None) -> FloatArray:
        """The beliefs about means at contexts: (B, d) -> (2, B, K), or about those of one arm."""
        assert self._weights is not None
        self._weights.follow(self.now)
        return self._weights.at(x, arm)

    @property
    def now(self) -> FloatArray:
        """The posterior coordinates of all arms, (D, K)."""
        if self._reading is not None:
            return self._here(self._reading)
        if self._exchange.revision != self._revision:
            revision = self._exchange.revision
            held = self._exchange.evidence()
            changed = [
                (k, held.get(arm))
                for k, arm in enumerate(self._arms)
                if held.get(arm) != self._held.get(arm)
            ]
            if changed:
                belief = self._belief.copy()
                for k, quanta in changed:
                    belief[:, k] = self._prior
                    self.closed[k] = 0.0
                    if quanta is not None:
                        self.closed[k] = self._evidence.closed_count(quanta)
                        belief[:, k] += self._statistic(quanta)
                belief.setflags(write=False)
                self._belief = belief
            self._revision = revision
            self._held = held
        return self._belief

    def _here(self, reading: SiteReading) -> FloatArray:
        """The belief where sites differ: what others are worth here, and all of one's own."""
        others = reading.others
        if self._exchange.revision != self._revision or others is not self._others:
            revision = self._exchange.revision
            own = self._exchange.own()
            held = self._exchange.evidence()
            belief = others.copy()
            for k, arm in enumerate(self._arms):
                if arm in own:
                    belief[:, k] += self._evidence.statistic(own[arm])
                self.closed[k] = self._evidence.closed_count(held[arm]) if arm in held else 0.0
            if not np.array_equal(belief, self._belief):
                belief.setflags(write=False)
                self._belief = belief
            self._revision = revision
            self._others = others
        return self._belief

    def of(self, names: tuple[str, ...]) -> Subset | None:
        """The belief about these arms, if it was asked for before."""
        subset = self._subsets.get(names)
        if subset is not None:
            self._subsets.move_to_end(names)
            subset.follow(self.now)
        return subset

    def add(self, key: tuple[str, ...], names: list[str]) -> Subset:
        """Keep the belief about the named arms under this key."""
        places = None
        if names != self._arms:
            places = np.array([self._arms.index(name) for name in names])
        self._subsets[key] = subset = Subset(names, places, self._evidence.at_mean)
        if len(self._subsets) > min(MOST_SUBSETS, max(2, MOST_PLACES // len(self._arms))):
            self._subsets.popitem(last=False)
        return subset.follow(self.now)

    def _statistic(self, quanta: tuple[int, ...]) -> FloatArray:
        if not self._honest:
            return self._evidence.statistic(quanta)
        closed = self._evidence.closed_part(quanta)
        return self._evidence.statistic(closed, self._evidence.effective_count(closed))
