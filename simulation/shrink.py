"""Delta debugging: the shortest schedule that still fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from simulation.schedule import Plan, Step


def shrink_plan(plan: Plan, fails: Callable[[Plan], bool]) -> Plan:
    """Leave out steps, many at once and then one by one, as long as it fails."""
    steps = list(plan.steps)
    size = max(1, len(plan.steps) // 2)
    while True:
        n_before = len(steps)
        at = 0
        while at < len(steps):
            fewer: list[Step] = steps[:at] + steps[at + size :]
            if fails(replace(plan, steps=tuple(fewer))):
                steps = fewer
            else:
                at += size
        if size == 1 and len(steps) == n_before:
            return replace(plan, steps=tuple(steps))
        size = max(1, size // 2)
