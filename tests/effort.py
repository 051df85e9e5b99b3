"""How much of a family a test can afford: one that costs more is asked fewer times."""

from __future__ import annotations

from typing import Any

QUADRATURE = {"revenue": 500}  # nodes and steps behind one quantile


def limit_count(family: Any, wanted: int, budget: int = 1_000_000) -> int:
    """The number of beliefs to try: as many as wanted, within a budget of coordinates or nodes."""
    return min(wanted, budget // max(len(family.prior()), QUADRATURE.get(family.name, 1)))
