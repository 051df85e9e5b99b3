"""Anybody's parts, without registration: run, saved, rerun where a file can name them, or refused.

A part is refused before the first round, in a sentence that says what is missing.
"""

import dataclasses
import subprocess
import sys
from typing import ClassVar

import numpy as np
import pytest

import posse
from posse import networks
from posse.families import Gaussian, Grid
from posse.families.family import REAL_LINE
from posse.import_strings import REPR_ONLY
from posse.lab.experiments import experiment_of
from tests.lab.stored import assert_same

BANDIT = posse.Bandit.gaussian([0.2, 0.8])
NETWORK = networks.path(4)
TS = posse.ThompsonSampling()
DEC_TS = posse.Decentralized(TS)


class Uniformly:
    """A plain class: chooses at random, learns nothing."""

    def init(self, problem):
        return problem

    def choose(self, state, t, generator):
        shape = (state.n_runs, state.n_agents)
        return (generator.random(shape) * state.n_arms).astype(int)

    def learn(self, state, arms, rewards, weights):
        return state


class Optimist:
    """A policy of a plain class."""

    def scores(self, belief, family, t, horizon, generator):
        return family.posterior_mean(belief) + 1 / t


@dataclasses.dataclass(frozen=True)
class Coins:
    """Rewards of -1 and 1, and nothing to believe in."""

    name: ClassVar[str] = "coins"
    means = REAL_LINE
    rewards = REAL_LINE

    def draw_rewards(self, means, generator):
        return np.where(generator.random(means.shape) < (1 + means) / 2, 1.0, -1.0)


@dataclasses.dataclass(frozen=True)
class Believable(Coins):
    """With a prior and statistics as well, but no quantiles."""

    def prior(self):
        return np.array([0.0, 1.0])

    def statistic(self, rewards):
        return np.stack([rewards, np.ones_like(rewards)])

    def sample_mean(self, belief, generator):
        return belief[0] / belief[1] + generator.standard_normal(belief[0].shape)


def spread(generator):
    return generator.uniform(0, 1, 3)


def simulate(bandit=BANDIT, algorithm=DEC_TS, network=NETWORK, **options):
    return posse.simulate(bandit, network, algorithm, **{"horizon": 6, "runs": 3, **options})


# Accepted -----------------------------------------------------------------------------------


def parts():
    """Parts that no file can build again, and what settings show of them."""

    @dataclasses.dataclass(frozen=True)
    class Local(posse.Greedy):
        patience: int = 2

    grid = Grid(
        lambda y, theta: -((y - theta) ** 2), lambda theta: theta, (0.0, 1.0), draw=lambda m, u: m
    )
    return {
        "plain algorithm": (BANDIT, Uniformly(), "Uniformly object"),
        "plain policy": (BANDIT, posse.Isolated(Optimist()), "Optimist object"),
        "local dataclass": (BANDIT, posse.Isolated(Local()), "Local(patience=2)"),
        "lambda": (posse.Bandit.gaussian(lambda g: g.uniform(0, 1, 2)), DEC_TS, "<lambda>"),
        "lambdas": (posse.Bandit(grid, [0.2, 0.8]), DEC_TS, "<lambda>"),
    }


@pytest.mark.parametrize("kind", parts())
def test_what_cannot_be_rerun_is_saved_by_its_repr_with_a_warning_at_the_start(kind, tmp_path):
    bandit, algorithm, shown = parts()[kind]
    with pytest.warns(UserWarning, match="can be saved but not rerun from the file") as caught:
        result = simulate(bandit, algorithm)
    assert [warning.filename for warning in caught] == [__file__]
    assert shown in str(caught[0].message)
    assert " at 0x" not in str(result.settings)  # the same in every process
    both = posse.compare(bandit, NETWORK, {"a": DEC_TS, "b": algorithm}, horizon=4, runs=2)
    for value, where in ((result, "algorithm|bandit"), (both, r"algorithms\.b|bandit")):
        value.save(tmp_path / "r.nc")
        loaded = posse.load(tmp_path / "r.nc")
        assert_same(loaded, value)
        with pytest.raises(ValueError, match=rf"({where}).* cannot be rerun: the file only shows"):
            experiment_of(loaded)


def test_the_warning_comes_before_the_first_round():
    class Broken(Uniformly):
        def init(self, problem):
            raise RuntimeError("the first round")

    with pytest.warns(UserWarning, match="not rerun"), pytest.raises(RuntimeError):
        simulate(algorithm=Broken())


def test_what_a_module_names_is_rerun(tmp_path, recwarn):
    bandit = posse.Bandit(Believable(), spread)
    result = simulate(bandit, posse.Decentralized(TS))
    assert not recwarn.list
    result.save(tmp_path / "r.nc")
    assert_same(experiment_of(posse.load(tmp_path / "r.nc")).run(), result)


