"""Verdicts of a live agent: when an experiment may stop, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from posse import checks
from posse.live.evidence import Evidence
from posse.live.exchange import Exchange
from posse.live.exchange.ledger import Ledger
from posse.policies.policy import Policy
from posse.policies.top_two import TopTwo
from posse.stopping import Kind, by_loss, verdict


@dataclass(frozen=True)
class Stop:
    """When people want to stop: how often a winner may be wrong, and what difference is none.

    error: the share of such experiments in which a false winner may be named, however often one
    looks. tolerance: a difference of means that does not matter; None: every one does.
    """

    error: float = 0.05
    tolerance: float | None = None

    def __post_init__(self) -> None:
        checks.number("stop: error", self.error, above=0, below=1)
        if self.tolerance is not None:
            checks.number("stop: tolerance", self.tolerance, above=0)


@dataclass(frozen=True)
class Judgement:
    """Whether an experiment may stop: a `posse.Verdict` that names its arm."""

    verdict: Kind
    arm: str | None  # that wins, is good enough, or leads; None before there is a view to judge
    evidence: float | None  # that it is the best, in nats; None under flows
    needed: float | None
    expected_loss: float | None
    sentence: str


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
    verdict stands.
    """

    def __init__(
        self, stop: Stop | None, evidence: Evidence, exchange: Exchange, policy: Policy
    ) -> None:
        self._stop, self._evidence, self._exchange = stop, evidence, exchange
        self._advice = "" if isinstance(policy, TopTwo) else ADVICE
        self._last: tuple[int, tuple[str, ...], Judgement] | None = None

    def of(self, names: Sequence[str], here: bool, lock: AbstractContextManager[Any]) -> Judgement:
        """The verdict about these arms; `here`: from this agent's own evidence only.

        lock: held while the exchange is read, but not while it is judged, which takes long.
        """
        if self._stop is None:
            raise ValueError(NO_STOP)
        asked = tuple(names)
        with lock:
            exchange, last = self._exchange, self._last
            revision = exchange.revision
            if last is not None and last[:2] == (revision, asked):
                return last[2]
            if not (here or exchange.is_current()):
                return last[2] if last is not None and last[1] == asked else WAITING
            all_ = exchange.evidence()
            held = exchange.own() if here else all_
        found = self._judge(asked, held, len({*asked, *all_}), here)
        with lock:
            self._last = revision, asked, found
        return found

    def _judge(self, names: tuple[str, ...], held: Ledger, ever: int, here: bool) -> Judgement:
        assert self._stop is not None
        evidence, prior = self._evidence, self._evidence.family.prior()
        belief = np.repeat(prior[:, None], len(names), axis=1)
        for k, name in enumerate(names):
            if name in held:
                closed = evidence.closed_part(held[name])
                count = evidence.effective_count(closed) if evidence.signs else None
                belief[:, k] += evidence.statistic(closed, count)
        if evidence.signs:  # pulls are weighted unevenly under flows: no martingale
            found = by_loss(evidence.at_mean, belief, self._stop.tolerance, names)
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
