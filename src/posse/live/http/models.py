"""JSON bodies of requests, and answers that exist only over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from posse.live.experiment import MAX_BATCH_ITEMS, Arm, Context, DecisionRequest

EXAMPLE_ID = "7f3c9a51d2e84b06"

Probability = Annotated[float, Meta(description="with which the arm was chosen")]
Id = Annotated[str, Meta(min_length=1, max_length=200, description="the decision's id")]


class MalformedBody(ValueError):
    """A body, or an item of a batch, that is not well formed."""


class RewardRequest(Struct, forbid_unknown_fields=True):
    """The reward of a decision."""

    reward: float


class RewardItem(Struct, forbid_unknown_fields=True):
    """The reward of one decision of many."""

    decision: Id
    reward: float


class DecisionsRequest(Struct, forbid_unknown_fields=True):
    """Many requests for a decision."""

    decisions: Annotated[list[DecisionRequest], Meta(max_length=MAX_BATCH_ITEMS)]


class RewardsRequest(Struct, forbid_unknown_fields=True):
    """Many rewards."""

    rewards: Annotated[list[RewardItem], Meta(max_length=MAX_BATCH_ITEMS)]


class StepsRequest(Struct, forbid_unknown_fields=True):
    """Rewards, and a request for the next decision or a list of them, in one commit."""

    rewards: Annotated[list[RewardItem], Meta(max_length=MAX_BATCH_ITEMS)] = []
    decide: (
        DecisionRequest | Annotated[list[DecisionRequest], Meta(max_length=MAX_BATCH_ITEMS)] | None
    ) = None


class ArmsRequest(Struct, forbid_unknown_fields=True):
    """The context of the visitors in question; missing fields are as on average."""

    context: Context


class ArmRequest(Struct, forbid_unknown_fields=True):
    """The name of an arm."""

    arm: Arm


class ResumeRequest(Struct, forbid_unknown_fields=True):
    """A paused or pinned arm, or none: then all arms are played again."""

    arm: Arm | None = None


class EmptyRequest(Struct, forbid_unknown_fields=True):
    """An empty object."""


class DecisionAnswer(Struct):
    """An arm to play."""

    decision: Id
    arm: Arm
    probability: Probability


class RewardAnswer(Struct):
    """A reward that is on disk."""

    decision: Id
    reward: float
    repeated: Annotated[bool, Meta(description="whether it was there before")]


class Error(Struct):
    """What is wrong, in one sentence."""

    error: str


class ItemError(Struct):
    """What is wrong with one item, and the status that it would have got alone."""

    error: str
    status: int


# unions of types that msgspec encodes but cannot decode, as they have no tag
DecisionItem = Any
RewardItemAnswer = Any


class DecisionsAnswer(Struct):
    """An answer or an error for each, in the same order."""

    decisions: list[DecisionItem]


class RewardsAnswer(Struct):
    """An answer or an error for each, in the same order."""

    rewards: list[RewardItemAnswer]


class StepsAnswer(Struct):
    """An answer or an error for each reward, and the decision (or the list) that was asked for."""

    rewards: list[RewardItemAnswer]
    decision: DecisionItem | UnsetType = UNSET
    decisions: list[DecisionItem] | UnsetType = UNSET


class SitesAnswer(Struct):
    """How the evidence of other sites is read, and what it gained.

    read: "alike", "differ" or a number, as in agent.toml. alike: the probability that the means of
    all arms are the same at all sites (no heterogeneity); null where there is nothing to compare.
    differ: a sentence where there is little doubt that they are not. loss_alone: the expected loss
    of choosing the best arm now, by the closed decisions of this site alone; loss_shared: the same
    by those of all sites, as they are read here.
    """

    read: str
    alike: float | None
    differ: str | None
    loss_alone: float | None
    loss_shared: float | None


class ContextAnswer(Struct):
    """The context of visitors: its fields in agent.toml, and the features of the average visitor.

    unknown: how many decisions since the start had a category without a column, by field; clipped:
    a number outside its range.
    """

    fields: dict[str, Any]
    average: dict[str, float]
    unknown: dict[str, int]
    clipped: dict[str, int]


class ExperimentAnswer(Struct):
    """One experiment: its arms, its counts since the start, and its controls.

    silence: when a decision counts: with its reward ("heard"), from the start and corrected
    ("count"), or at the end of its reward window ("wait"). late_rewards were refused since the
    start as their windows had closed, the latest by `longest_lateness` seconds;
    superseded_rewards as the store was restored from a copy. half_life: seconds after which
    evidence is worth half; null: it does not fade. context: the context of visitors; null: none.
    """

    arms: list[str]
    decisions: int
    rewards: int
    open_decisions: int
    silence: str
    reward_window: float | None
    late_rewards: int
    longest_lateness: float
    superseded_rewards: int
    half_life: float | None
    pinned: str | None
    paused: list[str]
    sites: SitesAnswer
    context: ContextAnswer | None = None


class ExperimentsAnswer(Struct):
    """The experiments of this agent by name."""

    experiments: dict[str, ExperimentAnswer]


class ReloadAnswer(Struct):
    """What changed, in one sentence."""

    changed: str


class CallerAnswer(Struct):
    """What the caller may do: read, give commands; whether its token is known; its experiments."""

    admitted: bool
    operator: bool
    known_token: bool
    experiments: list[str]


class PageAnswer(Struct):
    """The content of the page: the time of the agent, and its sections by name.

    Each is as the route of its name answers (arms, controls, verdict, audit, sites, network), or of
    the page's own: agent, experiment, past.
    """

    now: float
    sections: dict[str, Any]


class StatusAnswer(Struct):
    """The state of the process or of the store."""

    status: str


EXAMPLES: dict[str, list[Any]] = {  # what /openapi.json shows
    "DecisionRequest": [{}, {"decision": EXAMPLE_ID, "allowed": ["red", "green"]}],
    "ArmsRequest": [{"context": {"country": "de"}}],
    "RewardRequest": [{"reward": 1.0}],
    "DecisionsRequest": [{"decisions": [{}, {"allowed": ["red", "green"]}]}],
    "RewardsRequest": [{"rewards": [{"decision": EXAMPLE_ID, "reward": 1.0}]}],
    "StepsRequest": [
        {"rewards": [{"decision": EXAMPLE_ID, "reward": 1.0}], "decide": {}},
        {
            "rewards": [{"decision": EXAMPLE_ID, "reward": 1.0}],
            "decide": [{}, {"allowed": ["red"]}],
        },
    ],
    "ArmRequest": [{"arm": "red"}],
    "ResumeRequest": [{}, {"arm": "red"}],
    "DecisionAnswer": [{"decision": EXAMPLE_ID, "arm": "red", "probability": 0.62}],
    "RewardAnswer": [{"decision": EXAMPLE_ID, "reward": 1.0, "repeated": False}],
    "Error": [{"error": "there is no decision 'x': check the id"}],
    "ItemError": [{"error": "there is no decision 'x': check the id", "status": 404}],
}
