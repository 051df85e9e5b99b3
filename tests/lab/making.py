"""Results like those of a run, made without one."""

import numpy as np

from posse.lab.results import Result

SETTINGS = {"bandit": {"family": "gaussian", "means": [0.5, 0.1, 0.5]}, "seed": 7}


def make(seed=0, runs=6, length=20, agents=2, arms=3, settings=SETTINGS, engine="reference"):
    rng = np.random.default_rng(seed)
    regret = rng.exponential(size=(runs, length)).cumsum(axis=1)
    pulls = rng.multinomial(length, np.ones(arms) / arms, size=(runs, agents))
    return Result(np.arange(1, length + 1), regret, pulls, engine, settings)
