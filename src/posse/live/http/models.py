"""JSON bodies of requests, and answers that exist only over HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from posse.live.experiment.history import Kind

MAX_BATCH_ITEMS = 1000  # of one batch
EXAMPLE_ID = "7f3c9a51d2e84b06"

Probability = Annotated[float, Meta(description="with which the arm was chosen")]
Id = Annotated[str, Meta(min_length=1, max_length=200, description="the decision's id")]
# an id that fits into a path; made by the client it makes the request repeatable
ID_PATTERN = r"^[A-Za-z0-9_-][A-Za-z0-9._~:@=+-]{0,199}$"
NewId = Annotated[str, Meta(pattern=ID_PATTERN + r"(?!\n)")]  # `$` lets a last line break pass
Arm = Annotated[str, Meta(min_length=1, max_length=1000)]
Arms = Annotated[list[Arm], Meta(min_length=1, max_length=MAX_BATCH_ITEMS)]
# values are checked by the schema of the experiment, which names the field that is wrong
Context = Annotated[dict[str, Any], Meta(description="what is known of the visitor, by name")]


class MalformedBody(ValueError):
    """A body, or an item of a batch, that is not well formed."""


class DecisionRequest(Struct, forbid_unknown_fields=True):
    """Ask for a decision; with an id of one's own the same answer comes however often one asks."""

    decision: NewId | None = None
    allowed: Arms | None = None
    context: Context | None = None


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


# unions of shapes that msgspec writes but need not tell apart
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


class ArmAnswer(Struct):
    """What is known of one arm from pulls whose reward is final: a mean with a 95% interval.

    Open ones are those that count already, while their reward is not final: people should not
    look at it before their windows have closed. With a half-life all numbers of pulls are what
    they are worth now, so they need not be whole, and fall while nothing happens.
    """

    mean: float | None
    low: float | None
    high: float | None
    probability_best: float | None
    expected_loss: float | None
    pulls_here: float
    pulls_in_network: float
    open_here: float
    open_in_network: float
    network_mean: Annotated[float | None, Meta(description="of the average over sites")] = None
    network_low: float | None = None
    network_high: float | None = None
    sd_between_sites: float | None = None
    sites_differ: bool = False


class VerdictAnswer(Struct):
    """Whether the experiment may stop, of closed decisions, however often one looks.

    evidence: that the arm is the best, in nats, of what is needed for a winner. expected_loss: what
    settling for the arm gives up on average under the prior. Nothing stops by itself. A winner and
    "no-difference" stay, with the largest evidence so far, until the arms change; since: when that
    was first named, in Unix seconds.
    """

    verdict: Literal["winner", "no-difference", "good-enough", "keep-going"]
    arm: str | None
    evidence: float | None
    needed: float | None
    expected_loss: float | None
    sentence: str
    since: float | None


class NeighbourAnswer(Struct):
    """One neighbour."""

    identity: str | None
    active: bool
    last_heard: float | None
    lag: int | None
    connected: bool


class EndAnswer(Struct):
    """A link as one end of it says."""

    up: bool
    lag: float | None


class CountAnswer(Struct):
    """What an agent counted in an experiment, by its own word, and what of that is held here.

    counted: pulls in its own evidence, open ones included. late: rewards refused for it since its
    start. behind: counted, and not held here yet. null: not known, as under flows, of an experiment
    that is not run here, or of an agent without a status; behind also where evidence fades.
    """

    counted: int | None
    open: int | None
    late: int | None
    held: int | None
    behind: int | None


class AgentAnswer(Struct):
    """An agent of the network, as it is known here.

    state: here, this agent itself; up, connected or heard of within 120 seconds; down, a neighbour
    that is not connected, and of which nothing was heard by any path since it was lost; silent, no
    news for 120 seconds; known, only its evidence is. heard: when there were news of it, by this
    agent's clock; via: the neighbour that brought its status. lag: seconds that a message of a
    neighbour takes, of others those that their status took. The rest is what it says of itself.
    """

    state: Literal["here", "up", "down", "silent", "known"]
    heard: float | None
    lag: float | None
    via: str | None
    version: str | None
    started: float | None
    neighbours: dict[str, EndAnswer]
    refused: dict[str, int]
    experiments: dict[str, CountAnswer]


class LinkAnswer(Struct):
    """A link between two agents, each once; half: its ends disagree whether it is up."""

    a: str
    b: str
    state: Literal["up", "down", "half"]
    lag: float | None


class NetworkAnswer(Struct):
    """The neighbours, all agents and links that are known, and what was refused and why."""

    neighbours: dict[str, NeighbourAnswer]
    refused: dict[str, int]
    agents_known: int
    agents: dict[str, AgentAnswer]
    links: list[LinkAnswer]


class EvidenceAnswer(Struct):
    """Whole quanta by arm: what this agent saw itself, and what it holds of all."""

    own: dict[str, list[int]]
    held: dict[str, list[int]]


