"""The protocol of an algorithm: three functions over a small immutable state.

Every state carries a leading axis of runs, so that one call plays a whole block of runs. R is the
number of runs, N of agents, K of arms, D of coordinates of a belief.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from posse.families import Model
from posse.networks import Network, get_link_weights, sum_by_receiver
from posse.randomness import FloatArray, IntArray, Randomness

# The arm of an agent that does not play in a round (`posse.activity`).
IDLE = -1


@dataclass(frozen=True)
class Problem:
    """The facts an algorithm may use: the sizes, the default reward model and the network.

    A state has a leading axis of n_runs, so that one call serves a whole block of runs.
    """

    n_agents: int
    n_arms: int
    horizon: int
    family: Model
    network: Network
    n_runs: int = 1

    @property
    def senders_receivers(self) -> tuple[IntArray, IntArray]:
        """Senders (C,) and receivers (C,) of all directed links, by ascending receiver.

        They are the links of the graph of this run. Where links change from round to round,
        `get_link_weights` says which of them carry a message.
        """
        return self.network.senders_receivers

    def get_link_weights(self, weights: Any) -> FloatArray:
        """Return the weight of each link in W(t), without a dense matrix: (R, C), read-only.

        A link that carries no message in this round has the weight 0.
        """
        return get_link_weights(weights, *self.senders_receivers, self.n_runs, self.n_agents)

    def sum_by_receiver(self, values: FloatArray) -> FloatArray:
        """Sum what arrives over the links at each agent: (..., C, K) -> (..., N, K).

        values: of each link, in the order of `senders_receivers`; 0 where nothing is sent.
        """
        return sum_by_receiver(values, self.senders_receivers[1], self.n_agents)


@dataclass(frozen=True)
class ArrivedRewards:
    """The n delayed rewards that arrive in round t, the oldest pull first."""

    t: int
    run: IntArray  # (n,)
    agent: IntArray  # (n,)
    arm: IntArray  # (n,)
    reward: FloatArray  # (n,)
    pull_round: IntArray  # (n,) the round of the pull, at most t
    contexts: FloatArray | None = None  # (n, d) features of the arm pulled, for contextual bandits

    @property
    def age(self) -> IntArray:
        """The delay of each reward in rounds: (n,)."""
        return self.t - self.pull_round


class Algorithm(Protocol):
    """A rule by which N agents choose arms and learn; `state` is what it stores between rounds.

    `learn` does not receive the round: a state that needs the round counts it. `weights` is the
    operator the network draws; `posse.networks.as_matrix` returns its entries.

    Optional: `numbers_sent(state, t, links)` returns how many numbers all agents together send in
    round t, (R,), given how many directed links (i receives from j) W(t) uses in each run, (R,); or
    how many are sent over each link of `Problem.senders_receivers`, (R, C).
    It is called after `learn` of the round, with the new state. All algorithms but DPE2, ComEx,
    CoopSE, and flooding on a network that changes, need only the state that `init` returned.

    Optional: `prepare(state, t, generator) -> state` is called before `choose` of round t, to draw
    random choices that the state must remember, such as which neighbour to ask.

    Optional: `choose` and `learn` take a further argument `contexts`, (R, N, d) or, with a row for
    each arm, (R, N, K, d): the features of this round's visits (`posse.ContextualBandit`). An
    algorithm without this argument is refused there, unless it has a plain family of its own.

    Optional: `learn_delayed(state, arms, arrivals, weights)` replaces `learn` for bandits with
    delayed rewards (`posse.Bandit.delayed`), and where agents sleep (`posse.activity`): arms (R, N)
    are the arms played in this round, IDLE (-1) for an agent that does not play; `arrivals`
    (`ArrivedRewards`) are the rewards that arrive in it. An algorithm without it is refused there,
    unless agents only sleep and `accepts_idle = True` says that `learn` itself takes the arm IDLE,
    with a reward of 0. With `needs_fixed_links = True` links must not fail while agents sleep.
    """

    name: ClassVar[str]

    def init(self, problem: Problem) -> Any:
        """Return the state before round 1."""

    def choose(self, state: Any, t: int, generator: Randomness) -> NDArray[np.intp]:
        """Return the arms played in round t: (R, N)."""

    def learn(
        self,
        state: Any,
        arms: NDArray[np.intp],  # (R, N)
        rewards: FloatArray,  # (R, N)
        weights: Any,  # W(t), applied as weights @ array
    ) -> Any:
        """Return the state after the rewards and the messages of the round."""
