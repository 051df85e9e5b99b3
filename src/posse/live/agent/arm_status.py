"""Status of arms, as reported: what closed decisions say, and how many decisions are open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from posse.live.agent.context_evidence import GramSums
from posse.live.agent.evidence import Evidence
from posse.live.agent.posterior import Posteriors
from posse.live.agent.site_pooling import SitePooling
from posse.live.agent.visitor_features import fill_features
from posse.live.exchange import Exchange
from posse.live.exchange.ledger import Ledger
from posse.randomness import FloatArray
from posse.summary import summarise


@dataclass(frozen=True)
class ArmStatus:
    """Summary of an arm from closed decisions, with honest intervals, and its open decisions."""

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


class ArmSummaries:
    """Summarizes the belief about some arms, once for each revision of the evidence."""

    def __init__(
        self,
        evidence: Evidence,
        exchange: Exchange,
        arms: Sequence[str],
        pooling: SitePooling,
        belief: Posteriors,
    ) -> None:
        """pooling: how evidence of other sites is read; belief: posteriors of closed decisions."""
        self._evidence = evidence
        self._exchange = exchange
        self._arms = arms
        self._pooling = pooling
        self._belief = belief
        self._last: tuple[int, dict[str, ArmStatus]] = (-1, {})  # of a revision of the evidence

    def summarize_arms(
        self, lock: AbstractContextManager[Any], context: Mapping[str, Any] | None = None
    ) -> dict[str, ArmStatus]:
        """Summarize every arm; the lock is held only while evidence is read.

        context: the known fields of a visitor; the others are at their averages.
        """
        with lock:
            revision = self._exchange.revision
            if self._last[0] == revision and not context:
                return dict(self._last[1])
            ledger = self._exchange.evidence()
            own_ledger = self._exchange.own()
            belief = self._belief_at(ledger, context or {})
            table = self._pooling.build_table() if self._pooling.can_compare else None
        columns: Sequence[Mapping[str, Any]] = [{}] * len(self._arms)
        if table is not None:
            belief = belief if self._pooling.pools_fully else self._pooling.reported_belief(table)
            columns = self._pooling.describe_arms(table)
        status = self._build_statuses(belief, ledger, own_ledger, columns)
        if not context:
            with lock:
                self._last = revision, status
        return dict(status)

    def average_features(self, ledger: Ledger) -> FloatArray:
        """Return the average features of closed decisions in the network, (d,)."""
        sums = self._evidence.sums
        assert isinstance(sums, GramSums)
        return sums.average_features(map(self._evidence.closed_part, ledger.values()))

    def _belief_at(self, ledger: Ledger, context: Mapping[str, Any]) -> FloatArray:
        """Return the belief about the means, (D, K): of all visitors, or of those at a context."""
        sums = self._evidence.sums
        if not isinstance(sums, GramSums):
            return self._belief.current
        x = fill_features(sums.context, context, self.average_features(ledger))
        return self._belief.belief_at(x[None])[:, 0]

    def _build_statuses(
        self,
        belief: FloatArray,
        ledger: Ledger,
        own_ledger: Ledger,
        columns: Sequence[Mapping[str, Any]],  # of other sites
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
                pulls_here=evidence.count_pulls(
                    evidence.closed_part(own_ledger.get(name, nothing))
                ),
                pulls_in_network=evidence.count_pulls(
                    evidence.closed_part(ledger.get(name, nothing))
                ),
                open_here=evidence.open_count(own_ledger.get(name, nothing)),
                open_in_network=evidence.open_count(ledger.get(name, nothing)),
                **columns[k],
            )
            for k, name in enumerate(self._arms)
        }
