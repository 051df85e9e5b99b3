"""A bandit on its network as a PettingZoo environment; importing it needs PettingZoo."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from posse import validation
from posse.bandits import Bandit, ContextualBandit, Dataset, Environment
from posse.interop.observations import (
    Neighbourhood,
    Observation,
    format_agent_name,
    validate_action,
)
from posse.interop.policy_adapter import FixedPolicy
from posse.lab.reference import BlockEnvironment
from posse.lab.simulation import Simulation
from posse.lab.simulator import plan_jobs
from posse.networks import Network
from posse.randomness import FloatArray, IntArray, create_generator

Infos = dict[str, dict[str, Any]]


class BanditEnv(ParallelEnv[str, Observation, int]):  # type: ignore[misc]
    """A bandit on its network, one round per step; `parallel_env` creates one."""

    metadata: dict[str, Any] = {  # noqa: RUF012 (PettingZoo declares it so)
        "name": "posse_bandit_v0",
        "render_modes": [],
        "is_parallelizable": True,
    }
    render_mode = None

    def __init__(self, bandit: Bandit, network: Network, horizon: int, slots: int | None) -> None:
        self._simulation = _validate_problem(bandit, network, horizon)
        self._slots = _validate_slots(network, slots)
        self.possible_agents = [format_agent_name(agent) for agent in range(network.n_agents)]
        self.agents: list[str] = []
        self._action_spaces = {
            agent: spaces.Discrete(bandit.n_arms) for agent in self.possible_agents
        }
        self._observation_spaces = {
            agent: _observation_space(self._simulation, self._slots)
            for agent in self.possible_agents
        }
        self.seed: int | None = None
        self.run = -1

    def observation_space(self, agent: str) -> spaces.Dict:
        """Return the observation space, the same for all agents."""
        return self._observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete:
        """Return the action space: K arms."""
        return self._action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], Infos]:
        """Begin run 0 of a seed, or without a seed the next run of the previous seed.

        options: {"run": 5} begins that run; other options are ignored.
        """
        # A seed restarts the count of runs; without any seed the first is random.
        if seed is not None:
            self.seed = validation.validate_integer("seed", seed, at_least=0)
            self.run = -1
        elif self.seed is None:
            self.seed = secrets.randbits(32)
        run = (options or {}).get("run", self.run + 1)
        self.run = validation.validate_integer("run", run, at_least=0)
        bandit = self._simulation.bandit
        bandit.check_runs(self.run + 1)
        network = self._simulation.network.of_run(self.seed, self.run)
        playing = dataclasses.replace(self._simulation, network=network, seed=self.seed)
        # The same streams as in `simulate`, so that the same arms get the same rewards.
        self._rounds = BlockEnvironment(playing, [self.run])
        self._neighbourhood = Neighbourhood.from_network(network, self._slots)
        # A stream apart from that of the rewards: a policy that draws more numbers meets the same
        # rewards.
        self._generator = create_generator(self.seed, self.run, "policy")
        self._regret = np.zeros(network.n_agents)
        self._last_round = self._neighbourhood.observe_nothing(1, bandit.n_arms)
        self.agents = list(self.possible_agents)
        return self._observations(), self._infos(np.zeros(network.n_agents))

    def step(
        self, actions: dict[str, int]
    ) -> tuple[dict[str, Observation], dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        """Play one round; at the horizon all agents are truncated."""
        if not self.agents:
            raise ValueError("no run has begun: call reset() first")
        if not isinstance(actions, Mapping):
            raise ValueError(
                "actions must be a dict from agents to arms, "
                f"got {validation.format_value(actions)}"
            )
        if set(actions) != set(self.agents):
            odd = sorted(set(actions) ^ set(self.agents), key=str)
            raise ValueError(f"actions must have exactly one arm per agent: wrong at {odd[0]!r}")
        n_arms = self._simulation.bandit.n_arms
        arms = np.array([[validate_action(agent, actions[agent], n_arms) for agent in self.agents]])
        t = self._last_round.t + 1
        self._rounds.begin_round(t)
        cells, rewards, weights = self._rounds.play_round(t, arms)
        # Pseudo-regret: gaps between true means, without the noise of the rewards.
        gaps = self._rounds.world.gaps.take(cells)[0]
        self._regret = self._regret + gaps
        self._last_round = self._neighbourhood.observe_round(t, n_arms, arms, rewards, weights)
        # Truncation, not termination: the problem has no final state.
        over = t == self._simulation.horizon
        outcome = (
            self._observations(),
            dict(zip(self.agents, rewards[0].tolist(), strict=True)),
            dict.fromkeys(self.agents, False),
            dict.fromkeys(self.agents, over),
            self._infos(gaps),
        )
        # In PettingZoo an empty list of agents says that the episode is over.
        if over:
            self.agents = []
        return outcome

    @property
    def generator(self) -> np.random.Generator:
        """The random stream of policies in this run, the same as in `simulate`."""
        return self._generator

    @property
    def arm_order(self) -> IntArray:
        """The arm of the bandit behind action 0, 1, ... in this run: (K,)."""
        return np.asarray(self._rounds.world.order[0])

    @property
    def means(self) -> FloatArray:
        """The true means of this round, by agent and action: (N, K)."""
        shape = (len(self.possible_agents), self._simulation.bandit.n_arms)
        return np.broadcast_to(self._rounds.world.means[0], shape)

    def _observations(self) -> dict[str, Observation]:
        return {agent: self._last_round.of_agent(0, i) for i, agent in enumerate(self.agents)}

    def _infos(self, gaps: FloatArray) -> Infos:
        return {
            agent: {"gap": float(gaps[i]), "regret": float(self._regret[i])}
            for i, agent in enumerate(self.agents)
        }


def _validate_problem(bandit: Any, network: Any, horizon: Any) -> Simulation:
    """Return the problem as a validated simulation, with a placeholder for the algorithm."""
    if isinstance(bandit, ContextualBandit | Dataset | Environment):
        raise ValueError(
            "bandit: an environment of PettingZoo does not support contexts or data: use a "
            "posse.Bandit"
        )
    if isinstance(bandit, Bandit) and bandit.delay is not None:
        raise ValueError(
            "bandit: an environment does not support delayed rewards, since every step returns "
            "one: leave out .delayed()"
        )
    # The lab validates the problem as `simulate` does; no algorithm plays, the caller steps.
    players = {"agents": FixedPolicy(_refuse_call)}
    jobs = plan_jobs(bandit, network, players, horizon=horizon, runs=1, record=1)
    return jobs["agents"].simulation


def _validate_slots(network: Network, slots: int | None) -> int:
    """Return the number of neighbour slots of an observation, the same in all runs."""
    if slots is not None:
        slots = validation.validate_integer("slots", slots, at_least=1)
    if not network.is_recipe:
        return int(Neighbourhood.from_network(network, slots).neighbours.shape[1])
    if slots is None:
        raise ValueError(
            "slots must be given, the most neighbours that an agent has in any run: "
            "this network is a fresh graph in every run"
        )
    return slots


def _refuse_call(agent: str, observation: Observation, generator: np.random.Generator) -> int:
    raise AssertionError("actions come from step()")


def _observation_space(simulation: Simulation, slots: int) -> spaces.Dict:
    n_arms = simulation.bandit.n_arms
    rewards = simulation.bandit.family.rewards
    # 0 stands for a missing reward
    low = min(0.0, rewards.low)
    high = max(0.0, rewards.high)
    return spaces.Dict(
        {
            "round": spaces.Box(0, simulation.horizon, (1,), np.int64),
            "arm": spaces.Discrete(n_arms + 1),
            "reward": spaces.Box(low, high, (1,), np.float64),
            "heard": spaces.MultiBinary(slots),
            "arms": spaces.MultiDiscrete([n_arms + 1] * slots),
            "rewards": spaces.Box(low, high, (slots,), np.float64),
        }
    )
