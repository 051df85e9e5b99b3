"""Validation of flow messages: refuses what no honest neighbour sends; plausible lies pass."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from posse.live.exchange.bounds import Bounds
from posse.live.exchange.evidence_sums import (
    LARGEST_SUM,
    MOST_ARMS,
    PER_UNIT,
    is_ledger,
    is_list,
    is_name,
    is_whole,
)
from posse.live.exchange.flow_records import MOST_KNOWN
from posse.live.exchange.messages import FlowsMessage

MOST_EDGES = 10_000


@dataclass(frozen=True)
class FlowChecks:
    """Checks of one message by itself.

    A bound on the size of a step is not among them: a step that was lost is sent again with a later
    level, from which its size no longer follows, and an honest edge would be refused for ever.
    """

    fingerprint: str
    bounds: Bounds
    most_pulls: int  # of the whole network, ever

    def find_problem(self, message: FlowsMessage) -> str | None:
        """Return why a message cannot be used; never raises."""
        if message.fingerprint != self.fingerprint:
            return "fingerprint_mismatch"
        if not self._has_shape(message):
            return "malformed"
        if not (self.is_possible(message.flow) and self.is_possible(message.level)):
            return "evidence_exceeds_network"
        return None

    def _has_shape(self, message: FlowsMessage) -> bool:
        numbers = (
            *(message.boot, message.echo, message.heard),
            *(message.seq, message.version, message.epoch),
        )
        return (
            is_name(message.src)
            and all(is_whole(number) for number in numbers)
            and message.boot > 0
            and is_whole(message.degree, MOST_EDGES)
            and message.degree > 0
            and isinstance(message.settled, bool)
            and isinstance(message.active, bool)
            and is_ledger(message.flow, self.bounds.dimension)
            and is_ledger(message.level, self.bounds.dimension)
            and is_list(message.known, MOST_KNOWN, is_name)
        )

    def is_possible(self, ledger: Mapping[str, Sequence[int]], margin: int = 1) -> bool:
        """Whether the network can have so many times this evidence, of so many arms."""
        most = [largest // margin for largest in self._largest]
        return len(ledger) <= MOST_ARMS and all(
            all(map(operator.le, map(abs, values), most)) for values in ledger.values()
        )

    @cached_property
    def _largest(self) -> tuple[int, ...]:
        return tuple(
            min(LARGEST_SUM, math.ceil(bound * self.most_pulls) * PER_UNIT)
            for bound in self.bounds.per_pull
        )
