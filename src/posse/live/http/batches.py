"""Many decisions or rewards in one commit, each with an answer or an error of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from posse.live.node import Node
from posse.live.store import Conflict, DecisionRecord, Outcome

T = TypeVar("T")
A = TypeVar("A")
Arms = Sequence[str] | None  # which are allowed; None: all
Wish = tuple[str | None, Arms]  # the id of a decision, or one is made up


def decide(node: Node, id_: str | None, allowed: Arms) -> DecisionRecord:
    """One decision; an id that is taken by an arm that is not allowed now is a Conflict."""
    return _permitted(node.decide(id_, allowed), allowed)


def decide_all(node: Node, asked: Sequence[Wish | ValueError]) -> list[DecisionRecord | ValueError]:
    """Decisions in the order in which they were asked for."""
    new = 0

    def keep(choice: tuple[DecisionRecord, Arms]) -> DecisionRecord:
        nonlocal new
        chosen, allowed = choice
        # a twin in this batch, or one asked meanwhile, may have taken the id
        kept = node.store.decide(chosen)
        new += kept is chosen
        return _permitted(kept, allowed)

    # chosen before the transaction: nobody who writes waits for the choices
    choices = _each(lambda wish: (node.choose(*wish), wish[1]), asked)
    with node.store.transaction():
        decisions = _each(keep, choices)
    node.counts.add("decisions", new)
    return decisions


def reward_all(
    node: Node, given: Sequence[tuple[str, float] | ValueError]
) -> list[Outcome | ValueError]:
    """Rewards of (decision, reward), all on disk when this returns."""
    now = node.clock()
    with node.store.transaction():
        outcomes = _each(lambda item: node.store.reward(*item, now), given)
    node.counts.add("rewards", outcomes.count(Outcome.NEW))  # not before they are on disk
    return outcomes


def _each(work: Callable[[A], T], items: Sequence[A | ValueError]) -> list[T | ValueError]:
    """What comes of every item, or why it is refused; what was refused before stays so."""

    def attempt(item: A) -> T | ValueError:
        try:
            return work(item)
        except ValueError as error:
            return error

    return [item if isinstance(item, ValueError) else attempt(item) for item in items]


def _permitted(decision: DecisionRecord, allowed: Arms) -> DecisionRecord:
    """The decision, if its arm is one of those allowed."""
    if allowed is not None and decision.arm not in allowed:
        raise Conflict(
            f"decision {decision.id!r} has the arm {decision.arm!r}, which is not allowed now: "
            "use a new id"
        )
    return decision
