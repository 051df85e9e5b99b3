"""Verdicts of a live agent: when an experiment may stop, and what is said of it."""

from __future__ import annotations

from dataclasses import dataclass

from posse import checks


@dataclass(frozen=True)
class Stop:
    """When people want to stop: how often a winner may be wrong, and what difference is none.

    error: the share of such experiments in which a false winner may be named, however often one
    looks. tolerance: a difference of means that does not matter; None: every one does.
    """

    error: float = 0.05
    tolerance: float | None = None

    def __post_init__(self) -> None:
        checks.number("stop: error", self.error, above=0, below=1)
        if self.tolerance is not None:
            checks.number("stop: tolerance", self.tolerance, above=0)
