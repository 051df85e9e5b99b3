"""An agent's posterior, kept between decisions and brought up to date where evidence changed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from posse.families.family import Family
from posse.live.evidence import Evidence
from posse.live.exchange import Exchange
from posse.live.moments import Moments
from posse.live.site_reading import SiteReading
from posse.live.weights import Weights
from posse.race import Race
from posse.randomness import FloatArray

# sets of arms that decisions are asked from, of which the one not asked longest goes first; fewer
# where there are many arms, so that all of them take some 16 MB at most
MOST_SUBSETS, MOST_PLACES = 64, 2000


class Subset:
    """Some of the arms: the belief about them, and the race between them."""

    def __init__(
        self, names: Sequence[str], places: NDArray[np.intp] | None, family: Family
    ) -> None:
        """The arms at these places, None if it is all of them."""
        self.names, self.race = tuple(names), Race(family)
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
        self._evidence, self._exchange, self._honest = evidence, exchange, honest
        self._reading = None if reading is None or reading.pools else reading
        self._arms, self._revision = list(arms), -1
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
            revision, held = self._exchange.revision, self._exchange.evidence()
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
            self._revision, self._held = revision, held
        return self._belief

    def _here(self, reading: SiteReading) -> FloatArray:
        """The belief where sites differ: what others are worth here, and all of one's own."""
        others = reading.others
        if self._exchange.revision != self._revision or others is not self._others:
            revision, own = self._exchange.revision, self._exchange.own()
            held = self._exchange.evidence()
            belief = others.copy()
            for k, arm in enumerate(self._arms):
                if arm in own:
                    belief[:, k] += self._evidence.statistic(own[arm])
                self.closed[k] = self._evidence.closed_count(held[arm]) if arm in held else 0.0
            if not np.array_equal(belief, self._belief):
                belief.setflags(write=False)
                self._belief = belief
            self._revision, self._others = revision, others
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
