"""A comparison of made-up results, and a path for files that may be damaged."""

import pytest

from posse.lab.comparisons import Comparison
from tests.lab.making import make


@pytest.fixture
def comparison():
    return Comparison({"dec-TS": make(1), "dec-Bayes-UCB": make(2), "alone": make(3)})


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("scratch") / "damaged.nc"
