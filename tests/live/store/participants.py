"""Evidence that stores of these tests keep in step with their rewards."""

from __future__ import annotations

from typing import Any

from posse.live.store import DecisionRecord


class Sums:
    """A participant that adds up the rewards of each arm."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.restored = 0

    def settle(self, decision: DecisionRecord) -> None:
        assert decision.reward is not None
        if decision.reward > 1e6:
            raise ValueError("reward out of range")
        self.sums[decision.arm] = self.sums.get(decision.arm, 0) + decision.reward

    def state(self) -> dict[str, Any]:
        return {"sums": dict(self.sums)}

    def restore(self, state: dict[str, Any]) -> None:
        self.sums = dict(state["sums"])
        self.restored += 1
