"""What the HTTP interface takes and gives, and the sentences about what it does not take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

ITEMS = 1000  # of one batch
ID = "7f3c9a51d2e84b06"

Probability = Annotated[float, Field(description="with which the arm was chosen")]
Id = Annotated[str, Field(min_length=1, max_length=200, description="the decision's id")]
# an id that fits into a path; made by the client it makes the request repeatable
NewId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._~:@=+-]{0,199}$")]
Arm = Annotated[str, Field(min_length=1, max_length=1000)]
Number = Annotated[float, Field(allow_inf_nan=False)]


class Refused(ValueError):
    """An item of a batch that is not well formed."""


def _each(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """One bad item must not spoil the batch: its error takes its place."""
    try:
        return handler(value)
    except ValidationError as error:
        return Refused(sentence(error.errors()))


def _examples(*examples: Any) -> ConfigDict:
    """What /openapi.json shows."""
    return ConfigDict(json_schema_extra={"examples": list(examples)})


class _Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class DecisionRequest(_Body):
    """Ask for a decision; with an id of one's own the same answer comes however often one asks."""

    model_config = _examples({}, {"decision": ID, "allowed": ["red", "green"]})
    decision: NewId | None = None
    allowed: Annotated[list[Arm], Field(min_length=1, max_length=ITEMS)] | None = None


class RewardRequest(_Body):
    """Say how a decision went."""

    model_config = _examples({"reward": 1.0})
    reward: Number


class RewardItem(_Body):
    """The reward of one decision of many."""

    decision: Id
    reward: Number


class DecisionsRequest(_Body):
    """Ask for many decisions."""

    model_config = _examples({"decisions": [{}, {"allowed": ["red", "green"]}]})
    decisions: Annotated[
        list[Annotated[DecisionRequest, WrapValidator(_each)]], Field(max_length=ITEMS)
    ]


class RewardsRequest(_Body):
    """Say how many decisions went."""

    model_config = _examples({"rewards": [{"decision": ID, "reward": 1.0}]})
    rewards: Annotated[list[Annotated[RewardItem, WrapValidator(_each)]], Field(max_length=ITEMS)]


class DecisionAnswer(BaseModel):
    """An arm to play."""

    model_config = _examples({"decision": ID, "arm": "red", "probability": 0.62})
    decision: Id
    arm: Arm
    probability: Probability


class RewardAnswer(BaseModel):
    """A reward that is on disk."""

    model_config = _examples({"decision": ID, "reward": 1.0, "repeated": False})
    decision: Id
    reward: float
    repeated: Annotated[bool, Field(description="whether it was there before")]


class Error(BaseModel):
    """What is wrong, in one sentence."""

    model_config = _examples({"error": "there is no decision 'x': check the id"})
    error: str


class ItemError(Error):
    """What is wrong with one item, and the status that it would have got alone."""

    status: int


class DecisionsAnswer(BaseModel):
    """An answer or an error for each, in the same order."""

    decisions: list[DecisionAnswer | ItemError]


class RewardsAnswer(BaseModel):
    """An answer or an error for each, in the same order."""

    rewards: list[RewardAnswer | ItemError]


class ArmAnswer(BaseModel):
    """What is known of one arm: its mean with a 95% interval, and on how many pulls."""

    mean: float | None
    low: float | None
    high: float | None
    probability_best: float | None
    expected_loss: float | None
    pulls_here: float
    pulls_in_network: float


class NeighbourAnswer(BaseModel):
    """One neighbour."""

    identity: str | None
    active: bool
    last_heard: float | None
    lag: int | None
    connected: bool


class NetworkAnswer(BaseModel):
    """The neighbours, and what was refused and why."""

    neighbours: dict[str, NeighbourAnswer]
    refused: dict[str, int]
    agents_known: int


class EvidenceAnswer(BaseModel):
    """Whole quanta by arm: what this agent saw itself, and what it holds of all."""

    own: dict[str, list[int]]
    held: dict[str, list[int]]


def sentence(errors: Sequence[Any]) -> str:
    """The first of pydantic's errors, in one sentence that names the field."""
    first = errors[0]
    path = [str(part)[:50] for part in first["loc"] if part != "body"]
    field, kind = ".".join(path) or "the body", first["type"]
    if kind == "json_invalid":
        return "the body must be JSON"
    if kind == "missing":
        return f"{field} is missing"
    if kind == "extra_forbidden":
        return f"{field} is no field here: leave it out"
    if kind == "string_pattern_mismatch":
        return (
            f"{field} must be 1 to 200 letters, digits or ._~:@=+- and begin with a letter, a "
            "digit, _ or -"
        )
    if kind in ("model_attributes_type", "model_type", "dict_type"):
        return f"{field} must be a JSON object"
    message = str(first["msg"])
    for start in ("Input should", "List should", "String should"):
        message = message.replace(start, "must", 1)
    return f"{field} {message}"
