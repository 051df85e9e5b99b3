"""What a file says of a part builds the same part again, or the part is only shown."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import posse
from posse import networks
from posse.import_strings import REPR_ONLY

GREEDY = posse.Greedy()
NETWORK = networks.path(3)
BANDIT = posse.Bandit.bernoulli([0.7, 0.4])
SIZE = {"horizon": 3, "runs": 2, "seed": 3}


class Cycling:
    """Plays arm 0, 1, 0, ..."""

    def init(self, problem):
        return problem

    def choose(self, state, t, generator):
        return np.full((state.n_runs, state.n_agents), t % state.n_arms)

    def learn(self, state, arms, rewards, weights):
        return state


@dataclasses.dataclass(frozen=True)
class Labelled(Cycling):
    name: str = "isolated"  # as a file calls one of ours
    policy: str = "thompson-sampling"


@dataclasses.dataclass(frozen=True)
class Optional(Cycling):
    most: float | None = 3.0


@dataclasses.dataclass(frozen=True)
class Anything(Cycling):
    thing: Any = None


@dataclasses.dataclass(frozen=True)
class Halving(Cycling):
    size: float = 1.0

    def __post_init__(self):
        object.__setattr__(self, "size", self.size / 2)


@dataclasses.dataclass(frozen=True)
class Plainly(Cycling):
    size: float = 1.0
    pairs: tuple[tuple[int, int], ...] = ((1, 2),)
    names: list[str] = dataclasses.field(default_factory=list)
    least: float | None = None
    rate: Callable[[float], float] = np.sqrt
    policy: posse.policies.Policy = GREEDY
    unknown: float = float("nan")


@dataclasses.dataclass(frozen=True)
class Standing:
    """Dynamics of no links."""

    thing: Any = None

    def sampler(self, network, n_runs):
        return lambda randomness: np.eye(network.n_agents)


@dataclasses.dataclass(frozen=True)
class Spread:
    """Means around one half."""

    width: Any = 0.1

    def __call__(self, generator):
        return 0.5 + np.mean(self.width) * generator.uniform(-1, 1, 2)


def simulate(bandit=BANDIT, network=NETWORK, algorithm=None):
    return posse.simulate(bandit, network, algorithm, **SIZE)


@pytest.mark.parametrize(
    "algorithm",
    [
        Labelled(),
        Labelled(name="mine"),
        Optional(None),
        Anything(np.arange(2.0)),
        Anything(posse.Greedy()),
        Anything({1: 2}),
        Anything(np.sqrt),
        Halving(2.0),
    ],
    ids=repr,
)
def test_what_would_come_back_as_another_is_only_shown(algorithm, tmp_path):
    with pytest.warns(UserWarning, match="can be saved but not rerun from the file"):
        result = simulate(algorithm=algorithm)
    assert list(result.settings["algorithm"]) == [REPR_ONLY]
    result.save(tmp_path / "r.nc")
    with pytest.raises(ValueError, match="cannot be rerun: the file only shows"):
        posse.experiment_of(posse.load(tmp_path / "r.nc"))


def test_own_means_and_dynamics_too():
    width, thing = np.array([0.1, 0.2]), np.arange(2)
    with pytest.warns(UserWarning, match="not rerun"):
        drawn = simulate(posse.Bandit.bernoulli(Spread(width)), algorithm=posse.CoopUCB())
    assert list(drawn.settings["bandit"]["means"]) == [REPR_ONLY]
    with pytest.warns(UserWarning, match="not rerun"):
        moving = simulate(network=NETWORK.varying(Standing(thing)), algorithm=Plainly())
    assert list(moving.settings["network"]["dynamics"]) == [REPR_ONLY]


def test_plain_fields_come_back(tmp_path, recwarn):
    bandit = posse.Bandit.bernoulli(Spread(0.2))
    network = NETWORK.varying(Standing((1, "a")))
    result = simulate(bandit, network, Plainly(2.0, ((3, 4), (5, 6)), ["a"], 0.5))
    assert not recwarn.list
    result.save(tmp_path / "r.nc")
    rerun = posse.experiment_of(posse.load(tmp_path / "r.nc")).run()
    assert (rerun.regret == result.regret).all()
