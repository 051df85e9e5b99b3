"""Weights of every shape of graph."""

from __future__ import annotations

import numpy as np
import pytest

from tests.theory.material import GRAPHS, max_degree


@pytest.fixture(params=GRAPHS)
def weights(request: pytest.FixtureRequest) -> np.ndarray:
    return max_degree(GRAPHS[request.param])
