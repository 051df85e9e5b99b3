"""Federated LinUCB: an agent uploads to a server once its information has grown enough."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.algorithms.algorithm import Problem
from posse.algorithms.rivals.initial_pulls import noise_scale
from posse.algorithms.rivals.lin_ucb import RidgeRegression, check_regression
from posse.policies import argmax
from posse.randomness import FloatArray, IntArray, Randomness


@dataclass(frozen=True)
class FederatedState:
    """The regressions of the agents, their data not yet uploaded, and the data of the server."""

    ridge: RidgeRegression  # (D, R, N, K): as downloaded, plus own visits since
    unsent: FloatArray  # (D, R, N, K): own visits since the last upload
    server: FloatArray  # (D, R, 1, K)
    growth: FloatArray  # (R, N) of ln det since the last upload
    limit: float  # of the growth, above which an agent uploads
    n_uploads: IntArray  # (R,) agents that uploaded in the last round


@dataclass(frozen=True)
class FedLinUCB:
    """LinUCB whose agents upload to a server when the determinant of their data has grown.

    An agent uploads its sums when det(A with new data) > (1 + threshold) det(A), and downloads the
    sums of all uploads: about d log T times instead of T. If every arm has its own weights, det is
    the product over arms. The server is not an agent, and the network is ignored. Agents that
    upload in the same round all do so before the first download.

    From memory of He, Wang, Min and Gu, "A simple and provably efficient algorithm for
    asynchronous federated contextual linear bandits", NeurIPS 2022: agents upload independently,
    with a threshold of 1/N^2. There the own visits count only after the upload. Here they count at
    once, as in Wang, Hu, Chen and Wang, "Distributed bandit learning: near-optimal regret with
    efficient communication", ICLR 2020, where one upload makes all agents upload.

    threshold: the relative growth of the determinant that causes an upload; None is 1/N^2.
    exploration: the factor of the standard error in the index, as in `LinUCB`.
    regularization: the ridge, above 0.
    sigma: the sub-Gaussian constant of rewards; None takes the bandit's own.
    """

    name: ClassVar[str] = "fed-lin-ucb"
    accepts_idle: ClassVar[bool] = True

    threshold: float | None = None
    exploration: float = 1.0
    regularization: float = 1.0
    sigma: float | None = None

    def __post_init__(self) -> None:
        if self.threshold is not None:
            validation.validate_number("threshold", self.threshold, at_least=0)
        check_regression(self.exploration, self.regularization, self.sigma)

    def init(self, problem: Problem) -> FederatedState:
        """Start without observations."""
        width = self.exploration * noise_scale(problem.family, self.sigma)
        ridge = RidgeRegression.without_data(problem, self.regularization, width, problem.n_agents)
        # the default of He et al.
        threshold = problem.n_agents**-2 if self.threshold is None else self.threshold
        return FederatedState(
            ridge,
            np.zeros_like(ridge.equations),
            ridge.equations[:, :, :1],
            np.zeros((problem.n_runs, problem.n_agents)),
            math.log1p(threshold),
            np.zeros(problem.n_runs, dtype=np.int64),
        )

    def choose(
        self, state: FederatedState, t: int, generator: Randomness, contexts: FloatArray
    ) -> NDArray[np.intp]:
        """Choose the arm with the largest index, ties at random: (R, N)."""
        return argmax(state.ridge.compute_index(contexts), generator)

    def learn(
        self,
        state: FederatedState,
        arms: NDArray[np.intp],
        rewards: FloatArray,
        weights: Any,
        contexts: FloatArray,
    ) -> FederatedState:
        """Add the own visit; agents above the limit upload to the server and download from it."""
        evidence = state.ridge.round_evidence(arms, rewards, contexts)
        ridge = replace(state.ridge, equations=state.ridge.equations + evidence)
        unsent = state.unsent + evidence
        # the determinant lemma: det(A + x x') = det(A) (1 + x' A^-1 x)
        growth = state.growth + np.log1p(state.ridge.prediction_variance(arms, contexts))
        is_uploading = growth > state.limit  # (R, N)
        uploads = is_uploading[None, :, :, None]
        # all uploads of the round are summed before the first download
        server = state.server + np.where(uploads, unsent, 0.0).sum(axis=2, keepdims=True)
        return replace(
            state,
            ridge=replace(ridge, equations=np.where(uploads, server, ridge.equations)),
            unsent=np.where(uploads, 0.0, unsent),
            server=server,
            growth=np.where(is_uploading, 0.0, growth),
            n_uploads=is_uploading.sum(axis=1),
        )

    def numbers_sent(self, state: FederatedState, t: int, links: IntArray) -> FloatArray:
        """Count D K numbers up and D K numbers down for every upload: (R,)."""
        n_coordinates, *_, n_beliefs = state.ridge.equations.shape
        return np.asarray(2.0 * n_coordinates * n_beliefs * state.n_uploads)
