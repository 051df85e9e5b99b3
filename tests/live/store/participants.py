"""Evidence that stores of these tests keep in step with their rewards."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

from posse.live.store import DecisionRecord, Participant


class Heard(Participant):
    """A participant for which a reward counts whole when it is heard."""

    def measure(self, decision: DecisionRecord, metrics: Mapping[str, float]) -> None:
        raise AssertionError

    def settle(self, decision: DecisionRecord) -> bool:
        self.learn(decision)
        return True

    def close(self, decision: DecisionRecord) -> None:
        self.learn(decision)

    def discard(self, decision: DecisionRecord) -> None:
        raise AssertionError

    def learn(self, decision: DecisionRecord) -> None:
        raise AssertionError


class Rules(Participant):
    """A participant by the rules of silence that writes down what it does, a part an arm.

    assumed: the reward that decisions count with from the start, if they do; waits: whether other
    rewards count when their window closes.
    """

    def __init__(self) -> None:
        self.all: dict[str, list[list[Any]]] = {}
        self.changed: set[str] = set()
        self.assumed: float | None = None
        self.waits = False
        self.incarnation = 1
        self.superseded_through = 0  # an incarnation
        self._pending: dict[str, Any] = {}
        self._on_disk: dict[str, Any] = {}

    @property
    def counting(self) -> bool:
        return self.assumed is not None

    def is_superseded(self, decision: DecisionRecord) -> bool:
        return decision.incarnation <= self.superseded_through

    def begin(self, decision: DecisionRecord) -> DecisionRecord:
        assumed = None if decision.inactive else self.assumed
        if assumed is not None:
            self.note(decision, "begin", assumed)
        return replace(decision, assumed=assumed, incarnation=self.incarnation)

    def activate(self, decision: DecisionRecord) -> DecisionRecord:
        if self.counting:
            self.note(decision, "begin", self.assumed)
        return replace(decision, inactive=False, assumed=self.assumed)

    def cancel(self, decision: DecisionRecord) -> DecisionRecord:
        if decision.assumed is not None:
            self.note(decision, "cancel", decision.assumed)
        return replace(decision, assumed=None)

    def measure(self, decision: DecisionRecord, metrics: Mapping[str, float]) -> None:
        raise AssertionError

    def settle(self, decision: DecisionRecord) -> bool:
        if decision.assumed is not None:
            self.note(decision, "correct", decision.reward)
            return False
        if not self.waits:
            self.note(decision, "learn", decision.reward)
        return not self.waits

    def close(self, decision: DecisionRecord) -> None:
        self.note(decision, "learn" if decision.assumed is None else "close", decision.reward)

    def discard(self, decision: DecisionRecord) -> None:
        self.note(decision, "discard", decision.reward)

    def note(self, decision: DecisionRecord, what: str, reward: float | None) -> None:
        self.all.setdefault(decision.arm, []).append([decision.id, what, reward])
        self.changed.add(decision.arm)

    def drop(self, arm: str) -> None:
        """Let a part be gone."""
        self.all.pop(arm, None)
        self.changed.add(arm)

    def state(self) -> dict[str, Any]:
        self.changed.clear()
        self._pending = deepcopy(self.all)
        return dict(self.all)

    def changes(self) -> dict[str, Any]:
        changed = {arm: self.all.get(arm) for arm in self.changed}
        self.changed = set()
        self._pending |= deepcopy(changed)
        return changed

    def commit(self) -> None:
        self._on_disk |= self._pending
        self._pending = {}

    def rollback(self) -> None:
        self.restore({arm: part for arm, part in self._on_disk.items() if part is not None})

    def restore(self, state: Mapping[str, Any]) -> None:
        self.all = deepcopy(dict(state))
        self._on_disk = deepcopy(dict(state))
        self._pending = {}
        self.changed.clear()


class Sums(Heard):
    """A participant that adds up the rewards of each arm."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.rolled_back = 0
        self._last: dict[str, Any] = {}
        self._on_disk: dict[str, Any] = {}

    def learn(self, decision: DecisionRecord) -> None:
        assert decision.reward is not None
        if decision.reward > 1e6:
            raise ValueError("reward out of range")
        self.add(decision.arm, decision.reward)

    def add(self, arm: str, reward: float) -> None:
        self.sums[arm] = self.sums.get(arm, 0) + reward

    def parts(self) -> dict[str, Any]:
        return {"sums": dict(self.sums)}

    def state(self) -> dict[str, Any]:
        self._last = self.parts()
        return self._last

    def changes(self) -> dict[str, Any]:
        """What differs from what was last looked at."""
        before, now = self._last, self.state()
        gone = dict.fromkeys(before.keys() - now.keys())
        return gone | {k: v for k, v in now.items() if k not in before or v != before[k]}

    def commit(self) -> None:
        self._on_disk = self._last

    def rollback(self) -> None:
        self.rolled_back += 1
        self.restore(self._on_disk)

    def restore(self, state: dict[str, Any]) -> None:
        self.sums = dict(state["sums"])
        self._on_disk = self.state()
