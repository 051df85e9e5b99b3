"""What people are shown of every arm: what closed decisions say of it, and how many are open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from posse.live.agent.context_evidence import Moments
from posse.live.agent.evidence import Evidence
from posse.live.agent.posterior import Beliefs
from posse.live.agent.site_pooling import SiteReading
from posse.live.agent.visitor_features import placed
from posse.live.exchange import Exchange
from posse.live.exchange.ledger import Ledger
from posse.randomness import FloatArray
from posse.summary import summarise


@dataclass(frozen=True)
class ArmStatus:
    """What closed decisions say of an arm, in numbers that can be believed, and what is open."""

    mean: float
    low: float  # 95% interval of the mean
    high: float
    probability_best: float
    expected_loss: float
    pulls_here: float  # closed ones
    pulls_in_network: float
    open_here: float = 0.0  # made, and their reward not final yet
    open_in_network: float = 0.0
    network_mean: float | None = None  # the average over sites; None: there are no others, or flows
    network_low: float | None = None
    network_high: float | None = None
    sd_between_sites: float | None = None
    sites_differ: bool = False  # whether there is little doubt that they do


class Showing:
    """Sums up the belief about some arms, once for each state of the evidence."""

    def __init__(
        self,
        evidence: Evidence,
        exchange: Exchange,
        arms: Sequence[str],
        reading: SiteReading,
        belief: Beliefs,
    ) -> None:
        """reading: how the evidence of other sites is read; belief: what closed decisions say."""
        self._evidence = evidence
        self._exchange = exchange
        self._arms = arms
        self._reading = reading
        self._belief = belief
        self._last: tuple[int, dict[str, ArmStatus]] = (-1, {})  # of a revision of the evidence

    def arms(
        self, lock: AbstractContextManager[Any], context: Mapping[str, Any] | None = None
    ) -> dict[str, ArmStatus]:
        """Every arm; the lock is held while the evidence is read, and not while it is summed up.

        context: what is known of a visitor; of the rest, or without one, the average is taken.
        """
        with lock:
            revision = self._exchange.revision
            if self._last[0] == revision and not context:
                return dict(self._last[1])
            held = self._exchange.evidence()
            own = self._exchange.own()
            belief = self._read(held, context or {})
            table = self._reading.table() if self._reading.able else None
        facts: Sequence[Mapping[str, Any]] = [{}] * len(self._arms)
        if table is not None:
            belief = belief if self._reading.pools else self._reading.shown(table)
            facts = self._reading.facts(table)
        status = self._summary(belief, held, own, facts)
        if not context:
            with lock:
                self._last = revision, status
        return dict(status)

    def average(self, held: Ledger) -> FloatArray:
        """The average features of closed decisions in the network, (d,)."""
        sums = self._evidence.sums
        assert isinstance(sums, Moments)
        return sums.average(map(self._evidence.closed_part, held.values()))

    def _read(self, held: Ledger, context: Mapping[str, Any]) -> FloatArray:
        """The belief about the means, (D, K): of all visitors, or of those at a context."""
        sums = self._evidence.sums
        if not isinstance(sums, Moments):
            return self._belief.now
        x = placed(sums.context, context, self.average(held))
        return self._belief.at(x[None])[:, 0]

    def _summary(
        self,
        belief: FloatArray,
        held: Ledger,
        own: Ledger,
        facts: Sequence[Mapping[str, Any]],  # of other sites
    ) -> dict[str, ArmStatus]:
        evidence = self._evidence
        summary = summarise(evidence.at_mean, belief)
        nothing = (0,) * len(evidence.bounds)
        return {
            name: ArmStatus(
                mean=float(summary.mean[k]),
                low=float(summary.low[k]),
                high=float(summary.high[k]),
                probability_best=float(summary.probability_best[k]),
                expected_loss=float(summary.expected_loss[k]),
                pulls_here=evidence.count(evidence.closed_part(own.get(name, nothing))),
                pulls_in_network=evidence.count(evidence.closed_part(held.get(name, nothing))),
                open_here=evidence.open_count(own.get(name, nothing)),
                open_in_network=evidence.open_count(held.get(name, nothing)),
                **facts[k],
            )
            for k, name in enumerate(self._arms)
        }
