"""The routes that decide and reward: from a body to a question, and from its answers to JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from posse.live.experiment import Experiment, Wish
from posse.live.http.answers import decided, rewarded
from posse.live.http.models import (
    DecisionRequest,
    DecisionsAnswer,
    DecisionsRequest,
    RewardItem,
    RewardRequest,
    RewardsAnswer,
    RewardsRequest,
    StepsAnswer,
    StepsRequest,
)
from posse.live.http.turns import Given, Question, Turns


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