SCRIPT = """
import dataclasses, sys, warnings
import posse
from posse.lab.experiments import experiment_of

def means(generator):
    return generator.uniform(0, 1, 3)

@dataclasses.dataclass(frozen=True)
class Mine(posse.Greedy):
    patience: int = 1

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    result = posse.simulate(posse.Bandit.gaussian(means), posse.networks.cycle(4),
                            posse.Isolated(Mine(2)), horizon=5, runs=2)
(warning,) = caught
print(warning.message)
result.save(sys.argv[1])
print(posse.load(sys.argv[1]).settings["algorithm"])
try:
    experiment_of(posse.load(sys.argv[1]))
except ValueError as error:
    print(error)
"""


@pytest.mark.long
def test_parts_of_the_main_script_are_saved(tmp_path):
    (tmp_path / "mine.py").write_text(SCRIPT)
    command = [sys.executable, tmp_path / "mine.py", tmp_path / "r.nc"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert out == [
        "<function means>, Mine(patience=2) can be saved but not rerun from the file: define each "
        "in a module, as a function or a frozen dataclass of plain fields",
        "{'name': 'isolated', 'policy': {'cannot be rerun': 'Mine(patience=2)'}}",
        "bandit.means cannot be rerun: the file only shows <function means>; define it in a "
        "module, as a function or a frozen dataclass of plain fields",
    ]
    assert posse.load(tmp_path / "r.nc").settings["bandit"]["means"] == {
        REPR_ONLY: "<function means>"
    }


def test_parts_of_two_processes_can_be_joined():
    halves = [simulate(algorithm=Uniformly(), runs=runs) for runs in (range(2), range(2, 4))]
    assert_same(posse.concat(halves), simulate(algorithm=Uniformly(), runs=4))


@pytest.mark.parametrize("kind", [np.uint64, np.int8, list])
def test_arms_may_be_whole_numbers_of_any_kind(kind):
    class Kind(Uniformly):
        def choose(self, state, t, generator):
            arms = super().choose(state, t, generator)
            return arms.tolist() if kind is list else arms.astype(kind)

    np.testing.assert_array_equal(
        simulate(algorithm=Kind()).regret, simulate(algorithm=Uniformly()).regret
    )


def test_a_family_without_beliefs_serves_algorithms_that_need_none():
    bandit = posse.Bandit(Coins(), [0.1, 0.5])
    assert (simulate(bandit, Uniformly()).pulls.sum(axis=2) == 6).all()
    assert simulate(bandit, posse.CoopUCB(sigma=1.0)).engine == "reference"
    assert simulate(bandit, posse.Isolated(TS, family=Gaussian())).engine == "reference"


# Refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bandit", "algorithm", "sentence"),
    [
        (
            posse.Bandit(Coins(), [0.1, 0.5]),
            DEC_TS,
            r"the bandit's family, the model of algorithm, Coins\(\) lacks prior and statistic and "
            "sample_mean: see posse.families.Family",
        ),
        (
            posse.Bandit(Believable(), [0.1, 0.5]),
            posse.Isolated(posse.BayesUCB()),
            r"Believable\(\) lacks mean_quantile",
        ),
        (BANDIT, Uniformly, "algorithm must be one such as .*, got the class Uniformly, not an ob"),
        (BANDIT, object(), "algorithm must be one such as .*, which lacks init and choose and lea"),
    ],
)
def test_what_is_missing_is_said_before_the_first_round(bandit, algorithm, sentence):
    with pytest.raises(ValueError, match=sentence) as refusal:
        simulate(bandit, algorithm)
    assert "\n" not in str(refusal.value)


def test_means_that_fail_in_a_late_run_are_refused_before_the_first_round():
    class Never(Uniformly):
        def init(self, problem):
            raise AssertionError("nothing is to be played")

    calls = []

    def tired(generator):
        calls.append(1)
        return generator.uniform(0, 1, 3 if len(calls) < 30 else 2)

    with pytest.raises(ValueError, match="every run must have 3 arms"):
        simulate(posse.Bandit.gaussian(tired), Never(), runs=50)


def test_the_order_of_arms_can_be_undone():
    seen = []

    class Watched(Uniformly):
        def learn(self, state, arms, rewards, weights):
            seen.append(arms)
            return state

    result = simulate(posse.Bandit.gaussian([0.0, 1.0, 2.0, 3.0]), Watched(), runs=range(5, 9))
    order = result.arm_order  # (runs, arms)
    played = np.stack([np.take_along_axis(order, arms, axis=1) for arms in seen])
    for arm in range(4):
        np.testing.assert_array_equal((played == arm).sum(axis=0), result.pulls[:, :, arm])
    with pytest.raises(ValueError, match="the settings have no seed"):
        _ = dataclasses.replace(result, settings={}).arm_order


def test_a_family_that_lacks_a_range_is_refused():
    class Rangeless(Gaussian):
        @property
        def rewards(self):
            raise AttributeError("rewards")

    with pytest.raises(ValueError, match=r"the bandit's family .* lacks rewards"):
        simulate(posse.Bandit(Rangeless(), [0.1, 0.2]))
