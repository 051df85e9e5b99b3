"""Tree: exact beliefs by cancelling echoes on a spanning tree, with messages of Algorithm 1's size.

Each observation enters an agent's belief exactly once, after max(1, d) rounds, where d is the
distance in the tree: the information of `Flooding` with as many numbers per link as Algorithm 1
sends (the channel filter of decentralised data fusion: Grime and Durrant-Whyte 1994).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posse import beliefs
from posse.algorithms.algorithm import ArrivedRewards, Problem
from posse.algorithms.bayesian import BayesianState, TimedAlgorithm
from posse.networks import Gossip, Network, Static, get_link_weights, spanning_tree
from posse.randomness import FloatArray, IntArray


@dataclass(frozen=True)
class Channels:
    """The directed links of a spanning tree, sorted by receiver."""

    receiver: IntArray  # (C,)
    sender: IntArray  # (C,)
    reverse: IntArray  # (C,) the channel in the opposite direction
    starts: IntArray  # (N,) where the channels of each receiver begin
    may_fail: bool  # whether a channel may be inactive in a round

    @classmethod
    def from_network(cls, network: Network) -> Channels:
        """Build the channels of the spanning tree of a network."""
        links = spanning_tree(network)
        # every link in both directions, sorted by receiver and then by sender
        both = np.concatenate([links, links[:, ::-1]])
        receiver, sender = both[np.lexsort((both[:, 1], both[:, 0]))].T
        reverse = np.lexsort((receiver, sender))  # the rank of (sender, receiver) among all
        starts = np.searchsorted(receiver, np.arange(network.n_agents))
        may_fail = not isinstance(network.dynamics, Static)
        return cls(receiver, sender, reverse, starts, may_fail)

    def sum_incoming(self, messages: FloatArray) -> FloatArray:
        """Sum the messages that each agent receives: (..., C, K) -> (..., N, K)."""
        return np.asarray(np.add.reduceat(messages, self.starts, axis=-2))

    def find_active(self, weights: Any, n_runs: int) -> NDArray[np.bool_]:
        """Find the channels that carry a message by W(t): (R, C)."""
        n_agents = len(self.starts)
        return get_link_weights(weights, self.sender, self.receiver, n_runs, n_agents) > 0


@dataclass(frozen=True)
class TreeState(BayesianState):
    """Beliefs, the agents' own evidence, and the last message over each channel."""

    own_belief: FloatArray  # (D, R, N, K) from the agent's own rewards only
    messages: FloatArray  # (D, R, C, K) evidence, without the prior
    channels: Channels | None  # None for one agent alone
    n_active: IntArray | None  # (R,) channels that carried a message in the last round


@dataclass(frozen=True)
class Tree(TimedAlgorithm):
    """Flooding's beliefs on a spanning tree at learning rate 1, with Algorithm 1's D K numbers.

    Over each link of a breadth-first spanning tree an agent sends the sum of its evidence minus
    what it received over that link. So an observation reaches every agent once, along one path, in
    as many rounds as the path has links. Beliefs are exact posteriors; they depend neither on N nor
    on W nor on a learning rate. A message is cumulative and replaces the one before: a lost message
    causes a delay, and nothing is counted twice. The algorithm needs the tree, and a new tree when
    a link fails for good. Under gossip it is refused, since a link is rarely used there.

    Agents that send only the arms whose numbers changed send less than what is counted here.

    policy: how each agent chooses from its belief, such as `posse.ThompsonSampling()`.
    family: the reward model of the agents, with its prior; None takes the bandit's own.
    half_life: rounds after which evidence counts half, for non-stationary means; None: no discount.
    Evidence is discounted by its age, not by the time since it reached the agent.
    open: how a pull counts until its delayed reward arrives: "wait" (the same as None) ignores it;
    "count" counts it as the lowest reward and corrects it later, for feeds of successes only.

    >>> posse.Tree(posse.ThompsonSampling())
    Tree(policy=ThompsonSampling(), family=None, half_life=None, open=None)
    """

    name: ClassVar[str] = "tree"

    def init(self, problem: Problem) -> TreeState:
        """Start at the prior with empty messages, on the spanning tree of the network."""
        start = super().init(problem)
        network = problem.network
        if isinstance(network.dynamics, Gossip):
            raise ValueError(
                f"Tree cannot play on {network}: under gossip of random pairs a link of its "
                "spanning tree is hardly ever used; use Decentralized, or a network without gossip"
            )
        channels = Channels.from_network(network) if network.n_agents > 1 else None
        n_channels = 0 if channels is None else len(channels.receiver)
        shape = (len(start.belief), problem.n_runs, n_channels, start.belief.shape[-1])
        return TreeState(
            **vars(start),
            own_belief=start.belief,
            messages=np.zeros(shape),
            channels=channels,
            n_active=None
            if channels and channels.may_fail
            else np.full(problem.n_runs, n_channels),
        )

    def learn(
        self,
        state: BayesianState,
        arms: NDArray[np.intp],
        rewards: FloatArray,
        weights: Any,
        contexts: FloatArray | None = None,
    ) -> TreeState:
        """Apply Bayes' rule to the own reward, then exchange messages in the tree."""
        assert isinstance(state, TreeState)  # made by init
        own_belief = beliefs.fade(state.own_belief, state.family, self.discount_factor)
        own_belief = beliefs.observe(
            own_belief, arms, rewards, state.family, 1.0, contexts, state.belief
        )
        return self._exchange_messages(state, own_belief, weights)

    def learn_delayed(
        self, state: BayesianState, arms: NDArray[np.intp], arrivals: ArrivedRewards, weights: Any
    ) -> TreeState:
        """Apply Bayes' rule to the rewards that arrived, then exchange messages in the tree."""
        assert isinstance(state, TreeState)  # made by init
        faded = beliefs.fade(state.own_belief, state.family, self.discount_factor)
        own_belief = self._observe_delayed(state, arms, arrivals, 1.0, faded)
        return self._exchange_messages(state, own_belief, weights)

    def _exchange_messages(
        self, state: TreeState, own_belief: FloatArray, weights: Any
    ) -> TreeState:
        """Send a message over every active channel and return the new state."""
        channels = state.channels
        if channels is None:
            return replace(state, belief=own_belief, own_belief=own_belief)
        # messages carry evidence without the prior, so that it is not counted by every sender
        prior = state.family.prior().reshape(-1, 1, 1, 1)
        before = self.discount_factor * state.messages
        evidence = own_belief - prior + channels.sum_incoming(before)  # (D, R, N, K)
        # all evidence of the sender except what came from the receiver: no echo is counted
        messages = evidence[:, :, channels.sender] - before[:, :, channels.reverse]
        n_active = state.n_active
        if channels.may_fail:
            active = channels.find_active(weights, own_belief.shape[1])
            # an inactive channel keeps its last message, discounted
            messages = np.where(active[..., None], messages, before)
            n_active = active.sum(axis=1)
        return replace(
            state,
            belief=own_belief + channels.sum_incoming(messages),
            own_belief=own_belief,
            messages=messages,
            n_active=n_active,
        )

    def numbers_sent(self, state: TreeState, t: int, links: IntArray) -> FloatArray:
        """Count D K numbers over every active channel of the tree: (R,)."""
        assert state.n_active is not None  # counted by learn where links fail
        n_coordinates, *_, n_arms = state.belief.shape
        return np.asarray(state.n_active * n_coordinates * n_arms, dtype=np.float64)
