"""Federated LinUCB: agents tell a server when they know much more than when they last did."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.algorithms.algorithm import Problem
from posse.algorithms.rivals.initial_pulls import noise_scale
from posse.algorithms.rivals.lin_ucb import Ridge, check_regression
from posse.policies.policy import argmax
from posse.randomness import FloatArray, IntArray, Randomness


@dataclass(frozen=True)
class Federated:
    """What every agent knows, what of it the server does not, and what the server knows."""

    ridge: Ridge  # (D, R, N, K): as downloaded, and one's own visits since
    unsent: FloatArray  # (D, R, N, K): one's own visits since
    server: FloatArray  # (D, R, 1, K)
    grown: FloatArray  # (R, N) by how much ln det has since
    limit: float  # and by how much it may
    talked: IntArray  # (R,) how many agents did in the last round


@dataclass(frozen=True)
class FedLinUCB:
    """LinUCB whose agents talk to a server as soon as the determinant of what they know has grown.

    An agent that has seen enough since it last talked, det(A with it) > (1 + threshold) det(A),
    sends its sums and gets those of all who did: some d log T times, not T. Where every arm has
    weights of its own, det is the product over arms. The server is no agent, the network is
    ignored, and agents that talk in one round all send before any is answered.

    Written from memory of He, Wang, Min and Gu, "A simple and provably efficient algorithm for
    asynchronous federated contextual linear bandits", NeurIPS 2022: every agent by itself, and a
    threshold of 1/N^2. There one's own visits do not count before they are sent; here they do at
    once, as in Wang, Hu, Chen and Wang, "Distributed bandit learning: near-optimal regret with
    efficient communication", ICLR 2020, who have all agents talk whenever one asks for it.

    threshold: by which share the determinant has to grow; None is 1/N^2.
    exploration: what a standard error counts in the index, as of `LinUCB`.
    regularization: the ridge, above 0.
    sigma: the sub-Gaussian constant of rewards; None takes the bandit's own.
    """

    name: ClassVar[str] = "fed-lin-ucb"

    threshold: float | None = None
    exploration: float = 1.0
    regularization: float = 1.0
    sigma: float | None = None

    def __post_init__(self) -> None:
        if self.threshold is not None:
            validation.validate_number("threshold", self.threshold, at_least=0)
        check_regression(self.exploration, self.regularization, self.sigma)

    def init(self, problem: Problem) -> Federated:
        """Nobody knows anything."""
        width = self.exploration * noise_scale(problem.family, self.sigma)
        ridge = Ridge.empty(problem, self.regularization, width, problem.n_agents)
        threshold = problem.n_agents**-2 if self.threshold is None else self.threshold
        return Federated(
            ridge,
            np.zeros_like(ridge.equations),
            ridge.equations[:, :, :1],
            np.zeros((problem.n_runs, problem.n_agents)),
            math.log1p(threshold),
            np.zeros(problem.n_runs, dtype=np.int64),
        )

    def choose(
        self, state: Federated, t: int, generator: Randomness, contexts: FloatArray
    ) -> NDArray[np.intp]:
        """The largest index, ties broken at random: (R, N)."""
        return argmax(state.ridge.index(contexts), generator)

    def learn(
        self,
        state: Federated,
        arms: NDArray[np.intp],
        rewards: FloatArray,
        weights: Any,
        contexts: FloatArray,
    ) -> Federated:
        """One's own visit is added; who has seen enough tells the server, and is told."""
        evidence = state.ridge.evidence(arms, rewards, contexts)
        ridge = replace(state.ridge, equations=state.ridge.equations + evidence)
        unsent = state.unsent + evidence
        # the determinant lemma: det(A + x x') = det(A) (1 + x' A^-1 x)
        grown = state.grown + np.log1p(state.ridge.variance(arms, contexts))
        talks = grown > state.limit  # (R, N)
        told = talks[None, :, :, None]
        server = state.server + np.where(told, unsent, 0.0).sum(axis=2, keepdims=True)
        return replace(
            state,
            ridge=replace(ridge, equations=np.where(told, server, ridge.equations)),
            unsent=np.where(told, 0.0, unsent),
            server=server,
            grown=np.where(talks, 0.0, grown),
            talked=talks.sum(axis=1),
        )

    def numbers_sent(self, state: Federated, t: int, links: IntArray) -> FloatArray:
        """D K numbers to the server and D K back for every agent that talks: (R,)."""
        n_coordinates, *_, n_beliefs = state.ridge.equations.shape
        return np.asarray(2.0 * n_coordinates * n_beliefs * state.talked)
