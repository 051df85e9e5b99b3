"""Our curves against the published ones, at the paper's 1000 runs."""

import math

import numpy as np
import pytest

from posse.lab.paper import published
from posse.lab.paper.panels import panel
from posse.lab.paper.runs import Outcome, run_panel
from posse.lab.paper.store import Store
from posse.lab.results import Result


@pytest.mark.parametrize("name", published.VALUES)
def test_published_values(name, tmp_path):
    """Within 3 sqrt(2) standard errors plus 0.1 for reading from t = 50 on, 0.3 at t = 25.

    Fixed seed; about one in 300 such comparisons would fail by chance if nobody erred in reading.
    """
    whole = panel("published")
    one = type(whole)(**{**vars(whole), "curves": {name: whole.curves[name]}})
    outcome = run_panel(one, Store(tmp_path, 1), runs=1000)
    rows = published.compare(outcome)
    assert [row["time"] for row in rows] == [25, 50, 100, 200, 400, 800]
    assert [row for row in rows if not row["agrees"]] == []


def test_a_curve_that_is_off_is_found():
    times = np.array([25, 50, 100, 200, 400, 800])
    right = np.array(published.VALUES["cycle 64"])
    noise = np.random.default_rng(0).normal(0, 0.2, (200, 1))
    for off, agrees in ((0.0, True), (0.05, True), (0.4, False), (-0.4, False)):
        regret = right + off + noise - noise.mean()
        result = Result(times, regret, np.ones((200, 1, 17), int), "reference", {})
        rows = published.compare(Outcome(panel("published"), {"cycle 64": result}, 0))
        assert {row["agrees"] for row in rows} == {agrees}
        error = 0.2 / math.sqrt(200)
        assert rows[1]["in_errors"] == pytest.approx(off / math.sqrt(2) / error, rel=0.2, abs=1e-9)
