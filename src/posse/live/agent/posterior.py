"""Posteriors of all arms, cached between decisions and updated where evidence changed.

With contexts, the posterior of the feature weights is factorised (Cholesky) once for each state of
an arm, so that a decision costs a product and not a solve.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from posse.best_arm import Race
from posse.families import LEAST_VARIANCE, Family, Linear, Logistic
from posse.live.agent.context_evidence import GramSums
from posse.live.agent.evidence import Evidence
from posse.live.agent.site_pooling import SitePooling
from posse.live.exchange import Exchange
from posse.randomness import FloatArray


class WeightPosteriors:
    """Evaluates a belief (D, K) at contexts, as `family.at`, without a solve for every context.

    With Lambda = L L' and R the inverse of L, x'theta has the variance |R x|^2 and the mean
    (R x)'(R b): R and R b of every arm are cached until its belief changes.
    """

    def __init__(self, family: Linear | Logistic, n_arms: int) -> None:
        d = family.features
        self._belief = np.full((d + d * (d + 1) // 2, n_arms), np.nan)
        rows, columns = np.triu_indices(d)
        self._matrix = np.empty((d, d), dtype=np.intp)  # where a belief has each of Lambda
        self._matrix[rows, columns] = self._matrix[columns, rows] = d + np.arange(len(rows))
        self._roots = np.zeros((n_arms, d, d))
        self._shifts = np.zeros((n_arms, d))
        self._last_belief: FloatArray | None = None
        self._least = float(np.diagonal(family.prior()[self._matrix]).min())  # precision

    def update_belief(self, belief: FloatArray) -> None:
        """Replace the belief about all arms, (D, K), if it changed."""
        if belief is self._last_belief:
            return
        # Only arms whose belief changed are factorised again: O(d^3) for each.
        (changed,) = (belief != self._belief).any(axis=0).nonzero()
        for arm in changed.tolist():
            root = self._inverse_root(belief[self._matrix, arm])
            self._roots[arm], self._shifts[arm] = root, root @ belief[: len(root), arm]
        self._belief = belief
        self._last_belief = belief

    def belief_at(self, x: FloatArray, arm: int | None = None) -> FloatArray:
        """Return shift and precision of the means at contexts: (B, d) -> (2, B, K)."""
        arms = slice(None) if arm is None else slice(arm, arm + 1)
        scaled = x @ self._roots[arms].swapaxes(1, 2)  # (K, B, d)
        variance = np.maximum((scaled * scaled).sum(axis=2).T, LEAST_VARIANCE)
        mean = (scaled @ self._shifts[arms, :, None])[:, :, 0].T
        return np.stack([mean / variance, 1.0 / variance])

    def _inverse_root(self, precision: FloatArray) -> FloatArray:
        """Return the inverse of a matrix root of a precision: (d, d) -> (d, d).

        Evidence adds to the prior's precision in every direction. Where matrices were rounded
        because evidence fades, or a neighbour lies, it may not: then no direction is less precise
        than the prior.
        """
        try:
            return np.asarray(np.linalg.inv(np.linalg.cholesky(precision)))
        except np.linalg.LinAlgError:
            values, vectors = np.linalg.eigh(precision)
            values = np.maximum(values, self._least)
            return np.asarray(vectors.T / np.sqrt(values)[:, None])


# ---- Posteriors of all arms and of subsets
#
# Invariant: an array is replaced, never changed, so that `is` tells whether a belief is the same
# and cached races and factors may be reused.

# Cached subsets of arms (LRU); fewer where there are many arms, so that all take 16 MB at most.
MOST_SUBSETS = 64
MOST_PLACES = 2000


class ArmSubset:
    """Some of the arms: the belief about them, and the race between them."""

    def __init__(
        self, names: Sequence[str], places: NDArray[np.intp] | None, family: Family
    ) -> None:
        """places: the places of these arms among all arms; None: these are all arms."""
        self.names = tuple(names)
        self.race = Race(family)
        self.places = places
        self._whole = self.belief = np.empty((0, 0))

    def update_belief(self, whole: FloatArray) -> ArmSubset:
        """Replace the belief about all arms, (D, K), if it changed."""
        if whole is not self._whole:
            self._whole = whole
            if self.places is None:
                self.belief = whole
                return self
            belief = whole[:, self.places]
            # Another arm changed: the cached race of this subset is still right.
            if not np.array_equal(belief, self.belief):
                belief.setflags(write=False)
                self.belief = belief
        return self


class Posteriors:
    """Prior and evidence of each arm: as the agent acts on it or, `closed_only`, as it is reported.

    Reports use closed decisions and their effective sample size; an open decision may still be
    rewarded. Arrays are read-only, and the same object as long as the belief is the same.
    """

    def __init__(
        self,
        evidence: Evidence,
        exchange: Exchange,
        arms: Sequence[str],
        closed_only: bool = False,
        pooling: SitePooling | None = None,
    ) -> None:
        """pooling: how evidence of other sites is read; None: like own evidence."""
        self._evidence = evidence
        self._exchange = exchange
        self._closed_only = closed_only
        self._pooling = None if pooling is None or pooling.pools_fully else pooling
        self._arms = list(arms)
        self._revision = -1
        self._prior = evidence.family.prior()
        self._ledger: dict[str, tuple[int, ...]] = {}
        self._others_belief = np.empty(0)  # as it was read last, where sites differ
        self.closed = [0.0] * len(arms)  # decisions of each arm in the network, up to `now`
        self._belief = np.repeat(self._prior[:, None], len(arms), axis=1)
        self._belief.setflags(write=False)
        self._subsets: OrderedDict[tuple[str, ...], ArmSubset] = OrderedDict()
        self._weights: WeightPosteriors | None = None
        if isinstance(evidence.sums, GramSums):
            self._weights = WeightPosteriors(evidence.sums.family, len(arms))

    def belief_at(self, x: FloatArray, arm: int | None = None) -> FloatArray:
        """Return the beliefs about means at contexts: (B, d) -> (2, B, K)."""
        assert self._weights is not None
        self._weights.update_belief(self.current)
        return self._weights.belief_at(x, arm)

    @property
    def current(self) -> FloatArray:
        """The current posterior coordinates of all arms, (D, K)."""
        if self._pooling is not None:
            return self._current_between_sites(self._pooling)
        if self._exchange.revision != self._revision:
            revision = self._exchange.revision
            ledger = self._exchange.evidence()
            changed = [
                (k, ledger.get(arm))
                for k, arm in enumerate(self._arms)
                if ledger.get(arm) != self._ledger.get(arm)
            ]
            if changed:
                belief = self._belief.copy()
                for k, quanta in changed:
                    belief[:, k] = self._prior
                    self.closed[k] = 0.0
                    if quanta is not None:
                        self.closed[k] = self._evidence.closed_count(quanta)
                        belief[:, k] += self._arm_statistic(quanta)
                belief.setflags(write=False)
                self._belief = belief
            self._revision = revision
            self._ledger = ledger
        return self._belief

    def _current_between_sites(self, pooling: SitePooling) -> FloatArray:
        """Return the belief where sites differ: evidence of others is discounted."""
        others_belief = pooling.others_belief
        if self._exchange.revision != self._revision or others_belief is not self._others_belief:
            revision = self._exchange.revision
            own_ledger = self._exchange.own()
            ledger = self._exchange.evidence()
            belief = others_belief.copy()
            for k, arm in enumerate(self._arms):
                if arm in own_ledger:
                    belief[:, k] += self._evidence.statistic(own_ledger[arm])
                self.closed[k] = self._evidence.closed_count(ledger[arm]) if arm in ledger else 0.0
            if not np.array_equal(belief, self._belief):
                belief.setflags(write=False)
                self._belief = belief
            self._revision = revision
            self._others_belief = others_belief
        return self._belief

    def find_subset(self, names: tuple[str, ...]) -> ArmSubset | None:
        """Return the cached subset of these arms, if there is one."""
        subset = self._subsets.get(names)
        if subset is not None:
            self._subsets.move_to_end(names)
            subset.update_belief(self.current)
        return subset

    def add_subset(self, key: tuple[str, ...], names: list[str]) -> ArmSubset:
        """Cache the belief about the named arms under this key."""
        places = None
        if names != self._arms:
            places = np.array([self._arms.index(name) for name in names])
        self._subsets[key] = subset = ArmSubset(names, places, self._evidence.at_mean)
        if len(self._subsets) > min(MOST_SUBSETS, max(2, MOST_PLACES // len(self._arms))):
            self._subsets.popitem(last=False)
        return subset.update_belief(self.current)

    def _arm_statistic(self, quanta: tuple[int, ...]) -> FloatArray:
        if not self._closed_only:
            return self._evidence.statistic(quanta)
        closed = self._evidence.closed_part(quanta)
        return self._evidence.statistic(closed, self._evidence.effective_count(closed))
