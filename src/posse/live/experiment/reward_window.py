"""How late rewards came: a histogram of the time since their windows had closed."""

from __future__ import annotations

import json
import threading
from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import Any, Literal

from posse.live.agent.agent import Agent
from posse.live.agent.context_evidence import Met
from posse.live.store import DecisionRecord
from posse.randomness import FloatArray

# seconds: what ends a bucket, from a window nearly long enough to one of the wrong order
BUCKETS = (1.0, 10.0, 60.0, 300.0, 1800.0, 3600.0, 21_600.0, 86_400.0, 604_800.0)


@dataclass(frozen=True)
class Late:
    """A histogram at one moment: by bucket, the last without an end; sum and longest in seconds."""

    counts: tuple[int, ...]
    total: float
    longest: float


class Lateness:
    """Counts late rewards by how late they came, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = [0] * (len(BUCKETS) + 1)
        self._total = self._longest = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        with self._lock:
            self._counts[bisect_left(BUCKETS, seconds)] += 1
            self._total += seconds
            self._longest = max(self._longest, seconds)

    def copy(self) -> Late:
        """All of them, as they are at this moment."""
        with self._lock:
            return Late(tuple(self._counts), self._total, self._longest)


# Silence: what a decision without a reward means, and when evidence of decisions is counted.
#
# Where silence means the lowest reward (successes are reported, failures are not), a decision
# counts with it from the start, and its reward corrects that: to hear successes at once and
# failures when a window closes would make every arm look good, the newest most of all. Where
# silence means another reward, a decision that counted from the start would itself look good:
# there evidence waits until the window has closed. Where silence means nothing, a reward counts
# when it is heard.

Mode = Literal["heard", "count", "wait"]

COUNTED = "counted"  # the part of the kept state that is the counter


@dataclass(frozen=True)
class Silence:
    """The reward window: after `window` seconds without a reward the default counts, or nothing."""

    window: float | None = None
    default_reward: float | None = None

    def mode(self, agent: Agent) -> Mode:
        """When decisions of an agent count: their reward heard, from the start, or at the end."""
        if self.default_reward is None:
            return "heard"
        lowest = self.default_reward == agent.reward_range[0]
        return "count" if lowest and agent.can_begin else "wait"

    def sentence(self, agent: Agent) -> str:
        """What that means, and why, for the log."""
        mode = self.mode(agent)
        default = self.default_reward
        (lowest, _) = agent.reward_range
        if mode == "heard":
            until = "" if self.window is None else f" within {self.window:g} s"
            return f"a decision counts when its reward comes{until}, and not without one"
        if mode == "count":
            return (
                f"a decision counts as {default:g}, the lowest reward, from the start, and its "
                f"reward corrects that within {self.window:g} s"
            )
        why = f"default_reward is not the lowest reward ({default:g}, not {lowest:g})"
        if default == lowest:
            why = "its store, under flows, was begun without closed decisions"
        return f"a decision counts when its window of {self.window:g} s closes, for {why}"


class Kept:
    """An agent's evidence as a participant of the store's transactions.

    counted: how many decisions were counted into it, ever: a counter of its own, kept in the same
    commits, so that whoever doubts the evidence can hold it against something.
    """

    def __init__(self, agent: Agent, lock: threading.RLock, silence: Silence) -> None:
        self._agent = agent
        self._lock = lock
        self._started = False
        self.resumed = False  # whether there was a state on disk
        self.counted = self._said = 0
        self.follow(silence)

    def follow(self, silence: Silence) -> None:
        """Go by this from now on; what was counted stays, each decision says how much."""
        self.silence, self.mode = silence, silence.mode(self._agent)

    @property
    def counting(self) -> bool:
        """Whether decisions count from the start."""
        return self.mode == "count"

    @property
    def void_through(self) -> int:
        """Open decisions up to this incarnation may have been counted in another future."""
        return self._agent.exchange.void_through

    def begin(self, decision: DecisionRecord) -> DecisionRecord:
        """Count a new decision, if decisions count from the start."""
        with self._lock:
            assumed = self.silence.default_reward if self.counting else None
            met = None
            if assumed is None:
                made = self._agent.exchange.incarnation()
            else:
                met = self._agent.meet(decision.arm, self._features_of(decision))
                made = self._agent.begin(decision.arm, assumed, decision.time, met)
                self.counted += 1
        log_odds = None if met is None else met.log_odds
        if (made, assumed, log_odds) == (decision.made, decision.assumed, decision.log_odds):
            return decision
        return replace(decision, made=made, assumed=assumed, log_odds=log_odds)

    def _features_of(self, decision: DecisionRecord) -> FloatArray | None:
        """The features of the context that a decision was made at."""
        found = decision.features
        if found is None and decision.context is not None:
            found = self._agent.features(json.loads(decision.context))
        return None if found is None else found.x

    def _met(self, decision: DecisionRecord) -> Met | None:
        """Where a decision was counted when it began."""
        x = self._features_of(decision)
        return None if x is None else Met(x, decision.log_odds)

    def settle(self, decision: DecisionRecord) -> bool:
        """Take in a reward that came in time; whether the evidence is final with it."""
        d = decision
        reward = decision.reward
        assert reward is not None
        with self._lock:
            if d.assumed is None:
                if self.silence.default_reward is None:
                    self._agent.learn(d.arm, reward, d.made, d.time, self._features_of(d))
                    self.counted += 1
                    return True
                self._agent.check_reward(reward)  # which waits for the window to close
                return False
            self._agent.check_reward(reward)
            if reward != d.assumed:
                self._agent.correct(d.arm, d.assumed, reward, d.made, d.time, self._met(d))
            if self.silence.window is None:  # not any more: nothing else closes it
                self._agent.close(d.arm, reward, d.made, d.time, self._met(d))
                return True
            return False

    def close(self, decision: DecisionRecord) -> None:
        """Make the evidence of a decision final, whose window closed: all of it, if none is in."""
        d = decision
        reward = decision.reward
        assert reward is not None
        with self._lock:
            if d.assumed is None:
                self._agent.learn(d.arm, reward, d.made, d.time, self._features_of(d))
                self.counted += 1
            else:
                self._agent.close(d.arm, reward, d.made, d.time, self._met(d))

    def state(self) -> dict[str, Any]:
        """The exchange's durable state, and the counter."""
        with self._lock:
            self._started = True
            self._said = self.counted
            return {**self._agent.exchange.state(), COUNTED: self.counted}

    def changes(self) -> dict[str, Any]:
        """The parts of it that changed."""
        with self._lock:
            changed = self._agent.exchange.changes()
            if self.counted != self._said:
                self._said = changed[COUNTED] = self.counted
            return changed

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to what is on disk: after a start, which trusts no file, or a failed commit."""
        parts = {part: value for part, value in state.items() if part != COUNTED}
        with self._lock:
            self.resumed |= not self._started
            self._agent.exchange.restore(parts, clean=self._started)
            if COUNTED in state:
                self.counted = state[COUNTED]
            else:  # of a store from before there was a counter
                self.counted = round(self._agent.pulls(self._agent.exchange.own()))
            self._said = self.counted
