"""Results to save, and whether they came back the same to the bit."""

import dataclasses
import json

import numpy as np

from posse.lab.comparisons import Comparison
from posse.lab.results import Result


def make(seed=0, runs=2, length=3, agents=2, arms=2, settings=None, engine="reference"):
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.integers(1, 9, size=length))
    regret = rng.exponential(size=(runs, length)).cumsum(axis=1)
    pulls = rng.integers(0, 2**31, size=(runs, agents, arms))
    return Result(times, regret, pulls, engine, {"seed": seed} if settings is None else settings)


def pair():
    first = make(1, settings={"algorithm": "Thompson"})
    rng = np.random.default_rng(2)
    second = dataclasses.replace(
        first, curves=rng.random(first.regret.shape), settings={"algorithm": "Bayes-UCB", "c": None}
    )
    return Comparison({"zwei": second, "eins": first})


def assert_same(a, b):
    assert type(a) is type(b)
    if isinstance(a, Comparison):
        assert list(a) == list(b)
        for name in a:
            assert_same(a[name], b[name])
        return
    for name in ("times", "regret", "pulls"):
        left, right = getattr(a, name), getattr(b, name)
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        assert left.tobytes() == right.tobytes()
        assert not right.flags.writeable
    assert a.engine == b.engine
    assert json.dumps(a.settings) == json.dumps(b.settings)  # the order too
