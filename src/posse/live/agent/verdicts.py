"""Verdicts of a live agent: when it may name one, and how long it stands.

The sentences are those of `posse.stopping`, with what a live agent adds.

A winner and "no difference" rest on confidence sequences, so that looking often is harmless.
"""

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
from posse.live.ledger import Ledger
from posse.policies import Policy, TopTwo
from posse.randomness import FloatArray
from posse.stopping import (
    Kind,
    Range,
    forecast_pulls,
    judge_by_loss,
    parse_share,
    verdict,
)


@dataclass(frozen=True)
class Stop:
    """The stopping rule: how often a winner may be wrong, and which difference does not matter.

    error: the share of experiments in which a false winner may be named, however often one looks.
    tolerance: a difference of means that does not matter, as a number or relative to the mean of
    the leader ("10%"); None: every difference matters.
    """

    error: float = 0.05
    tolerance: float | str | None = None

    def __post_init__(self) -> None:
        validation.validate_number("stop: error", self.error, above=0, below=1)
        if isinstance(self.tolerance, str):
            parse_share(self.tolerance, "stop: tolerance")
        elif self.tolerance is not None:
            validation.validate_number("stop: tolerance", self.tolerance, above=0)


@dataclass(frozen=True)
class Judgement:
    """Whether an experiment may stop: a `posse.Verdict` with the name of its arm."""

    verdict: Kind
    arm: str | None  # that wins, is good enough, or leads; None before there is a view to judge
    evidence: float | None  # that it is the best, in nats; None under flows
    needed: float | None
    expected_loss: float | None
    sentence: str
    since: float | None = None  # Unix seconds of the first naming; None where nothing is named
    probability_best: float | None = None  # of the arm, over the prior
    more_decisions: Range | None = None  # that a winner may take, in the proportions so far
    seconds_left: Range | None = None  # the same at the rate of decisions so far


