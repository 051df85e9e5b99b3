"""What is known of visitors, as features: checked, averaged, and where their rewards are met."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from posse import validation
from posse.contexts import Contexts, Features
from posse.families.logistic import FARTHEST
from posse.live.agent.context_evidence import Met, Moments
from posse.live.agent.evidence import Evidence
from posse.live.agent.posterior import Beliefs
from posse.live.exchange import Exchange
from posse.randomness import FloatArray


def schema_of(context: Contexts | Mapping[str, Any] | None) -> Contexts | None:
    """A schema of contexts, from its table of fields perhaps."""
    if context is None or isinstance(context, Contexts):
        return context
    return Contexts(context)


def features_of(schema: Contexts | None, context: Mapping[str, Any] | None) -> Features | None:
    """A context as features, checked; None where there is no schema, and must be none."""
    if schema is None:
        if context is not None:
            raise ValueError("context is not known here: this experiment has no schema of it")
        return None
    if context is None:
        names = ", ".join(name for name, _ in schema)
        raise ValueError(f"context is missing: this experiment is told {names}")
    return schema.features(context)


def placed(schema: Contexts, context: Mapping[str, Any], average: FloatArray) -> FloatArray:
    """The features of visitors of whom only this is known, else the average: (d,) -> (d,)."""
    x = average.copy()
    at = 1
    known = {name: len(field.column_names(name)) + field.optional for name, field in schema}
    for name in context:
        if name not in known:
            validation.validate_choice("context:", name, list(known))
    for name, columns in known.items():
        if name in context:
            field = Contexts({name: dict(schema)[name]})
            x[at : at + columns] = field.features({name: context[name]}).x[1:]
        at += columns
    return x


class Meeting:
    """Where rewards of arms are counted: at features, linearised by closed decisions.

    Open ones stand for the reward that silence means: by them a logistic model would be expanded
    far from where it will be.
    """

    def __init__(
        self,
        evidence: Evidence,
        exchange: Exchange,
        arms: list[str],
        acted: Beliefs,
        closed: Beliefs,
    ) -> None:
        """acted: what the agent acts on; closed: what closed decisions say."""
        self._evidence = evidence
        self._exchange = exchange
        self._arms = arms
        self._acted = acted
        self._closed = closed

    def __call__(self, arm: str, x: FloatArray | None) -> Met | None:
        """Where a reward of an arm is counted now; None without features."""
        sums = self._evidence.sums
        if x is None or not isinstance(sums, Moments):
            return None
        if not sums.family.anchored:
            return Met(x)
        row = self._exchange.evidence().get(arm, ())
        if arm not in self._arms:  # any more
            at = sums.at(self._evidence.closed_part(row) if row else (), x)
        else:
            waits = bool(row) and self._evidence.open_count(row) > 0
            # equal where nothing waits, and those that are acted on are up to date
            beliefs = self._closed if waits else self._acted
            at = beliefs.at(x[None], self._arms.index(arm))
        return Met(x, log_odds_of(at))


def log_odds_of(at: FloatArray) -> float:
    """Where a logistic model is expanded, by shift and precision of the log-odds: (2, 1, 1) ->."""
    return float(np.clip(at[0] / at[1], -FARTHEST, FARTHEST).item())
