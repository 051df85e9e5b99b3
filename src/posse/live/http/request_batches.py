"""Group commit on the event loop: what is asked in one turn of it goes into one commit.

No thread, no lock, no timer: while the disk syncs, the next requests gather in the buffers of
their sockets, so the busier the agent, the larger its commits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from posse.live.counters import same
from posse.live.experiment.experiment import Experiment, Wish
from posse.live.http.health import Traffic
from posse.live.node import Node
from posse.live.store import Conflict, DecisionRecord, Outcome, StoreError, Unknown

MOST = 1000  # rewards and decisions after which a commit takes no further question
SLOW = 0.005  # seconds of a commit, above which it is worth to wait for more questions
QUIET = 3  # turns of the loop without a new one, after which nobody waits to be heard
Given = tuple[str, float]  # a decision and its reward


@dataclass(eq=False, slots=True)
class Question:
    """Rewards to take in and decisions to make in one experiment; items may be errors already."""

    experiment: Experiment
    rewards: Sequence[Given | ValueError] = ()
    wishes: Sequence[Wish | ValueError] = ()
    outcomes: list[Outcome | ValueError] = field(default_factory=list)  # of the rewards
    decisions: list[DecisionRecord | ValueError] = field(default_factory=list)  # of the wishes
    new: list[DecisionRecord] = field(default_factory=list)  # those made now
    answered: asyncio.Future[None] | None = None


class Turns:
    """Gathers questions and answers them together; for one event loop."""

    def __init__(self, node: Node, traffic: Traffic) -> None:
        self._node = node
        self._traffic = traffic
        self._asked: list[Question] = []
        self._slow = False  # the disk, when last written
        self._heard = self._quiet = 0  # questions so far, and turns since the last of them

    async def ask(self, question: Question) -> None:
        """Have it answered at the end of this turn; its rewards are then on disk."""
        if not self._asked and self._traffic.connections() == 1:  # nobody to share a commit with
            self.commit([question])
            return
        loop = asyncio.get_running_loop()
        if not self._asked:
            loop.call_soon(self._turn)
        question.answered = loop.create_future()
        self._asked.append(question)
        await question.answered

    def _turn(self) -> None:
        """Answer what was asked; if that is very much, the first of it, then let others ask.

        A request takes some turns until it is a question, a new connection more. Where each of
        them has a commit of a slow disk in it, clients wait for many commits instead of one.
        """
        if self._slow and self._others_come():
            asyncio.get_running_loop().call_soon(self._turn)
            return
        items = accumulate(len(each.rewards) + len(each.wishes) for each in self._asked)
        enough = next((place for place, n in enumerate(items, 1) if n >= MOST), len(self._asked))
        asked = self._asked[:enough]
        self._asked = self._asked[enough:]
        if self._asked:
            asyncio.get_running_loop().call_soon(self._turn)
        self._answer(asked)

    def _others_come(self) -> bool:
        """Whether there were new questions a moment ago, and so may be more."""
        self._quiet = 0 if len(self._asked) > self._heard else self._quiet + 1
        self._heard = len(self._asked)
        if self._quiet < QUIET and self._heard < MOST:
            return True
        self._heard = self._quiet = 0
        return False

    def _answer(self, asked: Sequence[Question]) -> None:
        try:
            self.commit(asked)
        except StoreError as error:  # nothing of it was kept
            _tell(asked, error)
        except Exception as error:
            if len(asked) == 1:
                _tell(asked, error)
            else:  # a bug of ours: who did not cause it should not see it
                for question in asked:
                    self._answer([question])
        else:
            _tell(asked, None)

    def commit(self, asked: Sequence[Question]) -> None:
        """Answer questions in one commit, or none of them.

        Rewards come first, so that all decisions of a turn are of one belief; then decisions;
        then rewards of decisions that were made in this very turn.
        """
        now = self._node.clock()
        began = time.monotonic()
        rewarding = [question for question in asked if question.rewards]
        deciding = [question for question in asked if question.wishes]
        # who only asks should not wait for the disk: its reward will, and then both are there
        with self._node.store.answering(durable=bool(rewarding)):
            if rewarding:
                _reward(rewarding, now)
            if deciding:
                _decide(deciding)
            if rewarding and deciding:
                made = {(each.experiment, one.id) for each in deciding for one in each.new}
                for question in rewarding if made else ():
                    _reward_the_rest(question, made, now)
        if rewarding:
            self._slow = time.monotonic() - began > SLOW
        self._count(rewarding, deciding)  # not before it is on disk

    def _count(self, rewarding: Sequence[Question], deciding: Sequence[Question]) -> None:
        for question in rewarding:
            question.experiment.count_rewards(question.outcomes)
        for question in deciding:
            question.experiment.count_decisions(question.new)
            played = self._traffic.played[question.experiment.name]
            for decision in question.new:
                played[decision.arm] += 1


def _reward(asked: Sequence[Question], now: float) -> None:
    """Take in all rewards, those of one experiment at once."""
    for experiment, questions in _by_experiment(asked):
        given = [i for each in questions for i in each.rewards if not isinstance(i, ValueError)]
        outcomes = iter(experiment.store.reward_many(given, now))
        for question in questions:
            question.outcomes = [
                item if isinstance(item, ValueError) else next(outcomes)
                for item in question.rewards
            ]


def _decide(asked: Sequence[Question]) -> None:
    """Make all decisions, those of one experiment at once."""
    for experiment, questions in _by_experiment(asked):
        wishes = [w for each in questions for w in each.wishes if not isinstance(w, ValueError)]
        chosen = experiment.choose_many(wishes)
        made = [each for each in chosen if not isinstance(each, ValueError)]
        # under an id that is taken, by a twin in this turn perhaps, another one is kept
        pairs = iter(experiment.store.decided(made))
        choices = iter(chosen)
        for question in questions:
            question.decisions = []
            question.new = []
            for wish in question.wishes:
                choice = wish if isinstance(wish, ValueError) else next(choices)
                if isinstance(choice, ValueError) or isinstance(wish, ValueError):
                    question.decisions.append(choice)
                    continue
                kept, new = next(pairs)
                if new:
                    question.new.append(kept)
                question.decisions.append(kept if new else _permitted(kept, wish))


def _by_experiment(asked: Sequence[Question]) -> Iterable[tuple[Experiment, Sequence[Question]]]:
    if len(asked) == 1:
        return ((asked[0].experiment, asked),)
    together: dict[Experiment, list[Question]] = {}
    for question in asked:
        together.setdefault(question.experiment, []).append(question)
    return together.items()


def _reward_the_rest(question: Question, made: set[tuple[Experiment, str]], now: float) -> None:
    """Try again what was unknown when its decision had not been made yet."""
    experiment = question.experiment
    for place, (item, outcome) in enumerate(zip(question.rewards, question.outcomes, strict=True)):
        if (
            isinstance(outcome, Unknown)
            and not isinstance(item, ValueError)
            and (experiment, item[0]) in made
        ):
            (question.outcomes[place],) = experiment.store.reward_many([item], now)


def _permitted(decision: DecisionRecord, wish: Wish) -> DecisionRecord | Conflict:
    """A decision of before, if its arm is one of those allowed, and its context the same."""
    if wish.allowed is not None and decision.arm not in wish.allowed:
        return Conflict(
            f"decision {decision.id!r} has the arm {decision.arm!r}, which is not allowed now: "
            "use a new id"
        )
    if not same(wish.context, decision.context):
        return Conflict(f"decision {decision.id!r} was made at another context: use a new id")
    return decision


def _tell(asked: Sequence[Question], error: Exception | None) -> None:
    for question in asked:
        answered = question.answered
        if answered is not None and not answered.done():  # else the client has left
            if error is None:
                answered.set_result(None)
            else:
                answered.set_exception(error)
