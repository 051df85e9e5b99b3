"""Records of the store: decisions with their rewards, and the errors about them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

from posse.contexts import Features

# inactive -> open -> closed, or cancelled; superseded: another copy of the agent's store has it
DecisionState = Literal["inactive", "open", "closed", "cancelled", "superseded"]
Transition = Literal["activate", "cancel"]  # what a client may do to a decision without a reward


class Conflict(ValueError):
    """A reward for a decision that is settled with another one."""


class LateReward(Conflict):
    """A reward that came `lateness` seconds after the reward window had closed."""

    def __init__(self, sentence: str, lateness: float = 0.0) -> None:
        super().__init__(sentence)
        self.lateness = lateness


class SupersededReward(Conflict):
    """A reward for a decision that another copy of this agent's store has."""


class Unknown(ValueError):
    """A request about a decision that the store does not have."""


def is_held_out(bucket: int) -> bool:
    """Whether a bucket of visitors is one of the holdout, and not of the bandit."""
    return bucket < 0


class RewardOutcome(Enum):
    """The outcome of a reward: the first of its decision, or a repetition."""

    NEW = "new"
    REPEATED = "repeated"


@dataclass(frozen=True)
class DecisionRecord:
    """A choice of an arm with its propensity, and its reward, which may be delayed.

    `settled` is the time of the reward, or of the closing of the window (`silent`), perhaps without
    a reward; `closed` the time from which the evidence is final. `assumed` is the reward counted
    from the start, None if none was; `incarnation` the process that decided (0: unknown).
    `superseded`: closed without evidence, as another copy of this agent's store has it. `inactive`:
    the arm was asked for and not shown yet, so that it is no evidence; if `closed`, it never was.
    `cancelled`: closed without evidence, because the arm was not shown after all. `allowed`
    and `probabilities`, if known, are as `ArmLists` and `pack_probabilities` write them. `context`
    is the visitor's, as JSON, and `log_odds` the point of linearisation of `assumed`; `visitor` is
    the visitor's id, if one was given; `uplift` is the bucket of visitors in which its reward is
    compared with a holdout, None if it is not; `metrics` its further numbers, as JSON. `features`,
    which are not stored, are those of the context.
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
    incarnation: int = 0
    superseded: bool = False
    inactive: bool = False
    cancelled: bool = False
    allowed: str | None = None
    probabilities: bytes | None = None
    context: str | None = None
    log_odds: float | None = None
    visitor: str | None = None
    uplift: int | None = None
    metrics: str | None = None
    features: Features | None = field(default=None, compare=False, repr=False)

    @property
    def holdout(self) -> bool | None:
        """Whether it is for a visitor of the holdout; None: it is on neither side of an uplift."""
        return None if self.uplift is None else is_held_out(self.uplift)

    @property
    def state(self) -> DecisionState:
        """Where it is in its life, as far as the row says."""
        if self.cancelled:
            return "cancelled"
        if self.superseded:
            return "superseded"
        if self.closed is not None:
            return "closed"
        return "inactive" if self.inactive else "open"


def copy_decision(decision: DecisionRecord, **changes: Any) -> DecisionRecord:
    """Return a copy with some fields changed, as `dataclasses.replace` in a sixth of the time."""
    # Every reward comes here. The fields are known to be valid, so nothing is called to set them.
    copy = object.__new__(DecisionRecord)
    copy.__dict__.update(decision.__dict__, **changes)
    return copy


def validate_text(name: str, value: Any) -> str:
    """Validate a text that a file can store."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} must be a non-empty text, got {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} must be valid Unicode, got {value!r}") from None
    return value


def validate_number(name: str, value: Any) -> float:
    """Validate a finite number of any numeric type."""
    if type(value) is float and math.isfinite(value):
        return value
    try:
        checked = math.nan if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError):
        checked = math.nan
    if not math.isfinite(checked):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    return checked
