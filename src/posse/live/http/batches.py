"""Many decisions or rewards in one commit, each with an answer or an error of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from posse.live.node import Node
from posse.live.store import Conflict, Decision, Outcome

T = TypeVar("T")
A = TypeVar("A")


def decide(node: Node, id_: str | None, allowed: Sequence[str] | None) -> Decision:
    """One decision; an id that is taken by an arm that is not allowed now is a Conflict."""
    return _permitted(node.decide(id_, allowed), allowed)


def decide_all(
    node: Node, asked: Sequence[tuple[str | None, Sequence[str] | None]]
) -> list[Decision | ValueError]:
    """Decisions of (id, allowed arms), in the order in which they were asked."""
    # chosen before the transaction: nobody who writes waits for the choices
    chosen = [_attempt(lambda item: node.choose(*item), item) for item in asked]
    made = 0
    decisions: list[Decision | ValueError] = []
    with node.store.transaction():
        for choice, (_, allowed) in zip(chosen, asked, strict=True):
            if isinstance(choice, ValueError):
                decisions.append(choice)
                continue
            # a twin in this batch, or one asked meanwhile, may have taken the id
            kept = node.store.decide(choice)
            made += kept is choice
            decisions.append(_attempt(lambda pair: _permitted(*pair), (kept, allowed)))
    node.decisions += made
    return decisions


def reward_all(
    node: Node, given: Sequence[tuple[str, float] | ValueError]
) -> list[Outcome | ValueError]:
    """Rewards of (decision, reward), all on disk when this returns; what is refused stays so."""
    now = node.clock()

    def settle(item: tuple[str, float] | ValueError) -> Outcome:
        if isinstance(item, ValueError):
            raise item
        return node.store.reward(*item, now)

    with node.store.transaction():
        outcomes = [_attempt(settle, item) for item in given]
    node.rewards += outcomes.count(Outcome.NEW)  # not before they are on disk
    return outcomes


def _attempt(work: Callable[[A], T], item: A) -> T | ValueError:
    """The answer to an item, or why it is refused."""
    try:
        return work(item)
    except ValueError as error:
        return error


def _permitted(decision: Decision, allowed: Sequence[str] | None) -> Decision:
    """The decision, if its arm is one of those allowed."""
    if allowed is not None and decision.arm not in allowed:
        raise Conflict(
            f"decision {decision.id!r} has the arm {decision.arm!r}, which is not allowed now: "
            "use a new id"
        )
    return decision
