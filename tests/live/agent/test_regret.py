"""Live agents that lose a fifth of their messages learn as well as the lab's Algorithm 1."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import posse

STUDIES = Path(__file__).parents[3] / "studies"
here = SimpleNamespace(**runpy.run_path(str(STUDIES / "live_regret.py")))
RUNS = 8  # `make study` plays 200


@pytest.mark.long
@pytest.mark.parametrize(
    ("exchange", "most", "slack"),
    # Flows are so far within that 1 of 200 seeds fails in 8 runs; origins may be as bad as
    # synchronous merges, and 1 of 100 seeds fails if they are.
    [("flows", 1.3, 0.0), ("origins", 1.0, 2.33)],
)
def test_regret_beside_synchronous_merges(exchange, most, slack):
    """Flows within 30%, origins no worse up to some standard errors over runs."""
    synchronous = here.of_the_lab("cycle", posse.Decentralized(posse.ThompsonSampling()), 2000)
    regrets = [here.of_live_agents("cycle", exchange, seed) for seed in range(RUNS)]
    limit = most * np.mean(synchronous)
    error = np.hypot(here.standard_error(regrets), most * here.standard_error(synchronous))
    print(f"{exchange}: {here.describe(regrets)}, at most {limit:.2f}")
    assert np.mean(regrets) <= limit + slack * error
