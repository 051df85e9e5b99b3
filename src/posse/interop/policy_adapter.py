"""Policies that act on observations, as PettingZoo's do, played as algorithms of the lab."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.algorithms.algorithm import Problem
from posse.interop.observations import (
    Neighbourhood,
    Observation,
    RoundObservations,
    format_agent_name,
    validate_action,
)
from posse.randomness import FloatArray, IntArray, Randomness

PolicyFunction = Callable[[str, Observation, np.random.Generator], Any]


@dataclass(frozen=True)
class FixedPolicy:
    """A policy of the observations that `parallel_env` gives, as an algorithm for `simulate`.

    policy: a function of an agent ("agent_0", ...), its observation and a generator, that gives
            the arm; the same for all agents and runs, so it must keep nothing between its calls.
            Policies that learn are played by `LearningPolicy`.
    slots:  as of `parallel_env`.

    A round costs a call of Python for every agent, on the reference engine.

    >>> from posse.interop.pettingzoo import FixedPolicy
    >>> def stay(agent, observation, generator):
    ...     won = observation["reward"][0] > 0
    ...     return observation["arm"] if won else generator.integers(3)
    >>> bandit, network = posse.Bandit.bernoulli([0.9, 0.2, 0.1]), posse.networks.cycle(4)
    >>> result = posse.simulate(bandit, network, FixedPolicy(stay), horizon=50, runs=2)
    >>> result.regret.shape
    (2, 50)
    """

    name: ClassVar[str] = "played"

    policy: Callable[..., Any]
    slots: int | None = None

    def __post_init__(self) -> None:
        _validate_slots(self)
        if isinstance(self.policy, type) or not callable(self.policy):
            raise ValueError(
                "policy must be a function of agent, observation and generator that gives an arm "
                "(a class that makes one for each run is for LearningPolicy), "
                f"got {validation.format_value(self.policy)}"
            )

    def init(self, problem: Problem) -> _PlayState:
        """Nothing was seen yet; all runs have the one policy."""
        return _PlayState.create(problem, self.slots, [self.policy] * problem.n_runs)

    def choose(self, state: _PlayState, t: int, generator: Randomness) -> NDArray[np.intp]:
        """Ask the policy for each agent in turn."""
        return state.choose_arms(generator)

    def learn(
        self, state: _PlayState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> _PlayState:
        """Agents see the round."""
        return state.observe_round(arms, rewards, weights)

    def numbers_sent(self, state: _PlayState, t: int, links: IntArray) -> IntArray:
        """An arm and a reward over every link in use."""
        return 2 * links


@dataclass(frozen=True)
class LearningPolicy:
    """Policies that learn while they play, one fresh in every run, as an algorithm for `simulate`.

    make:  a function, or a class, of a `posse.algorithms.Problem` (n_agents, n_arms, horizon,
           family, network) that returns a policy as in `FixedPolicy`: a function of agent,
           observation and generator, which may store what it learns until the run ends.
    slots: as of `parallel_env`.
    """

    name: ClassVar[str] = "learning"

    make: Callable[..., Any]
    slots: int | None = None

    def __post_init__(self) -> None:
        _validate_slots(self)
        if not callable(self.make):
            raise ValueError(
                "make must be a function or class that gives a policy for each run, "
                f"got {validation.format_value(self.make)}"
            )

    def init(self, problem: Problem) -> _PlayState:
        """Nothing was seen yet; every run has a policy of its own."""
        policies = [self.make(problem) for _ in range(problem.n_runs)]
        for policy in policies:
            if not callable(policy):
                raise ValueError(
                    f"make must give functions of agent, observation and generator, "
                    f"got {validation.format_value(policy)}"
                )
        return _PlayState.create(problem, self.slots, policies)

    choose = FixedPolicy.choose
    learn = FixedPolicy.learn
    numbers_sent = FixedPolicy.numbers_sent


def _validate_slots(algorithm: Any) -> None:
    if algorithm.slots is not None:
        slots = validation.validate_integer("slots", algorithm.slots, at_least=1)
        object.__setattr__(algorithm, "slots", slots)


@dataclass(frozen=True, eq=False)
class _PlayState:
    """Between rounds: who plays each run, and what was seen."""

    policies: Sequence[PolicyFunction]  # (R,)
    neighbourhood: Neighbourhood
    last_round: RoundObservations
    n_arms: int

    @classmethod
    def create(
        cls, problem: Problem, slots: int | None, policies: Sequence[PolicyFunction]
    ) -> _PlayState:
        neighbourhood = Neighbourhood.from_network(problem.network, slots)
        return cls(
            policies,
            neighbourhood,
            neighbourhood.observe_nothing(problem.n_runs, problem.n_arms),
            problem.n_arms,
        )

    def choose_arms(self, generator: Any) -> NDArray[np.intp]:
        """What the policies play: (R, N); run r draws from its own stream, agent after agent."""
        arms = np.empty(self.last_round.arms.shape, dtype=np.intp)
        streams = getattr(generator, "generators", (generator,))  # one alone serves one run
        for run, (policy, stream) in enumerate(zip(self.policies, streams, strict=True)):
            for agent in range(len(self.neighbourhood.neighbours)):
                name = format_agent_name(agent)
                action = policy(name, self.last_round.of_agent(run, agent), stream)
                arms[run, agent] = validate_action(name, action, self.n_arms)
        return arms

    def observe_round(
        self, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> _PlayState:
        t = self.last_round.t + 1
        last_round = self.neighbourhood.observe_round(t, self.n_arms, arms, rewards, weights)
        return _PlayState(self.policies, self.neighbourhood, last_round, self.n_arms)
