"""Published curves of dec-TS, read off the authors' figures, and the paper in one page of NumPy."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import posse

SEVENTEEN_ARMS = [0.5] + [0.1] * 16
DEC_TS = posse.Decentralized(posse.ThompsonSampling())
PUBLISHED_AT_800 = {  # mean over 1000 runs, read to +-0.05
    "cycle 36": (posse.networks.cycle(36), 13.8),
    "cycle 64": (posse.networks.cycle(64), 10.2),
    "cycle 100": (posse.networks.cycle(100), 8.9),
    "complete 64": (posse.networks.complete(64), 7.8),
}


@pytest.mark.parametrize("name", PUBLISHED_AT_800)
def test_regret_at_800_agrees_with_the_published_curve(name):
    """Within 3 sqrt(2) standard errors, plus 0.1 for reading; fixed seed, error rate 0.3%."""
    network, published = PUBLISHED_AT_800[name]
    bandit = posse.Bandit.gaussian(SEVENTEEN_ARMS, sigma=1.0)
    summary = posse.simulate(
        bandit, network, DEC_TS, horizon=800, runs=200, seed=2026, record=1
    ).summary()
    assert abs(summary.mean - published) < 3 * np.sqrt(2) * summary.standard_error + 0.1


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
