"""Evidence that stores of these tests keep in step with their rewards."""

from __future__ import annotations

from typing import Any

from posse.live.store import DecisionRecord


class Sums:
    """A participant that adds up the rewards of each arm."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.restored = 0
        self._last: dict[str, Any] = {}

    def settle(self, decision: DecisionRecord) -> None:
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

    def restore(self, state: dict[str, Any]) -> None:
        self.sums = dict(state["sums"])
        self.restored += 1
        self.state()
