"""Agents for simulations: cheap policies and signatures, the same in every run."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from posse import families
from posse.live.config.agent_settings import AgentSettings
from posse.live.config.experiment_settings import ExperimentSettings
from posse.live.exchange import own
from posse.live.messaging.inbox import MessageLimits
from simulation.bits import RANGE

LIAR = "z"
PLENTY = MessageLimits(1e9, 1e12)
EAGER = {"FOLDED_ABOVE": 2, "FOLDED_AT_ONCE_ABOVE": 16}
FLOORS = {"MOST_NAMED": 2, "MOST_NAMED_EVER": 8}


@dataclass(frozen=True)
class EvenPolicy:
    """A policy that costs nothing: every arm alike."""

    name: ClassVar[str] = "even"

    def scores(self, belief: Any, *_: Any) -> Any:
        """No arm is better."""
        return np.zeros(belief.shape[1:])

    def probabilities(self, belief: Any, *_: Any) -> Any:
        """The same for all."""
        return np.full(belief.shape[1], 1 / belief.shape[1])


def sign_content(name: str, content: bytes) -> bytes:
    """A signature that only `name` makes."""
    return hmac.digest(name.encode(), content, "sha256")


def verify_signature(origin: str, content: bytes, signed: bytes) -> bool:
    """Whether the origin signed it."""
    return hmac.compare_digest(sign_content(origin, content), signed)


class FakeKeys:
    """The keys of one agent."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.verify = verify_signature

    def sign(self, content: bytes) -> bytes:
        """A signature of this agent."""
        return sign_content(self.name, content)

    def vouch(self, name: str, content: bytes, signed: bytes) -> tuple[float, float] | None:
        """From when to when a signer may sign; None if it did not."""
        return (-1e12, 1e12) if verify_signature(name, content, signed) else None

    def read_changed(self) -> None:
        """They never do."""


@lru_cache(1000)
def settings_of(
    name: str,
    store: str,
    neighbours: tuple[str, ...],
    experiments: tuple[tuple[str, tuple[str, ...]], ...],
    exchange: str,
    window: float | None,
    default_reward: float | None,
    remember: float | None,
    operators: tuple[str, ...] = (),
    half_life: float | None = None,
) -> AgentSettings:
    """The settings of an agent, as its agent.toml would give them."""
    tables = {
        experiment: ExperimentSettings(
            arms=arms,
            family=families.Gaussian(),
            policy=EvenPolicy(),
            exchange=exchange,
            reward_range=RANGE,
            reward_window=window,
            default_reward=default_reward,
            # which must not be shorter than the window, and is for those that close
            remember=None if window is None or remember is None else max(window, remember),
            half_life=half_life,
        )
        for experiment, arms in experiments
    }
    near = dict.fromkeys(neighbours, "")
    return AgentSettings(
        name, tables, store=store, neighbours=near, limits=PLENTY, operators=operators
    )


def shorten_periods(exchange: Any, clock: Callable[[], float]) -> None:
    """Let an exchange do often, and in small parts, what takes it many ticks."""
    if hasattr(exchange, "_sending"):
        exchange._sending.digest_every = exchange._sending.batch = 3
        exchange._clock = exchange._own._clock = clock


@contextmanager
def fold_early(eagerly: bool, floors: bool) -> Iterator[None]:
    """Let origins fold after a few restarts, and forget names, where it else takes dozens."""
    constants = (EAGER if eagerly else {}) | (FLOORS if floors else {})
    before = {name: getattr(own, name) for name in constants}
    vars(own).update(constants)
    try:
        yield
    finally:
        vars(own).update(before)
