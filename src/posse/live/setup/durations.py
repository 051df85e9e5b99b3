"""Durations in settings: seconds, or a text such as "14 days"."""

from __future__ import annotations

from typing import Any

from posse import checks

SECONDS = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0}


def seconds(name: str, value: Any) -> float:
    """The seconds that a number, or a number with a unit, stands for."""
    if not isinstance(value, str):
        return float(checks.number(name, value, above=0))
    number, _, unit = value.strip().partition(" ")
    unit = unit.strip()
    try:
        amount = float(number)
    except ValueError:
        amount = -1.0
    one = unit.removesuffix("s")
    if not (amount > 0 and one in SECONDS and checks.is_finite(amount)):
        raise ValueError(
            f'{name} must be seconds, or a number and a unit such as "90 minutes", "12 hours" or '
            f'"14 days", got {checks.shown(value)}'
        )
    return amount * SECONDS[one]
