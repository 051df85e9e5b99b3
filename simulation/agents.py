"""Agents for simulations: cheap policies and signatures, the same in every run."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from posse import families
from posse.contexts import Contexts
from posse.live.agent.measures import Metric
from posse.live.config.agent_settings import AgentSettings
from posse.live.config.experiment_settings import ExperimentSettings
from posse.live.exchange import Origins
from posse.live.messaging.inbox import MessageLimits
from simulation.bits import CONTEXT_BITS, MOST_BITS, highest_reward

LIAR = "z"
PLENTY = MessageLimits(1e9, 1e12)
CONTEXT = {"member": "flag"}  # of visitors, in schedules with contexts
HOLDOUT = 0.3  # of decisions, in schedules with measures
CONTROL = "red"
METRICS = (Metric("cost", (0.0, 1.0)), Metric("latency", (0.0, 1.0), "higher", 0.9))
QUIET = 60.0  # seconds in place of a day
GRACE = 6  # ticks


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
    contexts: bool = False,
    measures: bool = False,
) -> AgentSettings:
    """The settings of an agent, as its agent.toml would give them."""
    tables = {
        experiment: ExperimentSettings(
            arms=arms,
            family=families.Linear() if contexts else families.Gaussian(),
            context=Contexts(CONTEXT) if contexts else None,
            policy=EvenPolicy(),
            exchange=exchange,
            reward_range=(0.0, highest_reward(CONTEXT_BITS if contexts else MOST_BITS)),
            reward_window=window,
            default_reward=default_reward,
            # which must not be shorter than the window, and is for those that close
            remember=None if window is None or remember is None else max(window, remember),
            half_life=half_life,
            holdout=HOLDOUT if measures else None,
            control_arm=CONTROL if measures else None,
            metrics=METRICS if measures else (),
        )
        for experiment, arms in experiments
    }
    near = dict.fromkeys(neighbours, "")
    return AgentSettings(
        name, tables, store=store, neighbours=near, limits=PLENTY, operators=operators
    )


def shorten_periods(exchange: Any, eager: bool) -> None:
    """Let an exchange do often, and in small parts, what takes it many ticks.

    eager: it compacts after a few restarts, where it else takes dozens.
    """
    if isinstance(exchange, Origins):
        exchange.sender.digest_every = exchange.sender.batch = 3
        exchange.grace_ticks = GRACE
        exchange.longest_rest = 2 * GRACE
        exchange.compaction.every = 3
        exchange.compaction.quiet = QUIET
        if eager:
            exchange.compaction.fold_above = 2
            exchange.compaction.most_unfolded = 6
            exchange.compaction.most_names = 5
