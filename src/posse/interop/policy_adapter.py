"""Policies that act on observations, as PettingZoo's do, played as algorithms of the lab."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.algorithms.algorithm import Problem
from posse.interop.observations import Observation, Seen, Sight, arm_of, name_of
from posse.randomness import FloatArray, IntArray, Randomness

Policy = Callable[[str, Observation, np.random.Generator], Any]


@dataclass(frozen=True)
class Played:
    """A policy of the observations that `parallel_env` gives, as an algorithm for `simulate`.

    policy: a function of an agent ("agent_0", ...), its observation and a generator, that gives
            the arm; the same for all agents and runs, so it must keep nothing between its calls.
            Policies that learn are played by `Learning`.
    slots:  as of `parallel_env`.

    A round costs a call of Python for every agent, on the reference engine.

    >>> from posse.interop.pettingzoo import Played
    >>> def stay(agent, observation, generator):
    ...     won = observation["reward"][0] > 0
    ...     return observation["arm"] if won else generator.integers(3)
    >>> bandit, network = posse.Bandit.bernoulli([0.9, 0.2, 0.1]), posse.networks.cycle(4)
    >>> result = posse.simulate(bandit, network, Played(stay), horizon=50, runs=2)
    >>> result.regret.shape
    (2, 50)
    """

    name: ClassVar[str] = "played"

    policy: Callable[..., Any]
    slots: int | None = None

    def __post_init__(self) -> None:
        _check(self)
        if isinstance(self.policy, type) or not callable(self.policy):
            raise ValueError(
                "policy must be a function of agent, observation and generator that gives an arm "
                "(a class that makes one for each run is for Learning), "
                f"got {validation.format_value(self.policy)}"
            )

    def init(self, problem: Problem) -> _Table:
        """Nothing was seen yet; all runs have the one policy."""
        return _Table.laid(problem, self.slots, [self.policy] * problem.n_runs)

    def choose(self, state: _Table, t: int, generator: Randomness) -> NDArray[np.intp]:
        """Ask the policy for each agent in turn."""
        return state.arms(generator)

    def learn(
        self, state: _Table, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> _Table:
        """Agents see the round."""
        return state.after(arms, rewards, weights)

    def numbers_sent(self, state: _Table, t: int, links: IntArray) -> IntArray:
        """An arm and a reward over every link in use."""
        return 2 * links


@dataclass(frozen=True)
class Learning:
    """Policies that learn while they play, one fresh in every run, as an algorithm for `simulate`.

    make:  a function, or a class, of a `posse.algorithms.Problem` (n_agents, n_arms, horizon,
           family, network) that gives a policy as of `Played`: a function of agent, observation and
           generator, which may keep whatever it learns until the run ends.
    slots: as of `parallel_env`.
    """

    name: ClassVar[str] = "learning"

    make: Callable[..., Any]
    slots: int | None = None

    def __post_init__(self) -> None:
        _check(self)
        if not callable(self.make):
            raise ValueError(
                "make must be a function or class that gives a policy for each run, "
                f"got {validation.format_value(self.make)}"
            )

    def init(self, problem: Problem) -> _Table:
        """Nothing was seen yet; every run has a policy of its own."""
        policies = [self.make(problem) for _ in range(problem.n_runs)]
        for policy in policies:
            if not callable(policy):
                raise ValueError(
                    f"make must give functions of agent, observation and generator, "
                    f"got {validation.format_value(policy)}"
                )
        return _Table.laid(problem, self.slots, policies)

    choose = Played.choose
    learn = Played.learn
    numbers_sent = Played.numbers_sent


def _check(algorithm: Any) -> None:
    if algorithm.slots is not None:
        slots = validation.validate_integer("slots", algorithm.slots, at_least=1)
        object.__setattr__(algorithm, "slots", slots)


@dataclass(frozen=True, eq=False)
class _Table:
    """Between rounds: who plays each run, and what was seen."""

    policies: Sequence[Policy]  # (R,)
    sight: Sight
    seen: Seen
    n_arms: int

    @classmethod
    def laid(cls, problem: Problem, slots: int | None, policies: Sequence[Policy]) -> _Table:
        sight = Sight.of(problem.network, slots)
        return cls(policies, sight, sight.before(problem.n_runs, problem.n_arms), problem.n_arms)

    def arms(self, generator: Any) -> NDArray[np.intp]:
        """What the policies play: (R, N); run r draws from its own stream, agent after agent."""
        arms = np.empty(self.seen.arms.shape, dtype=np.intp)
        streams = getattr(generator, "generators", (generator,))  # one alone serves one run
        for run, (policy, stream) in enumerate(zip(self.policies, streams, strict=True)):
            for agent in range(len(self.sight.others)):
                name = name_of(agent)
                action = policy(name, self.seen.of(run, agent), stream)
                arms[run, agent] = arm_of(name, action, self.n_arms)
        return arms

    def after(self, arms: NDArray[np.intp], rewards: FloatArray, weights: Any) -> _Table:
        t = self.seen.t + 1
        seen = self.sight.after(t, self.n_arms, arms, rewards, weights)
        return _Table(self.policies, self.sight, seen, self.n_arms)