class BooksAnswer(Struct):
    """Decisions counted here, ever, beside the pulls, open ones included, in the evidence.

    counted and own, the pulls in this agent's own entries, are equal unless evidence was lost or a
    disk was set back. network: the pulls of all agents, as known here (flows: an estimate).
    """

    counted: int
    own: float
    network: float


class SeriesAnswer(Struct):
    """Cumulative, at the times of the history; null where the arm was not known.

    pulls: open ones included; closed: those of them whose reward is final; rewards: their sum.
    """

    pulls: list[float | None]
    closed: list[float | None]
    rewards: list[float | None]


class ArmHistoryAnswer(Struct):
    """Of one arm what was seen at this agent, and what it held of all."""

    here: SeriesAnswer
    network: SeriesAnswer


class EventAnswer(Struct):
    """Something that happened, in one sentence."""

    time: Annotated[float, Meta(description="in Unix seconds")]
    kind: Kind
    text: str


class HistoryAnswer(Struct):
    """What was known over time: a point every so many `seconds`, and last that of the last minute.

    Of many arms there are fewer points, so that an answer does not grow without end. Where nothing
    was kept, points are missing. expected_loss: what settling for the best arm at that time would
    have given up on average. fading: with a half-life numbers are not cumulative, but what evidence
    was worth at each time. events: within the same time, oldest first.
    """

    scale: Literal["day", "month", "year"]
    seconds: int
    times: Annotated[list[int], Meta(description="in Unix seconds, rising")]
    arms: dict[str, ArmHistoryAnswer]
    expected_loss: list[float | None]
    fading: bool
    events: list[EventAnswer]


class SitesAnswer(Struct):
    """How the evidence of other sites is read, and what it gained.

    read: "alike", "differ" or a number, as in agent.toml. alike: the probability that the means of
    all arms are the same at all sites; null where there is nothing to compare. differ: a sentence
    where there is little doubt that they are not. loss_alone: what settling for the best arm now
    would give up on average, by the closed decisions of this site alone; loss_shared: the same by
    those of all, as they are read here.
    """

    read: str
    alike: float | None
    differ: str | None
    loss_alone: float | None
    loss_shared: float | None


class SiteArmAnswer(Struct):
    """Closed decisions of one site for one arm, and their mean reward."""

    pulls: float
    mean: float | None


class SiteAnswer(Struct):
    """One site; what it holds of the leading arm is worth `gain` times its own decisions."""

    arms: dict[str, SiteArmAnswer]
    gain: float | None


class ApartAnswer(Struct):
    """Where a site differs from the others beyond chance."""

    site: str
    arm: str
    higher: bool
    elsewhere: float


class SiteMapAnswer(Struct):
    """Every site, this one first; why: the reason if nobody knows, as under flows."""

    sites: dict[str, SiteAnswer]
    apart: list[ApartAnswer]
    left_out: int
    why: str | None


class ContextAnswer(Struct):
    """What is known of visitors: the fields of agent.toml, and of the average one the features.

    unknown: how many decisions since the start had a category without a column, by field; clipped:
    a number outside its range.
    """

    fields: dict[str, Any]
    average: dict[str, float]
    unknown: dict[str, int]
    clipped: dict[str, int]


class ExperimentAnswer(Struct):
    """One experiment: its arms, how many decisions since the start, and what operators set.

    silence: when a decision counts: when its reward is "heard", from the start and corrected
    ("count"), or at the end of its window ("wait"). late_rewards were refused since the start as
    their windows had closed, the latest of them so many seconds before; void_rewards as a disk was
    set back. half_life: the seconds after which evidence is worth half; null: it does not fade.
    context: what decisions are told of visitors; null: nothing.
    """

    arms: list[str]
    decisions: int
    rewards: int
    open_decisions: int
    silence: str
    reward_window: float | None
    late_rewards: int
    longest_lateness: float
    void_rewards: int
    half_life: float | None
    pinned: str | None
    paused: list[str]
    sites: SitesAnswer
    context: ContextAnswer | None = None


class ExperimentsAnswer(Struct):
    """The experiments of this agent by name."""

    experiments: dict[str, ExperimentAnswer]


class RecordAnswer(Struct):
    """A record that pins or pauses arms."""

    version: int
    signer: str
    pinned: str | None
    paused: list[str]


class ControlsAnswer(Struct):
    """What is pinned and paused here, and whose records that comes from."""

    pinned: str | None
    paused: list[str]
    unknown: Annotated[list[str], Meta(description="named, but no arms here")]
    operator: Annotated[bool, Meta(description="whether orders here hold in the whole network")]
    network: RecordAnswer | None
    here: RecordAnswer | None


class ReloadAnswer(Struct):
    """What changed, in one sentence."""

    changed: str


class CallerAnswer(Struct):
    """What who asks may do: see numbers, give orders; and the experiments that it may see."""

    admitted: bool
    operator: bool
    experiments: list[str]


class PageAnswer(Struct):
    """What the page shows: the time of the agent, and its sections by name.

    Each is as the route of its name answers (arms, controls, verdict, books, sites, network), or of
    the page's own: agent, experiment, past.
    """

    now: float
    sections: dict[str, Any]


class StatusAnswer(Struct):
    """How it is."""

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
