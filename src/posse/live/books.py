"""Books that balance: decisions counted here beside the pulls in the evidence, an audit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Books:
    """Decisions that were counted here, and the pulls, open ones included, that evidence holds.

    counted: by a durable counter beside the evidence. own: the pulls in this agent's own entries,
    the same number unless evidence was lost or a disk was set back. network: those of all agents
    as held here; under flows an estimate of their sum.
    """

    counted: int
    own: float
    network: float
