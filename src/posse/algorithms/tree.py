"""Tree: exact beliefs by cancelling echoes on a spanning tree, with messages of Algorithm 1's size.

Each observation is in an agent's belief exactly once, after max(1, d) rounds, d the distance in the
tree: the information of `Flooding` for as many numbers a link as Algorithm 1 sends (the channel
filter of decentralised data fusion: Grime and Durrant-Whyte 1994).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posse import beliefs
from posse.algorithms.algorithm import Heard, Problem
from posse.algorithms.bayesian import BayesianState, Timed
from posse.networks.gossip import Gossip
from posse.networks.network import Network
from posse.networks.operators import SparseRuns, SparseWeights, UniformWeights, as_matrix
from posse.networks.spanning import spanning_tree
from posse.networks.static import Static
from posse.randomness import FloatArray, IntArray


@dataclass(frozen=True)
class Channels:
    """The directed links of a spanning tree, sorted by who listens."""

    listener: IntArray  # (C,)
    speaker: IntArray  # (C,)
    back: IntArray  # (C,) which channel leads the other way
    starts: IntArray  # (N,) where the channels of each listener begin
    changing: bool  # whether some may be silent in a round

    @classmethod
    def of(cls, network: Network) -> Channels:
        """Those of the network's spanning tree."""
        links = spanning_tree(network)
        both = np.concatenate([links, links[:, ::-1]])
        listener, speaker = both[np.lexsort((both[:, 1], both[:, 0]))].T
        back = np.lexsort((listener, speaker))  # the rank of (speaker, listener) among all
        starts = np.searchsorted(listener, np.arange(network.n_agents))
        changing = not isinstance(network.dynamics, Static)
        return cls(listener, speaker, back, starts, changing)

    def sums(self, told: FloatArray) -> FloatArray:
        """For each agent, the sum over its channels: (..., C, K) -> (..., N, K)."""
        return np.asarray(np.add.reduceat(told, self.starts, axis=-2))

    def used(self, weights: Any, n_runs: int) -> NDArray[np.bool_]:
        """Which channels carry a message by W(t), (R, C): the listener hears the speaker."""
        n_agents = len(self.starts)
        found: FloatArray
        if isinstance(weights, UniformWeights):
            return np.ones((n_runs, len(self.listener)), dtype=bool)
        if isinstance(weights, SparseRuns):
            first = np.arange(0, n_runs * n_agents, n_agents)[:, None]
            rows, columns = np.broadcast_arrays(first + self.listener, first + self.speaker)
            found = np.asarray(weights.blocks[rows.ravel(), columns.ravel()]).reshape(rows.shape)
        elif isinstance(weights, SparseWeights) or hasattr(weights, "tocsr"):
            matrix = weights.weights if isinstance(weights, SparseWeights) else weights.tocsr()
            found = np.asarray(matrix[self.listener, self.speaker]).reshape(1, -1)
        else:
            found = as_matrix(weights, n_agents, n_runs)[..., self.listener, self.speaker]
        return np.broadcast_to(found > 0, (n_runs, len(self.listener)))


@dataclass(frozen=True)
class TreeState(BayesianState):
    """Beliefs, what agents saw themselves, and what each last heard over each of its channels."""

    own: FloatArray  # (D, R, N, K) the belief from one's own rewards alone
    told: FloatArray  # (D, R, C, K) evidence, without the prior
    channels: Channels | None  # None for one agent alone
    in_use: IntArray | None  # (R,) how many channels carried a message in the last round


