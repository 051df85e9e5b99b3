"""Features of visitors: validated, averaged, and where their rewards are linearised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from posse import validation
from posse.contexts import Contexts, Features
from posse.families import FARTHEST
from posse.live.agent.context_evidence import ExpansionPoint, GramSums
from posse.live.agent.evidence import Evidence
from posse.live.agent.posterior import Posteriors
from posse.live.exchange import Exchange
from posse.randomness import FloatArray


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
