"""Observations of a round: the own arm and reward, and those received from neighbours."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.networks import Network, as_matrix, is_user_defined
from posse.randomness import FloatArray, IntArray

Observation = dict[str, Any]


def format_agent_name(agent: int) -> str:
    """Return the name of agent i: agent_0, agent_1, ..."""
    return f"agent_{agent}"


def validate_action(agent: str, action: Any, n_arms: int) -> int:
    """Return the arm of an action, or raise a ValueError."""
    try:
        # tensors that hold one whole number implement it as well
        arm = operator.index(action)
    except TypeError:
        arm = -1
    # a bool has an index in Python, but True is not an arm
    if not 0 <= arm < n_arms or isinstance(action, bool):
        raise ValueError(
            f"{agent} must play a whole number from 0 to {n_arms - 1}, "
            f"got {validation.format_value(action)}"
        )
    return arm


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """The neighbours of each agent in S slots, some empty for agents with few neighbours.

    neighbours: (N, S) the agent in each slot, sorted; 0 in empty slots
    filled:     (N, S) whether the slot has a neighbour
    """

    neighbours: IntArray
    filled: NDArray[np.bool_]

    @classmethod
    def from_network(cls, network: Network, slots: int | None = None) -> Neighbourhood:
        """Create the slots of a network; None: as many as the largest degree.

        User-defined dynamics may link any two agents, so every other agent gets a slot.
        """
        n_agents = network.n_agents
        if is_user_defined(network.dynamics):
            everybody = np.arange(n_agents)
            senders = [everybody[everybody != agent] for agent in range(n_agents)]
        elif network.is_directed:
            sender, receiver = network.edges.T
            senders = [sender[receiver == agent] for agent in range(n_agents)]
        else:
            senders = [network.neighbours(agent) for agent in range(n_agents)]
        # at least one slot, also for a single agent
        needed = max(1, *map(len, senders))
        if slots is not None and slots < needed:
            raise ValueError(
                f"slots must be at least {needed}, the neighbours of an agent of {network}, "
                f"got {slots}"
            )
        shape = (n_agents, needed if slots is None else slots)
        slots_array = np.zeros(shape, dtype=np.int64)
        filled = np.zeros(shape, dtype=bool)
        for agent, neighbours in enumerate(senders):
            slots_array[agent, : len(neighbours)] = neighbours
            filled[agent, : len(neighbours)] = True
        return cls(slots_array, filled)

    def observe_nothing(self, n_runs: int, n_arms: int) -> RoundObservations:
        """Return the empty observations before round 1."""
        nothing = np.full((n_runs, len(self.neighbours)), n_arms)
        return self._create_observations(0, n_arms, nothing, np.zeros(nothing.shape), False)

    def observe_round(
        self,
        t: int,
        n_arms: int,
        arms: NDArray[np.intp],  # (R, N)
        rewards: FloatArray,  # (R, N)
        weights: Any,  # W(t)
    ) -> RoundObservations:
        """Return the observations of round t: i receives from j if W(t)_ij is not zero."""
        n_runs, n_agents = arms.shape
        # As in the paper, a message flows from j to i where W(t)_ij is not zero.
        matrix = as_matrix(weights, n_agents, n_runs)  # (N, N) or (R, N, N)
        up = matrix[..., np.arange(n_agents)[:, None], self.neighbours] != 0
        return self._create_observations(t, n_arms, arms, rewards, up)

    def _create_observations(
        self, t: int, n_arms: int, arms: Any, rewards: Any, link_up: Any
    ) -> RoundObservations:
        received = np.broadcast_to(self.filled & link_up, (len(arms), *self.filled.shape))
        return RoundObservations(
            t,
            arms,
            rewards,
            received.astype(np.int8),
            np.where(received, arms[:, self.neighbours], n_arms),
            np.where(received, rewards[:, self.neighbours], 0.0),
        )


@dataclass(frozen=True, eq=False)
class RoundObservations:
    """The observations of all agents of some runs after a round."""

    t: int
    arms: NDArray[np.intp]  # (R, N)
    rewards: FloatArray  # (R, N)
    received: NDArray[np.int8]  # (R, N, S)
    neighbour_arms: IntArray  # (R, N, S)
    neighbour_rewards: FloatArray  # (R, N, S)

    def of_agent(self, run: int, agent: int) -> Observation:
        """Return the observation of one agent in one run."""
        return {
            "round": np.array([self.t]),
            "arm": int(self.arms[run, agent]),
            "reward": np.array([self.rewards[run, agent]]),
            "heard": self.received[run, agent],
            "arms": self.neighbour_arms[run, agent],
            "rewards": self.neighbour_rewards[run, agent],
        }