@dataclass(frozen=True)
class Tree(Timed):
    """Flooding's beliefs on a spanning tree at learning rate 1, for Algorithm 1's D K numbers.

    Over each link of a breadth-first spanning tree an agent tells the sum of all it knows, but for
    what it heard from the other end: an observation comes to everybody once, by one way, in as many
    rounds as there are links between them in the tree. Beliefs are exact posteriors; neither N nor
    W nor a learning rate enters. A message says all there is to say so far and takes the place of
    the one before, so that a lost one delays and nothing is ever counted twice. What it needs is
    the tree, and another one when a link of it is gone for good. Under gossip a link is used once
    in a long while, so it is refused there.

    Agents that send only arms whose numbers changed send less than what is counted here.

    policy: how each agent chooses from its belief, such as `posse.ThompsonSampling()`.
    family: the rewards that agents believe in, with their prior; None takes the bandit's own.
    half_life: the rounds after which evidence weighs half, where means drift; None: never forget.
    What reaches an agent late has faded on its way: its age counts, not how long it is known.
    open: what a pull is until its reward comes, in delayed bandits: "wait" (None too) is nothing
    yet; "count" is the lowest reward, corrected later, for who hears of successes only.

    >>> posse.Tree(posse.ThompsonSampling())
    Tree(policy=ThompsonSampling(), family=None, half_life=None, open=None)
    """

    name: ClassVar[str] = "tree"

    def init(self, problem: Problem) -> TreeState:
        """Nothing told yet; the tree is that of the problem's network."""
        start = super().init(problem)
        network = problem.network
        if isinstance(network.dynamics, Gossip):
            raise ValueError(
                f"Tree cannot play on {network}: under gossip of random pairs a link of its "
                "spanning tree is hardly ever used; take Decentralized, or a network without gossip"
            )
        channels = Channels.of(network) if network.n_agents > 1 else None
        n_channels = 0 if channels is None else len(channels.listener)
        shape = (len(start.belief), problem.n_runs, n_channels, start.belief.shape[-1])
        return TreeState(
            **vars(start),
            own=start.belief,
            told=np.zeros(shape),
            channels=channels,
            in_use=None if channels and channels.changing else np.full(problem.n_runs, n_channels),
        )

    def learn(
        self,
        state: BayesianState,
        arms: NDArray[np.intp],
        rewards: FloatArray,
        weights: Any,
        contexts: FloatArray | None = None,
    ) -> TreeState:
        """Bayes' rule with one's own reward, then tell the neighbours in the tree."""
        assert isinstance(state, TreeState)  # made by init
        own = beliefs.fade(state.own, state.family, self.fading)
        own = beliefs.observe(own, arms, rewards, state.family, 1.0, contexts, state.belief)
        return self._exchange(state, own, weights)

    def hear(
        self, state: BayesianState, arms: NDArray[np.intp], heard: Heard, weights: Any
    ) -> TreeState:
        """The same of late rewards."""
        assert isinstance(state, TreeState)  # made by init
        own = self._told(state, arms, heard, 1.0, state.own)
        return self._exchange(state, own, weights)

    def _exchange(self, state: TreeState, own: FloatArray, weights: Any) -> TreeState:
        """The state after every channel in use has carried what its speaker knows."""
        channels = state.channels
        if channels is None:
            return replace(state, belief=own, own=own)
        prior = state.family.prior().reshape(-1, 1, 1, 1)
        before = self.fading * state.told
        knows = own - prior + channels.sums(before)  # (D, R, N, K)
        # the sum of all channels but one, that to the listener
        told = knows[:, :, channels.speaker] - before[:, :, channels.back]
        in_use = state.in_use
        if channels.changing:
            used = channels.used(weights, own.shape[1])
            told = np.where(used[..., None], told, before)
            in_use = used.sum(axis=1)
        return replace(state, belief=own + channels.sums(told), own=own, told=told, in_use=in_use)

    def numbers_sent(self, state: TreeState, t: int, links: IntArray) -> FloatArray:
        """D K numbers over every link of the tree that is in use, either way: (R,)."""
        assert state.in_use is not None  # counted by learn where links fail
        n_coordinates, *_, n_arms = state.belief.shape
        return np.asarray(state.in_use * n_coordinates * n_arms, dtype=np.float64)
