"""UCB-Network: play the upper confidence bound of all that was heard from some hops around."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.algorithms.algorithm import Problem
from posse.algorithms.rivals.message_passing import (
    ForcedIndex,
    HeardState,
    nothing_heard,
    pairs_over,
)
from posse.randomness import FloatArray, IntArray


@dataclass(frozen=True)
class UCBNetwork(ForcedIndex):
    """Q = x + 2 sigma sqrt(2 ln t / m) of the m rewards of an arm heard within `hops`, mean x.

    Source: Kolla, Jagannathan, Gopalan, ToN 2018 (UCB-Network, one hop); Dubey and Pentland, ICML
    2020, and Lee, Schmid, Yun 2023 (more hops); Yang et al. 2021-22 (CO-UCB, all hops). Constants
    read in public code, which has 2 or 3 in place of 2 under the root.

    Every observation (arm, reward) travels one hop a round, and whoever it reaches uses it once: an
    agent d hops away from round t + d on. In the first K rounds everybody plays every arm once.
    Where links fail, an observation is passed on while it is less than `hops` rounds old, so with
    one hop it is lost for whoever does not hear it at once; without a limit it waits. Under gossip
    of random pairs that leaves little of one hop.

    It assumes that agents know sigma, or with index "kl" the family of the rewards. It sends 2
    numbers an observation over each link to an agent that lacks it: 2 a link and round for one
    hop, up to 2 (N - 1) an agent for all. It proves, of one hop, that the regret of the group is at
    most that of one agent alone times the number of cliques that cover the graph; of all hops, the
    sum over arms of ln T/gap for the whole group, plus terms in N, K and the diameter.

    hops: how far an observation travels, 1 or more; "diameter" or None: as far as the network goes.
    index: "published", or "kl" for the largest q with m kl(x, q) <= ln t of the bandit's family.
    sigma: the sub-Gaussian constant of rewards; None takes the bandit's own.
    charge_initial: False leaves out the regret of the first K rounds, as published curves do.
    """

    name: ClassVar[str] = "ucb-network"
    source: ClassVar[str] = "code"

    hops: int | str | None = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hops is None:  # a file has no None
            object.__setattr__(self, "hops", "diameter")
        elif isinstance(self.hops, str):
            validation.validate_choice("hops", self.hops, ("diameter",))
        else:
            validation.validate_integer("hops", self.hops, at_least=1)

    @property
    def reach(self) -> int | None:
        """How many hops, None for all of them."""
        return self.hops if isinstance(self.hops, int) else None

    def init(self, problem: Problem) -> HeardState:
        """Nothing heard."""
        self.check(problem)
        return nothing_heard(problem, self.reach)

    def learn(
        self, state: HeardState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> HeardState:
        """Add one's own play and all that arrives in this round."""
        return state.heard(*state.roads.travel(arms, rewards, weights))

    def numbers_sent(self, state: HeardState, t: int, links: IntArray) -> FloatArray:
        """Arm and reward of each observation, over each link to an agent that lacks it: (R,)."""
        return pairs_over(state.roads.observations_sent(t, links))
