"""Verdicts of a live agent: when an experiment may stop, and what is said of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from posse import best_arm, validation
from posse.live.agent.evidence import Evidence
from posse.live.exchange import Exchange
from posse.live.exchange.ledger import Ledger
from posse.policies.policy import Policy
from posse.policies.top_two import TopTwo
from posse.randomness import FloatArray
from posse.stopping import Kind, judge_by_loss, verdict


@dataclass(frozen=True)
class Stop:
    """When people want to stop: how often a winner may be wrong, and what difference is none.

    error: the share of such experiments in which a false winner may be named, however often one
    looks. tolerance: a difference of means that does not matter; None: every one does.
    """

    error: float = 0.05
    tolerance: float | None = None

    def __post_init__(self) -> None:
        validation.validate_number("stop: error", self.error, above=0, below=1)
        if self.tolerance is not None:
            validation.validate_number("stop: tolerance", self.tolerance, above=0)


@dataclass(frozen=True)
class Judgement:
    """Whether an experiment may stop: a `posse.Verdict` that names its arm."""

    verdict: Kind
    arm: str | None  # that wins, is good enough, or leads; None before there is a view to judge
    evidence: float | None  # that it is the best, in nats; None under flows
    needed: float | None
    expected_loss: float | None
    sentence: str
    since: float | None = None  # Unix seconds of the first naming; None where nothing is named


PERMANENT = ("winner", "no-difference")  # by confidence sequences; "good-enough" is Bayesian


@dataclass(frozen=True)
class NamedVerdict:
    """A winner, or "no difference", that was named once, and the question that it answers.

    The error bounds the probability that the evidence of a false one *ever* crosses the threshold
    (Ville's inequality). So the first crossing stays valid, however far the evidence falls later.
    """

    judgement: Judgement
    arms: tuple[str, ...]  # sorted
    error: float
    tolerance: float | None
    here: bool  # by the evidence of this site only

    def to_json(self) -> bytes:
        """The record as the store has it."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes) -> NamedVerdict:
        """Read what `to_json` wrote."""
        fields = json.loads(data)
        judgement = Judgement(**fields.pop("judgement"))
        return cls(judgement, tuple(fields.pop("arms")), **fields)

    def is_news_after(self, stored: NamedVerdict | None) -> bool:
        """Whether it is to be written: evidence that grows does not cost a commit at every look."""
        if stored is None:
            return True
        evidence = stored.judgement.evidence
        if (self.judgement.evidence or 0.0) > 1.1 * (evidence or 0.0):
            return True
        as_stored = replace(self, judgement=replace(self.judgement, evidence=evidence))
        return as_stored != stored

    def answers(self, stop: Stop, arms: Sequence[str], here: bool) -> bool:
        """Whether it is about these arms, by this error and this evidence."""
        if self.judgement.verdict != "winner" and self.tolerance != stop.tolerance:
            return False
        return (self.arms, self.error, self.here) == (tuple(sorted(arms)), stop.error, here)


WAITING = Judgement(
    "keep-going", None, None, None, None,
    "keep going: a neighbour holds evidence that has not arrived here yet",
)  # fmt: skip
ADVICE = "; policy 'top-two' gets there sooner"
NO_STOP = "this experiment has no stop: set it, such as stop = {error = 0.05}, in a new experiment"


class Judge:
    """The verdicts of one agent, each computed once for what it holds.

    They are about closed decisions, and about a view of the network that is causally closed: what
    was decided at a neighbour may rest on evidence that has not arrived, and until it has, the last
    verdict stands. A winner and "no difference" are permanent, until the arms change: `named`.
    """

    def __init__(
        self, stop: Stop | None, evidence: Evidence, exchange: Exchange, policy: Policy
    ) -> None:
        self._stop = stop
        self._evidence = evidence
        self._exchange = exchange
        self._advice = "" if isinstance(policy, TopTwo) else ADVICE
        self._last: tuple[int, tuple[str, ...], Judgement] | None = None
        self.named: NamedVerdict | None = None

    def of(
        self,
        names: Sequence[str],
        here: bool,
        lock: AbstractContextManager[Any],
        now: float | None = None,
    ) -> Judgement:
        """The verdict about these arms; `here`: from this agent's own evidence only.

        lock: held while the exchange is read, but not while it is judged, which takes long. now:
        Unix seconds, to say since when a verdict stands.
        """
        if self._stop is None:
            raise ValueError(NO_STOP)
        asked = tuple(names)
        with lock:
            if self.named is not None and not self.named.answers(self._stop, asked, here):
                self.named = self._last = None
            exchange = self._exchange
            last = self._last
            named = self.named
            revision = exchange.revision
            if last is not None and last[:2] == (revision, asked):
                return last[2]
            if not (here or exchange.is_current()):
                if last is not None and last[1] == asked:
                    return last[2]
                return WAITING if named is None else named.judgement
            all_ = exchange.evidence()
            held = exchange.own() if here else all_
        belief = self._belief(asked, held)
        found = self._judge(asked, belief, len({*asked, *all_}), here)
        with lock:
            found = self._remember(asked, belief, found, here, now)
            self._last = revision, asked, found
        return found

    def _remember(
        self,
        names: tuple[str, ...],
        belief: FloatArray,
        found: Judgement,
        here: bool,
        now: float | None,
    ) -> Judgement:
        """What is said after this look: the verdict named first stays, its evidence only grows."""
        assert self._stop is not None
        before = None if self.named is None else self.named.judgement
        # a winner by less than the tolerance does not contradict "no difference"
        if before is None or (before.verdict, found.verdict) == ("no-difference", "winner"):
            if found.verdict not in PERMANENT:
                return found
            named = replace(found, since=now, sentence=_since(now) + found.sentence)
        elif found.arm == before.arm and (found.evidence or 0.0) > (before.evidence or 0.0):
            named = replace(before, evidence=found.evidence)
        else:
            named = before
        stop = self._stop
        self.named = NamedVerdict(named, tuple(sorted(names)), stop.error, stop.tolerance, here)
        if found.arm == named.arm:
            return replace(named, expected_loss=found.expected_loss)
        assert named.arm is not None
        loss = float(
            best_arm.evaluate_arms(self._evidence.at_mean, belief)[1][names.index(named.arm)]
        )
        if (named.verdict, found.verdict) == ("winner", "winner"):
            return replace(named, expected_loss=loss, sentence=_contradiction(named, found))
        return replace(named, expected_loss=loss)

    def _belief(self, names: tuple[str, ...], held: Ledger) -> FloatArray:
        """Prior and closed evidence of these arms: (D, K)."""
        evidence = self._evidence
        prior = self._evidence.family.prior()
        belief = np.repeat(prior[:, None], len(names), axis=1)
        for k, name in enumerate(names):
            if name in held:
                closed = evidence.closed_part(held[name])
                count = evidence.effective_count(closed) if evidence.signs else None
                belief[:, k] += evidence.statistic(closed, count)
        return belief

    def _judge(
        self, names: tuple[str, ...], belief: FloatArray, ever: int, here: bool
    ) -> Judgement:
        assert self._stop is not None
        evidence = self._evidence
        if evidence.signs:  # pulls are weighted unevenly under flows: no martingale
            found = judge_by_loss(evidence.at_mean, belief, self._stop.tolerance, names)
        else:
            found = verdict(
                evidence.at_mean,
                belief,
                self._stop.error,
                self._stop.tolerance,
                names=names,
                arms_ever=ever,
                where="here" if here else "",
            )
        slow = found.verdict == "keep-going" and found.evidence is not None
        return Judgement(
            found.verdict,
            names[found.arm],
            found.evidence,
            found.needed,
            found.expected_loss,
            found.sentence + (self._advice if slow else ""),
        )


def _since(now: float | None) -> str:
    """When a verdict was first named, before its sentence."""
    if now is None:
        return ""
    return f"since {datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M} UTC: "


def _contradiction(named: Judgement, found: Judgement) -> str:
    """Two winners: one of them is wrong, or the assumption that means are constant."""
    return (
        f"{_since(named.since)}{named.arm} was named the winner, but now {found.arm} has the "
        "evidence of one: rewards have probably changed over time, so start a new experiment"
    )
