"""What every algorithm supplies: three functions over a small state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from posse.families.family import Model
from posse.networks.network import Network
from posse.randomness import FloatArray, IntArray, Randomness


@dataclass(frozen=True)
class Problem:
    """What an algorithm may know: the sizes, the default reward model and the network.

    States carry a leading axis of runs, so one call serves a whole block of n_runs of them.
    """

    n_agents: int
    n_arms: int
    horizon: int
    family: Model
    network: Network
    n_runs: int = 1


@dataclass(frozen=True)
class Heard:
    """The n rewards that arrive in round t of a delayed bandit, those of longest ago first."""

    t: int
    run: IntArray  # (n,)
    agent: IntArray  # (n,)
    arm: IntArray  # (n,)
    reward: FloatArray  # (n,)
    pulled: IntArray  # (n,) the round of the pull, t at most
    contexts: FloatArray | None = None  # (n, d) of the arm pulled, where there are contexts

    @property
    def age(self) -> IntArray:
        """How many rounds ago each was pulled: (n,)."""
        return self.t - self.pulled


class Algorithm(Protocol):
    """One way for N agents to choose and learn; `state` is whatever it keeps between rounds.

    `learn` is not told the round: a state that needs it counts. `weights` is whatever the network
    draws; `posse.networks.as_matrix` gives its entries to those who need more than a product.

    Optional: `numbers_sent(state, t, links)` says how many numbers all agents together send in
    round t, (R,), given how many directed links (i hears j) W(t) uses in each run, (R,); it is
    asked after `learn` of the round, with the new state. All but DPE2, ComEx, CoopSE,
    and flooding on a network that changes, need no more of the state than what `init` made.

    Optional: `prepare(state, t, generator) -> state` is asked before `choose` of round t, for what
    is drawn at random and must be remembered, such as which neighbour to ask.

    Optional: `choose` and `learn` have a further argument `contexts`, (R, N, d) or, with a row for
    each arm, (R, N, K, d): what agents see of this round's visits (`posse.ContextualBandit`). An
    algorithm without it is refused there, unless it has a plain family of its own.

    Optional: `hear(state, arms, heard, weights)` takes the place of `learn` where rewards come late
    (`posse.Bandit.delayed`): arms (R, N) are those played in this round, `heard` holds the rewards
    that arrive in it. An algorithm without it is refused there.
    """

    name: ClassVar[str]

    def init(self, problem: Problem) -> Any:
        """The state before round 1."""

    def choose(self, state: Any, t: int, generator: Randomness) -> NDArray[np.intp]:
        """The arms played in round t: (R, N)."""

    def learn(
        self,
        state: Any,
        arms: NDArray[np.intp],  # (R, N)
        rewards: FloatArray,  # (R, N)
        weights: Any,  # W(t), applied as weights @ array
    ) -> Any:
        """The state after the round's rewards and messages."""
