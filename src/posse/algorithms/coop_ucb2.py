"""coop-UCB2: coop-UCB without the spectrum, which a slowly growing slack replaces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from posse import checks
from posse.algorithms.algorithm import Problem
from posse.algorithms.consensus import Index, RunningConsensus, ucb_scale


@dataclass(frozen=True)
class CoopUCB2(RunningConsensus):
    """Q = s/n + sigma sqrt(2 gamma (n + sqrt(ln t))/(N n) ln t / n), gamma = `exploration`.

    Landgren et al., CDC 2016 (their G = 1); checked against public code. The agent must know N and
    sigma; any network will do.

    exploration: gamma, above 0; more explores longer.
    sigma: the sub-Gaussian constant of rewards; None takes the bandit's own.
    charge_initial: False leaves out the regret of the first K rounds, as published curves do.
    """

    name: ClassVar[str] = "coop-ucb2"

    exploration: float = 1.01

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.number("exploration", self.exploration, above=0)

    def index(self, problem: Problem) -> Index:
        """Slack f(t) = sqrt(ln t) for all."""
        return Index(0.0, 0.0, 1.0, np.zeros(problem.n_agents))

    def scale(self, problem: Problem, t: int) -> float:
        """2 gamma sigma^2 ln t / N."""
        return ucb_scale(problem, self.exploration, self.sigma, t)
