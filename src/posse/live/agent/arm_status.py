"""Features of visitors, and the status of arms as reported.

Features are validated and averaged here, and a reward is linearised at the features of its visitor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from posse import validation
from posse.contexts import Contexts, Features
from posse.families import FARTHEST
from posse.live.agent.context_evidence import ExpansionPoint, GramSums
from posse.live.agent.evidence import Evidence
from posse.live.agent.posterior import Posteriors
from posse.live.agent.site_pooling import SitePooling
from posse.live.exchange import Exchange
from posse.live.ledger import Ledger
from posse.randomness import FloatArray
from posse.summary import Lift, estimate_lift, summarise


def make_schema(context: Contexts | Mapping[str, Any] | None) -> Contexts | None:
    """Return a schema of contexts, built from its table of fields if needed."""
    if context is None or isinstance(context, Contexts):
        return context
    return Contexts(context)


def encode_context(schema: Contexts | None, context: Mapping[str, Any] | None) -> Features | None:
    """Return the validated features of a context; None if there is no schema."""
    if schema is None:
        if context is not None:
            raise ValueError("context must be left out: this experiment has no context schema")
        return None
    if context is None:
        names = ", ".join(name for name, _ in schema)
        raise ValueError(f"context is missing: this experiment needs {names}")
    return schema.features(context)


def fill_features(schema: Contexts, context: Mapping[str, Any], average: FloatArray) -> FloatArray:
    """Return the features of these known fields, the others at their averages: (d,)."""
    x = average.copy()
    at = 1
    column_counts = {name: len(field.column_names(name)) + field.optional for name, field in schema}
    for name in context:
        if name not in column_counts:
            validation.validate_choice("context:", name, list(column_counts))
    for name, columns in column_counts.items():
        if name in context:
            field = Contexts({name: dict(schema)[name]})
            x[at : at + columns] = field.features({name: context[name]}).x[1:]
        at += columns
    return x


class Linearizer:
    """Finds the points at which rewards are linearised: by the belief of closed decisions.

    Open decisions count an assumed reward: with them a logistic model would be expanded far from
    its final estimate.
    """

    def __init__(
        self,
        evidence: Evidence,
        exchange: Exchange,
        arms: list[str],
        acted: Posteriors,
        closed: Posteriors,
    ) -> None:
        """acted: the posteriors that the agent acts on; closed: those of closed decisions."""
        self._evidence = evidence
        self._exchange = exchange
        self._arms = arms
        self._acted = acted
        self._closed = closed

    def __call__(self, arm: str, x: FloatArray | None) -> ExpansionPoint | None:
        """Return the expansion point of a reward of an arm now; None without features."""
        sums = self._evidence.sums
        if x is None or not isinstance(sums, GramSums):
            return None
        if not sums.family.anchored:
            return ExpansionPoint(x)
        row = self._exchange.evidence().get(arm, ())
        if arm not in self._arms:  # it was removed
            at = sums.belief_at(self._evidence.closed_part(row) if row else (), x)
        else:
            waits = bool(row) and self._evidence.open_count(row) > 0
            # equal where nothing waits, and those that are acted on are up to date
            beliefs = self._closed if waits else self._acted
            at = beliefs.belief_at(x[None], self._arms.index(arm))
        return ExpansionPoint(x, expansion_log_odds(at))


def expansion_log_odds(at: FloatArray) -> float:
    """Return the expansion point of a logistic model, from shift and precision: (2, 1, 1) -> ()."""
    return float(np.clip(at[0] / at[1], -FARTHEST, FARTHEST).item())


# Status of arms, as reported: what closed decisions say, and how many decisions are open.


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

    def estimate_lift(
        self, lock: AbstractContextManager[Any], first: str, second: str
    ) -> Lift | None:
        """Estimate the lift of one arm over another, by the belief that `summarize_arms` reports.

        lock: held while evidence is read.
        """
        pooling = self._pooling
        with lock:
            belief = self._belief_at(self._exchange.evidence(), {})
            table = None if pooling.pools_fully else pooling.build_table()
        if table is not None:
            belief = pooling.reported_belief(table)
        columns = [self._arms.index(first), self._arms.index(second)]
        return estimate_lift(self._evidence.at_mean, belief[:, columns])

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
