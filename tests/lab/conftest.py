"""A comparison of made-up results, a path for files that may be damaged, and a browser."""

import pytest

from posse.lab.comparisons import Comparison

from .browsing import opened
from .making import make


@pytest.fixture
def comparison():
    return Comparison({"dec-TS": make(1), "dec-Bayes-UCB": make(2), "alone": make(3)})


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("scratch") / "damaged.nc"


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    yield from opened(tmp_path_factory.mktemp("chromium"))
