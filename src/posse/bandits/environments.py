"""Environments of one's own: functions that pay rewards, and maybe give their true means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posse import validation
from posse.families import Family, Gaussian, check_family, is_contextual
from posse.randomness import FloatArray


@dataclass(frozen=True)
class Environment:
    """K arms whose rewards a user-defined function draws, for one run at a time.

    draw:   draw(arms, t, generator) returns the rewards (agents,) of the arms (agents,) that the
            agents play in round t = 1, 2, ...; it draws from the generator, that of the run, and
            keeps nothing between calls
    n_arms: K
    means:  means(t) returns the true means of round t, (agents, K), or (K,) where all agents share
            them. None: they are unknown, and results have reward curves in place of regret.
    family: the default reward model of the agents, with its prior; its rewards are those that
            `draw` may pay. `Gaussian()` unless given.

    Arms are played in the order of `draw` in every run.

    >>> def tides(arms, t, generator):
    ...     return np.sin(t / 50 + arms) + generator.standard_normal(len(arms))
    >>> environment = posse.bandits.Environment(tides, n_arms=3)
    >>> dec_ts = posse.Decentralized(posse.ThompsonSampling(), half_life=50)
    >>> result = posse.simulate(environment, posse.networks.cycle(5), dec_ts, horizon=9, runs=2)
    >>> result.measure, result.reward.shape
    ('reward', (2, 9))
    """

    draw: Callable[..., Any]
    n_arms: int
    means: Callable[..., Any] | None = None
    family: Family = field(default_factory=Gaussian, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "n_arms", validation.validate_integer("n_arms", self.n_arms, at_least=2)
        )
        for name, function in {"draw": self.draw, "means": self.means}.items():
            if not (callable(function) or (name == "means" and function is None)):
                raise ValueError(
                    f"{name} must be a function, got {validation.format_value(function)}"
                )
        if is_contextual(self.family):
            raise ValueError(
                "family must be one without contexts such as posse.families.Gaussian(): "
                "posse.bandits.Dataset and posse.ContextualBandit have contexts"
            )
        validation.validate_methods(
            "family", self.family, ["statistic"], "posse.families.Gaussian()"
        )
        check_family("family", self.family, [], ["rewards"])

    @property
    def per_agent(self) -> bool:
        """Whether the means differ between agents: they may, since `draw` sees all agents."""
        return True

    @property
    def drift(self) -> None:
        """None: `means` itself is a function of the round."""
        return None

    @property
    def delay(self) -> Any:
        """None: rewards arrive at once."""
        return None

    def check_runs(self, runs: int) -> None:
        """Accept any number of runs: each has a generator of its own."""

    def check_agents(self, n_agents: int) -> None:
        """Accept any number of agents: what the functions return is validated in every round."""

    def draw_rewards(
        self, arms: NDArray[np.intp], t: int, generator: np.random.Generator
    ) -> FloatArray:
        """Draw the rewards (N,) of the arms (N,) of one run, or refuse what `draw` returned."""
        drawn = self.draw(arms, t, generator)
        rewards = _read_numbers("draw", drawn, t)
        if rewards.shape != arms.shape:
            raise ValueError(
                f"draw must return {len(arms)} rewards, one for each agent, got shape "
                f"{rewards.shape} in round {t}"
            )
        inside = self.family.rewards.contains(rewards)
        if not inside.all():
            raise ValueError(
                f"draw must return finite rewards in {self.family.rewards}, those of the family, "
                f"got {float(rewards[~inside][0])!r} in round {t}"
            )
        return rewards

    def means_at(self, t: int, n_agents: int) -> FloatArray:
        """Return the true means of round t, (N, K), or refuse what `means` returned."""
        assert self.means is not None
        means = _read_numbers("means", self.means(t), t)
        shape = (n_agents, self.n_arms)
        if means.shape not in (shape, (self.n_arms,)) or not np.isfinite(means).all():
            raise ValueError(
                f"means must return finite numbers in shape {shape} (agents, arms) or "
                f"({self.n_arms},), got {validation.format_value(means)} in round {t}"
            )
        return np.broadcast_to(means, shape)


def _read_numbers(name: str, values: ArrayLike, t: int) -> FloatArray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must return numbers, got {validation.format_value(values)} in round {t}"
        ) from None
