"""JSON bodies of requests, and answers that exist only over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from posse.live.agent import MetricStatus
from posse.live.controls import LONGEST_NAME, LONGEST_REASON, ONE_LINE
from posse.live.experiment import MAX_BATCH_ITEMS, Arm, Context, DecisionRequest, Visitor
from posse.live.store import DecisionState, Event

EXAMPLE_ID = "7f3c9a51d2e84b06"
MAX_METRICS = 100  # in one request

Probability = Annotated[float, Meta(description="with which the arm was chosen")]
State = Annotated[DecisionState, Meta(description="where the decision is in its life")]
NOTE = f"^{ONE_LINE}$"
Person = Annotated[
    str, Meta(max_length=LONGEST_NAME, pattern=NOTE, description="who gives the command")
]
Reason = Annotated[str, Meta(max_length=LONGEST_REASON, pattern=NOTE, description="why")]
AgentName = Annotated[str, Meta(min_length=1, max_length=200, description="an agent's name")]
Id = Annotated[str, Meta(min_length=1, max_length=200, description="the decision's id")]


MetricValues = Annotated[
    dict[str, float], Meta(max_length=MAX_METRICS, description="values by the metric's name")
]


class MalformedBody(ValueError):
    """A body, or an item of a batch, that is not well formed."""


class RewardRequest(Struct, forbid_unknown_fields=True):
    """The reward of a decision, and perhaps metrics of it."""

    reward: float
    metrics: MetricValues | None = None


class RewardItem(Struct, forbid_unknown_fields=True):
    """The reward of one decision of many, and perhaps metrics of it."""

    decision: Id
    reward: float
    metrics: MetricValues | None = None


class MetricsRequest(Struct, forbid_unknown_fields=True):
    """Metrics of a decision, without its reward."""

    metrics: MetricValues


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
    """The name of an arm; by and reason: who gives the command, and why, for the log of events."""

    arm: Arm
    by: Person = ""
    reason: Reason = ""


class ResumeRequest(Struct, forbid_unknown_fields=True):
    """A paused or pinned arm, or none: then all arms are played again."""

    arm: Arm | None = None
    by: Person = ""
    reason: Reason = ""


class ForgetRequest(Struct, forbid_unknown_fields=True):
    """The name of an agent that left."""

    agent: AgentName
    by: Person = ""
    reason: Reason = ""


class EventsAnswer(Struct):
    """The newest events of an experiment, oldest first; times are in Unix seconds."""

    events: list[Event]


class ErasureRequest(Struct, forbid_unknown_fields=True):
    """The visitor whose decisions are to be deleted, or one decision; by and reason: for events."""

    visitor: Visitor | None = None
    decision: Id | None = None
    by: Person = ""
    reason: Reason = ""


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


class TransitionAnswer(Struct):
    """A decision that was activated or cancelled, and its state now."""

    decision: Id
    state: State
    repeated: Annotated[bool, Meta(description="whether it was so before")]


class DecisionStatusAnswer(Struct):
    """A decision: its arm and propensity, state, times in Unix seconds, visitor and reward.

    state: "inactive" until it is activated or has a reward, "open" until its reward is final,
    then "closed"; "cancelled"; "superseded" if another copy of this agent's store has it. reward:
    also the default reward after the reward window; null if there is none. rewarded: when the
    reward arrived; null if none did. closed: when it became final; null while it can change.
    holdout: whether it is for a visitor of the holdout; null if it is on neither side.
    """

    decision: Id
    arm: Arm
    probability: Probability
    state: State
    time: float
    reward: float | None
    rewarded: float | None
    closed: float | None
    context: dict[str, Any] | None
    visitor: str | None
    holdout: bool | None
    metrics: dict[str, float] | None


class MetricsAnswer(Struct):
    """Metrics that are on disk."""

    decision: Id
    metrics: dict[str, float]
    repeated: Annotated[bool, Meta(description="whether all were there before")]


class GuardrailsAnswer(Struct):
    """Every metric of every arm."""

    metrics: list[MetricStatus]


class ErasureAnswer(Struct):
    """How many decisions were deleted from the store.

    log_emptied: whether no byte of them is left in the store and its log; false if another program
    was reading the store (such as an export): the agent removes the rest when that has ended.
    """

    erased: int
    log_emptied: bool


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

    silence: when a decision counts: with its reward ("reported"), from the start and corrected
    ("count"), or at the end of its reward window ("wait"). late_rewards were refused since the
    start as their windows had closed, the latest by `longest_lateness` seconds;
    superseded_rewards as the store was restored from a copy. half_life: seconds after which
    evidence is worth half; null: it does not fade. context: the context of visitors; null: none.
    """

    arms: list[str]
    decisions: int
    rewards: int
    open_decisions: int
    inactive_decisions: int
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

    Each is as the route of its name answers (arms, controls, verdict, uplift, guardrails, audit,
    sites, network), or of the page's own: agent, experiment, lift (of the leader over the next
    arm), start, past.
    """

    now: float
    sections: dict[str, Any]


class StatusAnswer(Struct):
    """The state of the process or of the store."""

    status: str


EXAMPLES: dict[str, list[Any]] = {  # what /openapi.json shows
    "DecisionRequest": [
        {},
        {"decision": EXAMPLE_ID, "allowed": ["red", "green"]},
        {"visitor": "u-17"},
    ],
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
    "ArmRequest": [{"arm": "red"}, {"arm": "red", "by": "Ada", "reason": "broken on phones"}],
    "ForgetRequest": [{"agent": "paris", "by": "Ada", "reason": "the shop was closed"}],
    "ResumeRequest": [{}, {"arm": "red"}],
    "DecisionAnswer": [{"decision": EXAMPLE_ID, "arm": "red", "probability": 0.62}],
    "RewardAnswer": [{"decision": EXAMPLE_ID, "reward": 1.0, "repeated": False}],
    "MetricsRequest": [{"metrics": {"latency": 212}}],
    "MetricsAnswer": [{"decision": EXAMPLE_ID, "metrics": {"latency": 212.0}, "repeated": False}],
    "TransitionAnswer": [{"decision": EXAMPLE_ID, "state": "open", "repeated": False}],
    "Error": [{"error": "there is no decision 'x': check the id"}],
    "ItemError": [{"error": "there is no decision 'x': check the id", "status": 404}],
}
