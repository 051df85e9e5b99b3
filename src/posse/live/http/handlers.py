"""The routes for operators: pin, pause, resume, reload."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import UNSET

from posse.live.experiment.experiment import Experiment, Wish
from posse.live.http.health import traffic_of
from posse.live.http.metrics import CONTENT_TYPE
from posse.live.http.metrics import metrics as numbers
from posse.live.http.models import (
    ArmRequest,
    ArmsRequest,
    ContextAnswer,
    DecisionRequest,
    DecisionsAnswer,
    DecisionsRequest,
    ExperimentAnswer,
    ExperimentsAnswer,
    Nothing,
    ReloadAnswer,
    ResumeRequest,
    RewardItem,
    RewardRequest,
    RewardsAnswer,
    RewardsRequest,
    SitesAnswer,
    StatusAnswer,
    StepsAnswer,
    StepsRequest,
)
from posse.live.http.request_batches import Given, Question, Turns
from posse.live.http.responses import Answer, Refusal, decided, rewarded
from posse.live.node import Node
from posse.live.store import Unknown

NO_RELOAD = "this agent was not started from a file, and cannot read it anew"


def pin(experiment: Experiment, body: ArmRequest) -> Any:
    """Play this arm only."""
    experiment.pin(body.arm)
    return experiment.controlled()


def pause(experiment: Experiment, body: ArmRequest) -> Any:
    """Do not play this arm."""
    experiment.pause(body.arm)
    return experiment.controlled()


def resume(experiment: Experiment, body: ResumeRequest) -> Any:
    """Lift what holds for an arm, or for all."""
    experiment.resume(body.arm)
    return experiment.controlled()


def reload(again: Callable[[], Any] | None, _: Nothing) -> Any:
    """Read the settings anew; a bad file changes nothing."""
    if again is None:
        raise ValueError(NO_RELOAD)
    said = again()
    return ReloadAnswer(said if isinstance(said, str) else "")


# The routes that decide and reward: from a body to a question, and from its answers to JSON.


async def decide(turns: Turns, experiment: Experiment, _: str, body: DecisionRequest) -> Any:
    """Which arm to play."""
    question = Question(experiment, wishes=_wishes([body]))
    await turns.ask(question)
    (decision,) = question.decisions
    if isinstance(decision, ValueError):
        raise decision
    return decided(decision)


async def decide_all(turns: Turns, experiment: Experiment, _: str, body: DecisionsRequest) -> Any:
    """Many decisions, each with an answer or an error."""
    question = Question(experiment, wishes=_wishes(body.decisions))
    await turns.ask(question)
    return DecisionsAnswer([decided(each) for each in question.decisions])


async def reward(turns: Turns, experiment: Experiment, decision: str, body: RewardRequest) -> Any:
    """How a decision went."""
    question = Question(experiment, rewards=((decision, body.reward),))
    await turns.ask(question)
    (outcome,) = question.outcomes
    if isinstance(outcome, ValueError):
        raise outcome
    return rewarded((decision, body.reward), outcome)


async def reward_all(turns: Turns, experiment: Experiment, _: str, body: RewardsRequest) -> Any:
    """How many decisions went, each with an answer or an error, in one commit."""
    question = Question(experiment, rewards=_rewards(body.rewards))
    await turns.ask(question)
    return RewardsAnswer(_told(question))


async def steps(turns: Turns, experiment: Experiment, _: str, body: StepsRequest) -> Any:
    """How decisions went, and which arm to play next, in one commit."""
    asked = body.decide
    wishes = [] if asked is None else asked if isinstance(asked, list) else [asked]
    question = Question(experiment, _rewards(body.rewards), _wishes(wishes))
    await turns.ask(question)
    made = [decided(each) for each in question.decisions]
    many = isinstance(asked, list)
    return StepsAnswer(
        _told(question),
        decision=UNSET if many or not made else made[0],
        decisions=made if many else UNSET,
    )


def _rewards(items: Sequence[RewardItem | ValueError]) -> list[Given | ValueError]:
    return [i if isinstance(i, ValueError) else (i.decision, i.reward) for i in items]


def _wishes(items: Sequence[DecisionRequest | ValueError]) -> list[Wish | ValueError]:
    return [
        i if isinstance(i, ValueError) else Wish(i.decision, i.allowed, i.context) for i in items
    ]


def _told(question: Question) -> list[Any]:
    return [rewarded(*each) for each in zip(question.rewards, question.outcomes, strict=True)]


# The routes that only look: what an agent knows, and how it is.


def arms(experiment: Experiment) -> Any:
    """What is known of every arm."""
    return experiment.arms()


def arms_at(experiment: Experiment, body: ArmsRequest) -> Any:
    """What is known of every arm at a context."""
    return experiment.arms(body.context)


def verdict(experiment: Experiment) -> Any:
    """Whether the experiment may stop."""
    return experiment.verdict()


def evidence(experiment: Experiment) -> Any:
    """In whole quanta: what this agent saw itself, and what it holds of all."""
    return experiment.evidence()


def sites(experiment: Experiment) -> Any:
    """What each site saw of every arm."""
    return experiment.site_map()


def books(experiment: Experiment) -> Any:
    """Decisions counted here beside the pulls in the evidence."""
    found = experiment.books()
    if found is None:
        raise Unknown(
            "this experiment has a half_life: its evidence fades, and is no count to compare"
        )
    return found


def history(experiment: Experiment, scale: str) -> Any:
    """Pulls and rewards over time, and what happened."""
    return experiment.history(scale)


def network(node: Node) -> Any:
    """The neighbours, all agents and links that are known, and what was refused and why."""
    return node.network()


def experiments(node: Node) -> Any:
    """The experiments by name."""
    return ExperimentsAnswer({name: shown(each) for name, each in node.experiments.items()})


def shown(experiment: Experiment) -> ExperimentAnswer:
    """One experiment: its arms, its counts, and what operators set."""
    counts = experiment.counts
    controls = experiment.controlled()
    return ExperimentAnswer(
        arms=list(experiment.agent.arm_names),
        decisions=counts["decisions"],
        rewards=counts["rewards"],
        open_decisions=experiment.store.open_decisions(),
        silence=experiment.mode,
        reward_window=experiment.silence.window,
        late_rewards=counts["late"],
        longest_lateness=experiment.late.copy().longest,
        void_rewards=counts["void"],
        half_life=experiment.agent.half_life,
        pinned=controls["pinned"],
        paused=controls["paused"],
        sites=SitesAnswer(**experiment.sites()),
        context=_context(experiment),
    )


def _context(experiment: Experiment) -> ContextAnswer | None:
    schema = experiment.agent.context
    odd = experiment.oddities
    if schema is None:
        return None
    return ContextAnswer(schema.to_data(), experiment.average(), odd.unknown, odd.clipped)


def controls(experiment: Experiment) -> Any:
    """What is pinned and paused, and by whom."""
    return experiment.controlled()


def healthz(node: Node) -> Any:
    """That the process lives."""
    return StatusAnswer("alive")


def readyz(node: Node) -> Any:
    """Whether the store can be written."""
    if not traffic_of(node).health.is_ready(node):
        raise Refusal(503, "not ready", "the store failed a moment ago: see the agent's log")
    return StatusAnswer("ready")


def metrics(node: Node) -> Answer:
    """Counters in the text format of Prometheus."""
    return Answer(200, numbers(node).encode(), CONTENT_TYPE.encode())
