"""Records of the store: decisions, their rewards, and the errors about them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from posse.contexts import Features


class Conflict(ValueError):
    """A reward for a decision that is settled otherwise."""


class LateReward(Conflict):
    """A reward that came after the window of its decision had closed, by so many seconds."""

    def __init__(self, sentence: str, lateness: float = 0.0) -> None:
        super().__init__(sentence)
        self.lateness = lateness


class VoidReward(Conflict):
    """A reward for a decision that was open in a copy of the disk which was put back."""


class Unknown(ValueError):
    """A reward for a decision that the store does not hold."""


class RewardOutcome(Enum):
    """What a reward was: the first of its decision, or the same again."""

    NEW = "new"
    REPEATED = "repeated"


@dataclass(frozen=True)
class DecisionRecord:
    """A choice of an arm, and what became of it.

    `settled` is when its reward came, or its window closed (`silent`), perhaps without a reward;
    `closed` when its evidence became final. `assumed` is the reward that was counted for it from
    the start, None if none was; `made` the incarnation in which it was made (0: not known). `void`:
    closed without evidence, as another future of this agent may have counted it. `allowed` and
    `probabilities`, if known, are as `offers` writes them. `context` is what was known of the
    visitor, as JSON, and `log_odds` where what was assumed is linearised; `features`, which no file
    has, are those of the context.
    """

    id: str
    arm: str
    probability: float
    time: float
    reward: float | None = None
    settled: float | None = None
    silent: bool = False
    assumed: float | None = None
    closed: float | None = None
    made: int = 0
    void: bool = False
    allowed: str | None = None
    probabilities: bytes | None = None
    context: str | None = None
    log_odds: float | None = None
    features: Features | None = field(default=None, compare=False, repr=False)


def validate_text(name: str, value: Any) -> str:
    """Check a name that a file can hold."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} must be a text that is not empty, got {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} must be valid Unicode, got {value!r}") from None
    return value


def validate_number(name: str, value: Any) -> float:
    """Check a finite number, of any type that is one."""
    if type(value) is float and math.isfinite(value):
        return value
    try:
        checked = math.nan if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError):
        checked = math.nan
    if not math.isfinite(checked):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    return checked
