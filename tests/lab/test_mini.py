"""The paper in one page of NumPy agrees with the library."""

import importlib.util
from pathlib import Path

import numpy as np

import posse

SEVENTEEN_ARMS = [0.5] + [0.1] * 16
DEC_TS = posse.Decentralized(posse.ThompsonSampling())


def test_the_page_of_numpy_agrees_with_the_library():
    """examples/mini.py and posse.simulate, within 3 standard errors of their difference."""
    path = Path(__file__).parents[2] / "examples" / "mini.py"
    spec = importlib.util.spec_from_file_location("mini", path)
    mini = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mini)
    theirs = np.array(
        [
            mini.decentralized_thompson_sampling(
                SEVENTEEN_ARMS, mini.cycle(12), horizon=150, rng=np.random.default_rng(run)
            )
            for run in range(150)
        ]
    )
    bandit = posse.Bandit.gaussian(SEVENTEEN_ARMS)
    ours = posse.simulate(
        bandit, posse.networks.cycle(12), DEC_TS, horizon=150, runs=300, seed=1
    ).regret
    for t in (10, 50, 150):
        difference = ours[:, t - 1].mean() - theirs[:, t - 1].mean()
        variance = ours[:, t - 1].var(ddof=1) / 300 + theirs[:, t - 1].var(ddof=1) / 150
        assert abs(difference) < 3 * np.sqrt(variance)
