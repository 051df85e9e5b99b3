"""coop-UCL: the upper credible limit of a Gaussian posterior from consensus estimates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from posse import checks
from posse.algorithms.algorithm import Problem
from posse.algorithms.consensus import Index, RunningConsensus
from posse.algorithms.forced import noise_scale


@dataclass(frozen=True)
class CoopUCL(RunningConsensus):
    """Q = m + sigma sqrt((n + f)/n / (d + N n)) Phi^-1(1 - 1/(sqrt(2 pi e) t)), f = sqrt(ln t).

    m = (d mu_0 + N s)/(d + N n) with d = sigma^2/sigma_0^2 for the prior N(mu_0, sigma_0^2).
    Landgren et al., ECC 2016, recalled, not checked against the text (medium confidence). The agent
    must know N and sigma; any network will do.

    prior_mean, prior_sd: of every arm's mean, a Gaussian.
    sigma: the sub-Gaussian constant of rewards; None takes the bandit's own.
    charge_initial: False leaves out the regret of the first K rounds, as published curves do.
    """

    name: ClassVar[str] = "coop-ucl"

    prior_mean: float = 0.0
    prior_sd: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.number("prior_mean", self.prior_mean)
        checks.number("prior_sd", self.prior_sd, above=0)

    def index(self, problem: Problem) -> Index:
        """The prior counts as d/N observations of mu_0."""
        sigma = noise_scale(problem.family, self.sigma)
        weight = (sigma / self.prior_sd) ** 2 / problem.n_agents
        return Index(weight * self.prior_mean, weight, 1.0, np.zeros(problem.n_agents))

    def scale(self, problem: Problem, t: int) -> float:
        """(sigma z_t)^2 / N, z_t the Gaussian quantile."""
        from scipy.special import ndtri

        score = -ndtri(1 / (math.sqrt(2 * math.pi * math.e) * t))
        sigma = noise_scale(problem.family, self.sigma)
        return float((sigma * score) ** 2 / problem.n_agents)
