"""Group commit on the event loop: what is asked in one turn of it goes into one commit.

No thread, no lock, no timer: while the disk syncs, the next requests gather in the buffers of
their sockets, so the busier the agent, the larger its commits.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from posse.live.http.experiments import Experiment
from posse.live.http.traffic import Traffic
from posse.live.node import Node
from posse.live.store import Conflict, DecisionRecord, Outcome, StoreError, Unknown

Arms = Sequence[str] | None  # which are allowed; None: all
Wish = tuple[str | None, Arms]  # the id of a decision, or one is made up
Given = tuple[str, float]  # a decision and its reward


class Question:
    """Rewards to take in and decisions to make, in one experiment; items may be errors already."""

    __slots__ = ("answered", "decisions", "experiment", "outcomes", "rewards", "wishes")

    def __init__(
        self,
        experiment: Experiment,
        rewards: Sequence[Given | ValueError] = (),
        wishes: Sequence[Wish | ValueError] = (),
    ) -> None:
        self.experiment, self.rewards, self.wishes = experiment, rewards, wishes
        self.outcomes: list[Outcome | ValueError] = []  # of the rewards
        self.decisions: list[DecisionRecord | ValueError] = []  # of the wishes
        self.answered: asyncio.Future[None] | None = None


class Turns:
    """Gathers questions and answers them together; for one event loop."""

    def __init__(self, node: Node, traffic: Traffic) -> None:
        self._node, self._traffic = node, traffic
        self._asked: list[Question] = []

    async def ask(self, question: Question) -> None:
        """Have it answered at the end of this turn; its rewards are then on disk."""
        loop = asyncio.get_running_loop()
        if not self._asked:
            loop.call_soon(self._turn)
        question.answered = loop.create_future()
        self._asked.append(question)
        await question.answered

    def _turn(self) -> None:
        """Answer all that was asked."""
        asked, self._asked = self._asked, []
        try:
            self.commit(asked)
        except StoreError as error:  # nothing of it was kept
            _tell(asked, error)
        except Exception as error:  # a bug of ours: who did not cause it should not see it
            if len(asked) == 1:
                _tell(asked, error)
            else:
                self._one_by_one(asked)
        else:
            _tell(asked, None)

    def _one_by_one(self, asked: Sequence[Question]) -> None:
        for question in asked:
            try:
                self.commit([question])
            except Exception as error:
                _tell([question], error)
            else:
                _tell([question], None)

    def commit(self, asked: Sequence[Question]) -> None:
        """Answer questions in one commit, or none of them.

        Rewards come first, so that all decisions of a turn are of one belief; then decisions;
        then rewards of decisions that were made in this very turn.
        """
        now = self._node.clock()
        counts: Counter[tuple[Experiment, str]] = Counter()
        with _transaction(self._node, durable=any(question.rewards for question in asked)):
            for question in asked:
                question.outcomes = [_reward(question, item, now) for item in question.rewards]
            made = self._decide(asked, counts)
            for question in asked if made else ():
                for place, outcome in enumerate(question.outcomes):
                    item = question.rewards[place]
                    if isinstance(outcome, Unknown) and (question.experiment, item[0]) in made:  # type: ignore[index]
                        question.outcomes[place] = _reward(question, item, now)
        # not before it is on disk
        for question in asked:
            for outcome in question.outcomes:
                if outcome is Outcome.NEW:
                    counts[question.experiment, "rewards"] += 1
                elif isinstance(outcome, Conflict):
                    late = "window closed" in str(outcome)
                    counts[question.experiment, "late" if late else "conflicts"] += 1
        for (experiment, name), number in counts.items():
            experiment.counts.add(name, number)

    def _decide(
        self, asked: Sequence[Question], counts: Counter[tuple[Experiment, str]]
    ) -> set[tuple[Experiment, str]]:
        """Make all decisions; the new ones by experiment and id."""
        new: set[tuple[Experiment, str]] = set()
        for question in asked:
            if not question.wishes:
                continue
            experiment = question.experiment
            question.decisions = decisions = []
            for wish, chosen in zip(question.wishes, _choices(question), strict=True):
                if isinstance(chosen, ValueError) or isinstance(wish, ValueError):
                    decisions.append(chosen)
                    continue
                # a twin in this turn may have taken the id
                kept = experiment.store.decide(chosen)
                if kept is chosen:
                    new.add((experiment, kept.id))
                    counts[experiment, "decisions"] += 1
                decisions.append(_permitted(kept, wish[1]))
        return new


def _choices(question: Question) -> list[Any]:
    """A new decision for every wish, not on disk yet, or why it is refused."""

    def choose(wish: Wish | ValueError) -> DecisionRecord | ValueError:
        if isinstance(wish, ValueError):
            return wish
        try:
            return question.experiment.choose(*wish)
        except ValueError as error:
            return error

    return [choose(wish) for wish in question.wishes]


def _reward(question: Question, item: Given | ValueError, now: float) -> Outcome | ValueError:
    if isinstance(item, ValueError):
        return item
    try:
        return question.experiment.store.reward(*item, now)
    except ValueError as error:
        return error


def _permitted(decision: DecisionRecord, allowed: Arms) -> DecisionRecord | ValueError:
    """The decision, if its arm is one of those allowed."""
    if allowed is not None and decision.arm not in allowed:
        return Conflict(
            f"decision {decision.id!r} has the arm {decision.arm!r}, which is not allowed now: "
            "use a new id"
        )
    return decision


def _transaction(node: Node, durable: bool) -> AbstractContextManager[None]:
    return node.store.transaction()


def _tell(asked: Sequence[Question], error: Exception | None) -> None:
    for question in asked:
        answered = question.answered
        if answered is not None and not answered.done():  # else the client has left
            if error is None:
                answered.set_result(None)
            else:
                answered.set_exception(error)