FARTHEST = 2 * 365 * 86_400.0  # seconds: a winner that is farther away is not forecast
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
    tolerance: float | str | None
    here: bool  # by the evidence of this site only

    def to_json(self) -> bytes:
        """Encode the record for the store."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes) -> NamedVerdict:
        """Decode what `to_json` wrote."""
        fields = json.loads(data)
        judgement = fields.pop("judgement")
        # what is forecast is not part of what was named
        judgement = Judgement(**judgement | {"more_decisions": None, "seconds_left": None})
        return cls(judgement, tuple(fields.pop("arms")), **fields)

    def differs_from(self, stored: NamedVerdict | None) -> bool:
        """Whether it must be written again; a little more evidence costs no commit."""
        if stored is None:
            return True
        evidence = stored.judgement.evidence
        if (self.judgement.evidence or 0.0) > 1.1 * (evidence or 0.0):
            return True
        as_stored = replace(self, judgement=replace(self.judgement, evidence=evidence))
        return as_stored != stored

    def answers_question(self, stop: Stop, arms: Sequence[str], here: bool) -> bool:
        """Whether it is about these arms, by this error and this evidence."""
        if self.judgement.verdict != "winner" and self.tolerance != stop.tolerance:
            return False
        return (self.arms, self.error, self.here) == (tuple(sorted(arms)), stop.error, here)


WAITING = Judgement(
    "keep-going", None, None, None, None,
    "keep going: a neighbour has evidence that has not arrived here yet",
)  # fmt: skip
NO_DATA = "keep going: no closed decisions yet"
ADVICE = "; policy 'top-two' gets there sooner"
NO_STOP = (
    "this experiment has no stopping rule: set one, such as stop = {error = 0.05}, in a new "
    "experiment"
)


class Judge:
    """The verdicts of one agent, each computed once for a state of its evidence.

    Verdicts use closed decisions, and a view of the network that is causally closed: a neighbour's
    decisions may rest on evidence that has not arrived here, and until it has, the last verdict
    stands. A winner and "no difference" are permanent until the arms change: `named`.
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

    def judge_arms(
        self,
        names: Sequence[str],
        here: bool,
        lock: AbstractContextManager[Any],
        now: float | None = None,
    ) -> Judgement:
        """Return the verdict about these arms; `here`: from this agent's own evidence only.

        lock: held while the exchange is read, not while it is judged, which takes long. now: Unix
        seconds, to report since when a verdict stands.
        """
        if self._stop is None:
            raise ValueError(NO_STOP)
        arms = tuple(names)
        with lock:
            if self.named is not None and not self.named.answers_question(self._stop, arms, here):
                self.named = self._last = None
            # Under the lock only what must be read together; judging takes long and needs none.
            exchange = self._exchange
            last = self._last
            named_verdict = self.named
            revision = exchange.revision
            if last is not None and last[:2] == (revision, arms):
                return last[2]
            if not (here or exchange.is_current()):
                if last is not None and last[1] == arms:
                    return last[2]
                return WAITING if named_verdict is None else named_verdict.judgement
            network_ledger = exchange.evidence()
            ledger = exchange.own() if here else network_ledger
        belief = self._closed_belief(arms, ledger)
        # All arms ever seen count for the union bound, also those that were removed.
        ever = len({*arms, *network_ledger})
        rows = (ledger.get(name) for name in arms)
        pulls = np.array([self._evidence.closed_count(row) if row else 0.0 for row in rows])
        judgement = self._compute_verdict(arms, belief, pulls, ever, here)
        with lock:
            judgement = self._update_named(arms, belief, judgement, here, now)
            self._last = revision, arms, judgement
        return judgement

    def _update_named(
        self,
        names: tuple[str, ...],
        belief: FloatArray,
        judgement: Judgement,
        here: bool,
        now: float | None,
    ) -> Judgement:
        """Return the verdict to report: the one named first stays, its evidence only grows."""
        assert self._stop is not None
        before = None if self.named is None else self.named.judgement
        # a winner by less than the tolerance does not contradict "no difference"
        if before is None or (before.verdict, judgement.verdict) == ("no-difference", "winner"):
            if judgement.verdict not in PERMANENT:
                return judgement
            standing = replace(
                judgement, since=now, sentence=_render_since(now) + judgement.sentence
            )
        elif judgement.arm == before.arm and (judgement.evidence or 0.0) > (before.evidence or 0.0):
            standing = replace(before, evidence=judgement.evidence)
        else:
            standing = before
        stop = self._stop
        self.named = NamedVerdict(standing, tuple(sorted(names)), stop.error, stop.tolerance, here)
        if judgement.arm == standing.arm:
            return replace(standing, expected_loss=judgement.expected_loss)
        assert standing.arm is not None
        loss = float(
            best_arm.evaluate_arms(self._evidence.at_mean, belief)[1][names.index(standing.arm)]
        )
        if (standing.verdict, judgement.verdict) == ("winner", "winner"):
            return replace(
                standing, expected_loss=loss, sentence=_render_contradiction(standing, judgement)
            )
        return replace(standing, expected_loss=loss)

    def _closed_belief(self, names: tuple[str, ...], ledger: Ledger) -> FloatArray:
        """Return prior and closed evidence of these arms: (D, K)."""
        evidence = self._evidence
        prior = self._evidence.family.prior()
        belief = np.repeat(prior[:, None], len(names), axis=1)
        for k, name in enumerate(names):
            if name in ledger:
                closed = evidence.closed_part(ledger[name])
                count = evidence.effective_count(closed) if evidence.signs else None
                belief[:, k] += evidence.statistic(closed, count)
        return belief

    def _compute_verdict(
        self,
        names: tuple[str, ...],
        belief: FloatArray,
        pulls: FloatArray,
        ever: int,
        here: bool,
    ) -> Judgement:
        assert self._stop is not None
        evidence = self._evidence
        stop = self._stop
        more = None
        # Under flows pulls are weighted unevenly: no martingale, so no confidence sequence.
        if evidence.signs:
            result = judge_by_loss(
                evidence.at_mean, belief, pulls, stop.error, stop.tolerance, names
            )
        else:
            result = verdict(
                evidence.at_mean,
                belief,
                stop.error,
                stop.tolerance,
                names=names,
                arms_ever=ever,
                where="here" if here else "",
            )
            if result.verdict not in PERMANENT and result.needed is not None:
                more = forecast_pulls(evidence.at_mean, belief, result.needed, result.arm)
        slow = result.verdict == "keep-going" and result.evidence is not None
        sentence = result.sentence + (self._advice if slow else "")
        if np.array_equal(belief, self._closed_belief(names, {})):
            sentence = NO_DATA  # by the prior alone, the first arm would "lead"
        return Judgement(
            result.verdict,
            names[result.arm],
            result.evidence,
            result.needed,
            result.expected_loss,
            sentence,
            probability_best=result.probability_best,
            more_decisions=more,
        )


def add_forecast(judgement: Judgement, per_second: float | None) -> Judgement:
    """Say when a winner may come at this rate of closed decisions; nothing if it is not known."""
    more = judgement.more_decisions
    if more is None or not per_second:
        return judgement
    most = None if more.most is None else more.most / per_second
    left = Range(more.least / per_second, more.likely / per_second, most)
    if left.likely > FARTHEST:
        return judgement
    latest = "or much later" if left.most is None else f"at most {render_duration(left.most)}"
    sentence = (
        f"{judgement.sentence}; at this rate a winner may come in about "
        f"{render_duration(left.likely)} (at least {render_duration(left.least)}, {latest})"
    )
    return replace(judgement, sentence=sentence, seconds_left=left)


def render_duration(seconds: float) -> str:
    """Render a duration in the largest unit of which it has two: "9 days"."""
    for unit, size in (("day", 86_400.0), ("hour", 3600.0), ("minute", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}s"
    return "a minute or two"


def _render_since(now: float | None) -> str:
    """Render when a verdict was first named, as the start of its sentence."""
    if now is None:
        return ""
    return f"since {datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M} UTC: "


def _render_contradiction(first: Judgement, second: Judgement) -> str:
    """Say that there are two winners: one is wrong, or means are not constant."""
    return (
        f"{_render_since(first.since)}{first.arm} was named the winner, but now {second.arm} has "
        "the evidence of one: rewards have probably changed over time, so start a new experiment"
    )
