"""The leading arm of an experiment: the winner that was named, and by how much it leads."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from posse.live.agent import NO_STOP, Agent, Judgement, NamedVerdict
from posse.live.store import Store, StoreError, Unknown
from posse.summary import Lift

VERDICT = "verdict"  # the name of a durable record in the store
MIN_CLOSED_FOR_LIFT = 30  # decisions of each of the two arms: with fewer it is mostly the prior


@dataclass(frozen=True)
class LeaderLift:
    """By how much the leading arm is better than the next, with a 95% interval of one look."""

    arm: str
    over: str
    lift: Lift


class LeadingArm:
    """Judges the arms of an agent, and keeps a named winner in the store.

    A winner named before a restart stays named (confidence sequences are valid at any time), so it
    is restored before anything can judge again.
    """

    def __init__(self, agent: Agent, store: Store, lock: threading.RLock) -> None:
        self._agent = agent
        self._store = store
        self._lock = lock  # of the agent
        data = store.read_record(VERDICT)
        self._stored_verdict = None if data is None else NamedVerdict.from_json(data)
        agent.named_verdict = self._stored_verdict

    def judge(self, now: float) -> Judgement:
        """Judge whether the experiment may stop; `Unknown` without `stop`."""
        if self._agent.stop is None:
            raise Unknown(NO_STOP)
        judgement = self._agent.verdict(self._lock, now)
        self._store_verdict()
        return judgement

    def compare(self, paused: Sequence[str], now: float) -> LeaderLift | None:
        """Compare the leading arm with the next one; None where there is too little to compare.

        The leader is the arm of the verdict, or else the one with the highest mean. Paused arms do
        not compete, unless all arms are paused.
        """
        status = self._agent.arms(self._lock)
        names = [name for name in status if name not in paused] or list(status)
        names = [name for name in names if status[name].pulls_in_network > 0]
        names.sort(key=lambda name: -status[name].mean)
        if self._agent.stop is not None:
            judged = self._agent.verdict(self._lock, now).arm
            names.sort(key=lambda name: name != judged)
        if len(names) < 2:
            return None
        (first, second) = names[:2]
        fewest = min(status[first].pulls_in_network, status[second].pulls_in_network)
        if fewest < MIN_CLOSED_FOR_LIFT:
            return None
        lift = self._agent.estimate_lift(first, second, self._lock)
        return None if lift is None else LeaderLift(first, second, lift)

    def _store_verdict(self) -> None:
        """Write the named winner, so that no restart takes it back."""
        with self._lock:
            named_verdict = self._agent.named_verdict
        if named_verdict is None:
            if self._stored_verdict is None:
                return
        elif not named_verdict.differs_from(self._stored_verdict):
            return
        # A view must not fail because the disk does: the next look tries again.
        with suppress(StoreError):
            self._store.write_record(
                VERDICT, None if named_verdict is None else named_verdict.to_json()
            )
            self._stored_verdict = named_verdict
