"""Some of the runs, and parts joined: equal to one call to the bit."""

import numpy as np
import pytest

import posse
from posse import networks
from posse.bandits import UniformMeans
from tests.lab.making import make
from tests.lab.stored import assert_same

BANDIT = posse.Bandit.gaussian(UniformMeans(3))
NETWORK = networks.cycle(4)
TS = posse.ThompsonSampling()
BOTH = {"dec-TS": posse.Decentralized(TS), "alone": posse.Isolated(TS)}


def simulate(runs, engine="auto", **options):
    options = {"horizon": 12, "seed": 5, "record": 6, **options}
    return posse.simulate(
        BANDIT, NETWORK.failing(0.2), BOTH["dec-TS"], runs=runs, engine=engine, **options
    )


@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_two_halves_are_one_call(engine):
    first, second = (simulate(runs, engine) for runs in (range(50), range(50, 100)))
    assert_same(posse.concat([first, second]), simulate(100, engine))
    assert_same(posse.concat([second, first]), simulate(100, engine))


def test_some_of_the_runs_know_which_they_are(tmp_path):
    some = simulate(range(7, 9))
    np.testing.assert_array_equal(some.regret, simulate(9).regret[7:])
    assert some.run_numbers == range(7, 9)
    assert some.runs == 2
    assert some.settings["runs"] == {"start": 7, "stop": 9}
    assert list(some.to_xarray()["run"]) == [7, 8]
    assert sorted(set(some.to_dataframe()["run"])) == [7, 8]
    assert "runs=range(7, 9)" in repr(some)
    some.save(tmp_path / "some.nc")
    assert_same(posse.load(tmp_path / "some.nc"), some)
    assert_same(simulate(range(3)), simulate(3))
    middle = posse.concat([simulate(range(4, 5)), simulate(range(5, 6)), simulate(range(6, 8))])
    assert_same(middle, simulate(range(4, 8)))
    assert_same(posse.concat([some]), some)


def test_comparisons_are_joined_by_name():
    def compare(runs):
        return posse.compare(BANDIT, NETWORK, BOTH, horizon=5, runs=runs, engine={"alone": "auto"})

    assert_same(posse.concat([compare(range(2)), compare(range(2, 5))]), compare(5))
    other = posse.compare(BANDIT, NETWORK, {"x": BOTH["alone"]}, horizon=5, runs=range(2, 5))
    with pytest.raises(
        ValueError, match="same algorithms in the same order, got dec-TS, alone and"
    ):
        posse.concat([compare(2), other])
    with pytest.raises(ValueError, match=r"dec-TS: runs 0 to 1 and runs 3 to 4 leave a gap"):
        posse.concat([compare(2), compare(range(3, 5))])
    with pytest.raises(ValueError, match="only results or only comparisons"):
        posse.concat([compare(2), compare(range(2, 4))["alone"]])


@pytest.mark.parametrize(
    ("runs", "options", "message"),
    [
        (range(3, 5), {}, "runs 0 to 3 and runs 3 to 4 overlap"),
        (4, {}, "runs 0 to 3 and runs 0 to 3 overlap"),
        (range(5, 6), {}, "runs 0 to 3 and run 5 leave a gap"),
        (range(4, 8), {"seed": 6}, "different simulations: they differ in seed"),
        (range(4, 8), {"horizon": 13}, "they differ in horizon, recorded rounds"),
        (range(4, 8), {"engine": "reference"}, "they differ in engine"),
        (range(4, 8), {"record": [3]}, "they differ in recorded rounds"),
    ],
)
def test_what_is_not_of_one_simulation_is_refused(runs, options, message):
    with pytest.raises(ValueError, match=message):
        posse.concat([simulate(4), simulate(runs, **options)])


def test_made_up_results_are_checked_too():
    later = {"runs": {"start": 6, "stop": 12}}
    with pytest.raises(ValueError, match="differ in numbers of agents or arms"):
        posse.concat([make(settings={}), make(settings=later, agents=3)])
    for nothing in ([], None, [3], 3):
        with pytest.raises(ValueError, match="parts must be results such as"):
            posse.concat(nothing)


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        (range(3, 3), "runs must be a number or a range"),
        (range(0, 6, 2), "of step 1"),
        (
            range(2**31 - 2, 2**31),
            "runs must end at 2147483647 at most",
        ),  # or no file could hold it
        (range(-1, 3), "runs must be a number or a range"),
        ([1, 2], "runs must be a whole number"),
        ({"start": 1}, "a table of start and stop"),
    ],
)
def test_bad_runs_are_refused(runs, message):
    with pytest.raises(ValueError, match=message):
        simulate(runs)


def test_means_by_run_are_checked_to_the_last_run():
    bandit = posse.Bandit.gaussian([[0.0, 1.0], [1.0, 0.0], [0.0, 9.0]])
    options = {"horizon": 5, "seed": 1}
    some = posse.simulate(bandit, NETWORK, BOTH["alone"], runs=range(2, 3), **options)
    whole = posse.simulate(bandit, NETWORK, BOTH["alone"], runs=3, **options)
    np.testing.assert_array_equal(some.regret, whole.regret[2:])
    with pytest.raises(ValueError, match="runs is 4, but means are given for 3 runs only"):
        posse.simulate(bandit, NETWORK, BOTH["alone"], runs=range(2, 4), **options)
