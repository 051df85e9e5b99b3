"""UCB-Network: upper confidence bounds of the observations received within some hops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.algorithms.algorithm import Problem
from posse.algorithms.rivals.message_passing import (
    ForcedReceivedIndex,
    ReceivedState,
    count_numbers_passed,
    init_received,
)
from posse.randomness import FloatArray, IntArray


@dataclass(frozen=True)
class UCBNetwork(ForcedReceivedIndex):
    """Q = x + 2 sigma sqrt(2 ln t / m) of the m rewards within `hops`, with mean x.

    Source: Kolla, Jagannathan, Gopalan, ToN 2018 (UCB-Network, one hop); Dubey and Pentland, ICML
    2020, and Lee, Schmid, Yun 2023 (more hops); Yang et al. 2021-22 (CO-UCB, all hops). Constants
    read in public code, which has 2 or 3 in place of 2 under the root.

    Every observation (arm, reward) travels one hop per round, and every agent it reaches uses it
    once: an agent d hops away from round t + d on. In the first K rounds every agent plays every
    arm once. If links fail, an observation is passed on while it is less than `hops` rounds old, so
    with one hop it is lost for an agent that does not receive it at once; without a limit it waits.
    Under gossip of random pairs little of one hop remains.

    The agents must know sigma, or with index "kl" the family of the rewards. They send 2 numbers
    per observation over each link to an agent that lacks it: 2 per link and round with one hop, up
    to 2 (N - 1) per agent without a limit. For one hop the source proves that the regret of the
    group is at most that of a single agent times the number of cliques that cover the graph; for
    all hops, the sum over arms of ln T/gap for the group, plus terms in N, K and the diameter.

    hops: how far an observation travels, 1 or more; "diameter" or None: without a limit.
    index: "published", or "kl" for the largest q with m kl(x, q) <= ln t of the bandit's family.
    sigma: the sub-Gaussian constant of rewards; None takes the bandit's own.
    level: factor of ln t in the index, above 0; 1 as published, a smaller value explores less.
    charge_initial: False leaves out the regret of the first K rounds, as published curves do.
    """

    name: ClassVar[str] = "ucb-network"
    source: ClassVar[str] = "code"

    hops: int | str | None = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        # TOML has no None, so "diameter" stands for it
        if self.hops is None:
            object.__setattr__(self, "hops", "diameter")
        elif isinstance(self.hops, str):
            validation.validate_choice("hops", self.hops, ("diameter",))
        else:
            validation.validate_integer("hops", self.hops, at_least=1)

    @property
    def hop_limit(self) -> int | None:
        """The number of hops, None without a limit."""
        return self.hops if isinstance(self.hops, int) else None

    def init(self, problem: Problem) -> ReceivedState:
        """Start without observations."""
        self.check_problem(problem)
        return init_received(problem, self.hop_limit)

    def learn(
        self, state: ReceivedState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> ReceivedState:
        """Add the own observation and all that arrive in this round."""
        return state.add_received(*state.relay.deliver_round(arms, rewards, weights))

    def numbers_sent(self, state: ReceivedState, t: int, links: IntArray) -> FloatArray:
        """Count the observations sent over each link to an agent that lacks them: (R,)."""
        return count_numbers_passed(state.relay.count_sent(t, links))
