"""Policies that act on observations, such as PettingZoo's, as algorithms of the lab."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.algorithms import Problem
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
    """A fixed policy on the observations of `parallel_env`, as an algorithm for `simulate`.

    policy: a function of an agent ("agent_0", ...), its observation and a generator that returns
            the arm; the same for all agents and runs, so it must not store state between calls.
            Use `LearningPolicy` for policies that learn.
    slots:  as in `parallel_env`.

    It runs on the reference engine, with one Python call per agent and round.

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
        # A class is callable, too, but each call would create a policy instead of choosing an arm.
        if isinstance(self.policy, type) or not callable(self.policy):
            raise ValueError(
                "policy must be a function of agent, observation and generator that returns an arm "
                "(for a class that creates one per run use LearningPolicy), "
                f"got {validation.format_value(self.policy)}"
            )

    def init(self, problem: Problem) -> _PlayState:
        """Create the state before round 1; all runs share the policy."""
        return _PlayState.create(problem, self.slots, [self.policy] * problem.n_runs)

    def choose(self, state: _PlayState, t: int, generator: Randomness) -> NDArray[np.intp]:
        """Call the policy for each agent in turn."""
        return state.choose_arms(generator)

    def learn(
        self, state: _PlayState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> _PlayState:
        """Store the observations of the round."""
        return state.observe_round(arms, rewards, weights)

    def numbers_sent(self, state: _PlayState, t: int, links: IntArray) -> IntArray:
        """Count an arm and a reward over every link in use."""
        return 2 * links


@dataclass(frozen=True)
class LearningPolicy:
    """A policy that learns while it plays, a new one in every run, as an algorithm.

    make:  a function, or a class, of a `posse.algorithms.Problem` (n_agents, n_arms, horizon,
           family, network) that returns a policy as in `FixedPolicy`: a function of agent,
           observation and generator, which may store what it learns until the run ends.
    slots: as in `parallel_env`.
    """

    name: ClassVar[str] = "learning"

    make: Callable[..., Any]
    slots: int | None = None

    def __post_init__(self) -> None:
        _validate_slots(self)
        if not callable(self.make):
            raise ValueError(
                "make must be a function or class that returns a policy for each run, "
                f"got {validation.format_value(self.make)}"
            )

    def init(self, problem: Problem) -> _PlayState:
        """Create the state before round 1; every run has its own policy."""
        # One policy per run: knowledge from one run would spoil the independence of the next.
        policies = [self.make(problem) for _ in range(problem.n_runs)]
        for policy in policies:
            if not callable(policy):
                raise ValueError(
                    f"make must return functions of agent, observation and generator, "
                    f"got {validation.format_value(policy)}"
                )
        return _PlayState.create(problem, self.slots, policies)

    # Both adapters differ only in how a run gets its policy.
    choose = FixedPolicy.choose
    learn = FixedPolicy.learn
    numbers_sent = FixedPolicy.numbers_sent


def _validate_slots(algorithm: Any) -> None:
    if algorithm.slots is not None:
        slots = validation.validate_integer("slots", algorithm.slots, at_least=1)
        object.__setattr__(algorithm, "slots", slots)


@dataclass(frozen=True, eq=False)
class _PlayState:
    """The state between rounds: the policy of each run and the last observations."""

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
        """Return the arms of the policies: (R, N); run r draws from its stream, agent by agent."""
        arms = np.empty(self.last_round.arms.shape, dtype=np.intp)
        # a single Generator serves a single run
        streams = getattr(generator, "generators", (generator,))
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
