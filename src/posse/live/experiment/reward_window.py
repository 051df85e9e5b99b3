"""Reward window (attribution window): when a decision counts, and how late delayed rewards came.

Where a missing reward means the lowest one (successes are reported, failures are not), a decision
counts as the lowest reward from the start, and its reward corrects that: to count successes at once
and failures when a window closes would make every arm look good, the newest most of all. Where a
missing reward means another value, a decision that counted from the start would itself look good:
there evidence waits until the window has closed. Where it means nothing, a reward counts when it
arrives.
"""

from __future__ import annotations

import json
import threading
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from posse.live.agent import Agent, ExpansionPoint
from posse.live.store import DecisionRecord, Participant
from posse.randomness import FloatArray

# seconds: what ends a bucket, from a window nearly long enough to one of the wrong order
BUCKETS = (1.0, 10.0, 60.0, 300.0, 1800.0, 3600.0, 21_600.0, 86_400.0, 604_800.0)


@dataclass(frozen=True)
class LatenessHistogram:
    """Lateness at one moment: counts by bucket (the last is open); sum and maximum in seconds."""

    counts: tuple[int, ...]
    total: float
    longest: float


class LatenessCounter:
    """Counts rewards after their window by how late they came, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = [0] * (len(BUCKETS) + 1)
        self._total = self._longest = 0.0

    def add_delay(self, seconds: float) -> None:
        """Count one late reward."""
        with self._lock:
            self._counts[bisect_left(BUCKETS, seconds)] += 1
            self._total += seconds
            self._longest = max(self._longest, seconds)

    def copy(self) -> LatenessHistogram:
        """Return the histogram as it is at this moment."""
        with self._lock:
            return LatenessHistogram(tuple(self._counts), self._total, self._longest)


# ---- The window, and evidence as a participant of transactions

Mode = Literal["reported", "count", "wait"]

COUNTED = "counted"  # the part of the kept state that is the counter


@dataclass(frozen=True)
class RewardWindow:
    """After `window` seconds without a reward the default reward counts, or nothing does."""

    window: float | None = None
    default_reward: float | None = None

    def counting_mode(self, agent: Agent) -> Mode:
        """When decisions of an agent count: with their reward, from the start, or at the end."""
        if self.default_reward is None:
            return "reported"
        lowest = self.default_reward == agent.reward_range[0]
        return "count" if lowest and agent.can_count_open else "wait"

    def describe(self, agent: Agent) -> str:
        """Explain the mode in one sentence, for the log."""
        mode = self.counting_mode(agent)
        default = self.default_reward
        (lowest, _) = agent.reward_range
        if mode == "reported":
            until = "" if self.window is None else f" within {self.window:g} s"
            return f"a decision counts when its reward arrives{until}, and not at all without one"
        if mode == "count":
            return (
                f"a decision counts as {default:g}, the lowest reward, from the start, and its "
                f"reward corrects that within {self.window:g} s"
            )
        why = f"default_reward is not the lowest reward ({default:g}, not {lowest:g})"
        if default == lowest:
            why = "its store, under flows, began without closed decisions"
        return f"a decision counts when its window of {self.window:g} s closes, because {why}"


class EvidenceParticipant(Participant):
    """An agent's evidence as a participant of the store's transactions.

    counted: the number of decisions ever counted into it: a counter of its own, written in the
    same commits, against which the evidence can be audited.
    """

    def __init__(self, agent: Agent, lock: threading.RLock, reward_window: RewardWindow) -> None:
        self._agent = agent
        self._lock = lock
        self.resumed = False  # whether there was a state on disk
        self.counted = self._counted_written = self._counted_on_disk = 0
        self.set_reward_window(reward_window)

    def set_reward_window(self, reward_window: RewardWindow) -> None:
        """Use this window from now on; counted decisions stay, each stores what was assumed."""
        self.reward_window = reward_window
        self.counting_mode = reward_window.counting_mode(self._agent)
        self._agent.exchange.reward_window = reward_window.window

    @property
    def counting(self) -> bool:
        """Whether decisions count from the start."""
        return self.counting_mode == "count"

    def is_superseded(self, decision: DecisionRecord) -> bool:
        """Whether an open decision no longer counts: another copy of this agent has it."""
        # A store restored from an older copy may have had another future: its open decisions may
        # have been settled and sent to neighbours there. Counting them again would count them
        # twice.
        return self._agent.exchange.is_superseded(decision.incarnation)

    def begin(self, decision: DecisionRecord) -> DecisionRecord:
        """Count a new decision, if decisions count from the start and it is active."""
        with self._lock:
            assumed = None if decision.inactive else self._assumed_reward(decision)
            side = self._agent.side
            # An inactive decision has its incarnation from the start, too: it belongs to the
            # process that made it, whichever process activates it.
            incarnation = self._agent.exchange.begin_decision(
                decision.arm, () if side is None else side.row_names(decision.arm, decision.uplift)
            )
            log_odds = self._count_from_start(decision, assumed, incarnation)
        # The record was drawn with these values in most cases: then nothing is copied.
        drawn = decision.incarnation, decision.assumed, decision.log_odds
        if (incarnation, assumed, log_odds) == drawn:
            return decision
        return replace(decision, incarnation=incarnation, assumed=assumed, log_odds=log_odds)

    def activate(self, decision: DecisionRecord) -> DecisionRecord:
        """Count an inactive decision from now on, if decisions count from the start."""
        with self._lock:
            assumed = self._assumed_reward(decision)
            log_odds = self._count_from_start(decision, assumed, decision.incarnation)
        return replace(decision, inactive=False, assumed=assumed, log_odds=log_odds)

    def cancel(self, decision: DecisionRecord) -> DecisionRecord:
        """Take back what a decision without a reward has counted from its start."""
        d = decision
        if d.assumed is None:
            return decision
        with self._lock:
            self._agent.cancel_decision(
                d.arm, d.assumed, d.incarnation, d.time, self._expansion_point(d)
            )
            self.counted -= 1
        return replace(decision, assumed=None, log_odds=None)

    def check_reward(self, reward: float) -> None:
        """Raise if the agent's family has no such reward."""
        self._agent.check_reward(reward)

    def is_window_over(self, decision: DecisionRecord, time: float) -> bool:
        """Whether the reward window of a decision has ended."""
        window = self.reward_window.window
        return window is not None and decision.time + window <= time

    def measure(self, decision: DecisionRecord, metrics: Mapping[str, float]) -> None:
        """Add metrics of a decision to the sums of its arm."""
        side = self._agent.side
        assert side is not None
        with self._lock:
            side.observe_metrics(decision.arm, metrics, decision.incarnation)

    def _assumed_reward(self, decision: DecisionRecord) -> float | None:
        """Return the reward that a decision counts with from the start; None if it does not.

        In a holdout no decision is evidence about an arm.
        """
        counts = self.counting and not decision.holdout
        return self.reward_window.default_reward if counts else None

    def _learn(self, decision: DecisionRecord, reward: float) -> None:
        """Count a final reward: for its arm, unless it is held out, and for the uplift."""
        d = decision
        if not d.holdout:
            self._agent.learn(d.arm, reward, d.incarnation, d.time, self._features_of(d))
            self.counted += 1
        self._count_uplift(d, reward)

    def _count_uplift(self, decision: DecisionRecord, reward: float) -> None:
        side = self._agent.side
        if decision.uplift is not None and side is not None:
            side.observe_reward(decision.uplift, reward, decision.incarnation)

    def _count_from_start(
        self, decision: DecisionRecord, assumed: float | None, incarnation: int
    ) -> float | None:
        """Count a decision with the reward assumed for it; returns where that was linearised."""
        if assumed is None:
            return None
        point = self._agent.expansion_point(decision.arm, self._features_of(decision))
        self._agent.count_decision(decision.arm, assumed, incarnation, decision.time, point)
        self.counted += 1
        return None if point is None else point.log_odds

    def _features_of(self, decision: DecisionRecord) -> FloatArray | None:
        """Return the features of the context of a decision."""
        features = decision.features
        if features is None and decision.context is not None:
            features = self._agent.encode_context(json.loads(decision.context))
        return None if features is None else features.x

    def _expansion_point(self, decision: DecisionRecord) -> ExpansionPoint | None:
        """Return the point at which a decision was counted when it began."""
        x = self._features_of(decision)
        return None if x is None else ExpansionPoint(x, decision.log_odds)

    def settle(self, decision: DecisionRecord) -> bool:
        """Count a reward that came in time; returns whether the evidence is final with it."""
        d = decision
        reward = decision.reward
        assert reward is not None
        with self._lock:
            if d.assumed is None:
                if self.reward_window.default_reward is None:
                    if d.holdout:  # else learning checks it
                        self._agent.check_reward(reward)
                    self._learn(d, reward)
                    return True
                # Evidence waits for the window to close, but an impossible reward is refused now.
                self._agent.check_reward(reward)
                return False
            self._agent.check_reward(reward)
            if reward != d.assumed:
                self._agent.correct_reward(
                    d.arm, d.assumed, reward, d.incarnation, d.time, self._expansion_point(d)
                )
            # The window was removed by a reload: no other event would close this decision.
            if self.reward_window.window is None:
                self._close_counted(d, reward)
                return True
            return False

    def close(self, decision: DecisionRecord) -> None:
        """Make the evidence of a decision final when its window closes."""
        d = decision
        reward = decision.reward
        assert reward is not None
        with self._lock:
            if d.assumed is None:
                self._learn(d, reward)
            else:
                self._close_counted(d, reward)

    def discard(self, decision: DecisionRecord) -> None:
        """Note that another copy of this agent has a decision, which is closed here."""
        with self._lock:
            if decision.assumed is not None:  # it counted from its start
                self.counted -= 1
            elif decision.reward is not None:  # it waited for its window
                self._agent.exchange.refusals["superseded"] += 1

    def _close_counted(self, decision: DecisionRecord, reward: float) -> None:
        """Make the reward of a decision final that has counted from its start."""
        d = decision
        point = self._expansion_point(d)
        self._agent.close_decision(d.arm, reward, d.incarnation, d.time, point)
        self._count_uplift(d, reward)

    def state(self) -> dict[str, Any]:
        """Return the exchange's durable state, and the counter."""
        with self._lock:
            self._counted_written = self.counted
            return {**self._agent.exchange.state(), COUNTED: self.counted}

    def changes(self) -> dict[str, Any]:
        """Return the parts of the state that changed since they were last written."""
        with self._lock:
            changed = self._agent.exchange.changes()
            if self.counted != self._counted_written:
                self._counted_written = changed[COUNTED] = self.counted
            return changed

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from the state on disk, at a start."""
        with self._lock:
            self.resumed = True
            self._agent.exchange.restore(state)
            self.counted = self._counted_written = self._counted_on_disk = state[COUNTED]

    def commit(self) -> None:
        """Note that all changes so far are on disk."""
        with self._lock:
            self._counted_on_disk = self._counted_written
            self._agent.exchange.commit()

    def rollback(self) -> None:
        """Return to the last commit: what came later could not be written."""
        with self._lock:
            self.counted = self._counted_written = self._counted_on_disk
            self._agent.exchange.rollback()
