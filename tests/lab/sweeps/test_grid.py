"""Grids: every combination once, in order; keys reach whatever an experiment holds."""

import copy
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import posse
from posse.lab.sweeps.grid import SweepGrid, experiment_to_data, parse_key, set_key
from posse.serialization.decode import from_data

EXPERIMENT = posse.Experiment(
    posse.Bandit.gaussian([0.5, 0.2, 0.1]),
    posse.networks.cycle(5),
    {
        "dec-TS": posse.Decentralized(posse.ThompsonSampling()),
        "TS 0.5": posse.Isolated(posse.ThompsonSampling()),
        "UCB": posse.CoopUCB2(),
    },
    horizon=30,
    runs=4,
    seed=7,
)


def changed(key, value):
    """The experiment with one key changed."""
    data = copy.deepcopy(experiment_to_data(EXPERIMENT))
    set_key(data, key, value)
    return from_data(posse.Experiment, data)


class TestGrid:
    @given(st.lists(st.lists(st.integers(), min_size=1, max_size=4), min_size=1, max_size=4))
    def test_every_combination_once_in_the_order_of_nested_loops(self, lists):
        keys = ["horizon", "runs", "seed", "network.agents"][: len(lists)]
        grid = SweepGrid.from_mapping(dict(zip(keys, lists, strict=True)))
        distinct = [list(dict.fromkeys(values)) for values in lists]
        cells = [tuple(grid.settings(point).values()) for point in grid.points()]
        assert cells == list(itertools.product(*distinct))
        assert len(grid) == len(cells) == math.prod(grid.shape)

    def test_paired_lists_run_in_step_after_the_others(self):
        grid = SweepGrid.from_mapping(
            {("network.rows", "network.columns"): [(2, 3), (4, 5)], "seed": [1, 2]}
        )
        assert grid.keys == ("seed", "network.rows", "network.columns")
        cells = [tuple(grid.labels(point).values()) for point in grid.points()]
        assert cells == [(1, 2, 3), (1, 4, 5), (2, 2, 3), (2, 4, 5)]

    def test_one_number_is_one_point_however_it_is_written(self):
        grid = SweepGrid.from_mapping(
            {"seed": [1, 1.0, True], "bandit.means": [[1, 0], [1.0, 0.0]]}
        )
        assert [axis.values for axis in grid.axes] == [((1,), (True,)), (([1, 0],),)]

    def test_labels_tell_points_apart(self):
        long = [[0.1] * 40 + [0.2], [0.1] * 40 + [0.3]]  # alike in their first characters
        networks = [posse.networks.cycle(4), posse.networks.grid(2, 3).failing(0.2)]
        grid = SweepGrid.from_mapping(
            {"bandit.means": long, "network": networks, "seed": [1, 2, 1]}
        )
        for axis in grid.axes:
            assert len(set(axis.labels)) == len(axis) == 2
        assert grid.axes[1].labels[0] == ("cycle(agents=4)",)

    def test_values_of_the_library_are_written_as_short_as_by_hand(self):
        policies = [posse.BayesUCB(), posse.BayesUCB(log_power=2.0), "bayes-ucb"]
        (axis,) = SweepGrid.from_mapping({"algorithms.dec-TS.policy": policies}).axes
        assert axis.values == (("bayes-ucb",), ({"name": "bayes-ucb", "log_power": 2.0},))
        assert axis.labels == (("bayes-ucb",), ("bayes-ucb(log_power=2.0)",))

    def test_arrays_and_ranges_are_lists(self):
        grid = SweepGrid.from_mapping({"bandit.means.1": np.array([0.1, 0.2]), "seed": range(3)})
        assert grid.shape == (2, 3)
        assert type(grid.axes[0].labels[0][0]) is float

    def test_short_names(self):
        keys = {"network.agents": [1], "algorithms.a.policy": [1], "algorithms.b.policy": [1]}
        names = SweepGrid.from_mapping(keys).short_names()
        assert list(names.values()) == ["agents", "a.policy", "b.policy"]
        assert SweepGrid.from_mapping({"network.agents": [1], "seed": [1]}).short_names() == {
            "network.agents": "agents",
            "seed": "seed",
        }
        assert list(SweepGrid.from_mapping({"bandit.means.1": [1]}).short_names().values()) == [
            "means.1"
        ]

    @pytest.mark.parametrize(
        ("grid", "sentence"),
        [
            ({}, "grid must be a dict such as"),
            ([1], "grid must be a dict such as"),
            ({"network.agents": []}, r"grid: network\.agents needs a list of values, got \[\]"),
            ({"network.agents": 3}, r"grid: network\.agents needs a list of values, got 3"),
            ({"network.agents": "34"}, "needs a list of values, got '34'"),
            ({3: [1]}, "keys of a sweep are such as 'network.agents'.* got 3"),
            ({"a..b": [1]}, "keys of a sweep are such as"),
            ({"a.b.": [1]}, "keys of a sweep are such as"),
            ({("a", "b"): [(1, 2), (3,)]}, r"each value of \(a & b\) must be a tuple of 2, got"),
            ({("a", "b"): [(1, 2)], "a": [1]}, "grid: a is there twice"),
            ({"seed": [lambda: 0]}, "grid: seed: <function .*lambda.* cannot be imported"),
        ],
    )
    def test_what_is_none_is_refused(self, grid, sentence):
        with pytest.raises(ValueError, match=sentence):
            SweepGrid.from_mapping(grid)


class TestKeys:
    def test_parts_with_dots_are_quoted(self):
        assert parse_key('algorithms."TS 0.5".policy') == ("algorithms", "TS 0.5", "policy")
        assert parse_key("algorithms.'TS 0.5'.policy") == ("algorithms", "TS 0.5", "policy")
        assert parse_key("algorithms.isolated TS.policy") == ("algorithms", "isolated TS", "policy")

    def test_nothing_changed_is_the_same_experiment(self):
        assert from_data(posse.Experiment, experiment_to_data(EXPERIMENT)) == EXPERIMENT

    def test_they_reach_all_that_an_experiment_holds(self):
        assert changed("horizon", 9).horizon == 9
        assert changed("network.graph", "star").network == posse.networks.star(5)
        assert changed("bandit.family.sigma", 2.0).bandit.family.sigma == 2.0
        assert changed("bandit.means.1", 0.3).bandit.means == (0.5, 0.3, 0.1)
        deep = changed("algorithms.dec-TS.policy", {"name": "bayes-ucb", "log_power": 1.0})
        assert deep.algorithms["dec-TS"].policy == posse.BayesUCB(1.0)
        quoted = changed('algorithms."TS 0.5".policy', "bayes-ucb")
        assert quoted.algorithms["TS 0.5"] == posse.Isolated(posse.BayesUCB())
        new = changed("algorithms.new", {"name": "flooding", "policy": "thompson-sampling"})
        assert new.algorithms["new"] == posse.Flooding(posse.ThompsonSampling())

    def test_a_name_alone_gains_fields(self):
        data = experiment_to_data(EXPERIMENT)
        set_key(data, "algorithms.dec-TS.policy", "bayes-ucb")
        set_key(data, "algorithms.dec-TS.policy.log_power", 3.0)
        made = from_data(posse.Experiment, data)
        assert made.algorithms["dec-TS"].policy == posse.BayesUCB(3.0)

    def test_none_is_the_default(self):
        data = experiment_to_data(EXPERIMENT)
        set_key(data, "algorithms.dec-TS.learning_rate", 2.0)
        set_key(data, "algorithms.dec-TS.learning_rate", None)
        assert from_data(posse.Experiment, data) == EXPERIMENT

    def test_a_star_is_all_algorithms_that_have_such_a_field(self):
        made = changed("algorithms.*.policy", "bayes-ucb").algorithms
        assert made["dec-TS"].policy == made["TS 0.5"].policy == posse.BayesUCB()
        assert made["UCB"] == EXPERIMENT.algorithms["UCB"]

    @pytest.mark.parametrize(
        ("key", "sentence"),
        [
            ("netwrk.agents", "key 'netwrk' is unknown: did you mean 'network'"),
            ("title", "key 'title' is unknown"),
            ("algorithms.dec-T.policy", "algorithm 'dec-T' is unknown: did you mean 'dec-TS'"),
            ("algorithms.*.polcy", "field 'polcy' is unknown: did you mean 'policy'"),
            ("network.agent", "'agent' is unknown: did you mean 'agents'"),
            ("algorithms.UCB.learning_rate", "'learning_rate' is unknown"),
            ("network.dynamics.p", r"the experiment has no table network\.dynamics"),
            ("bandit.means.3", r"bandit\.means\.3: 3 must be a position in a list, from 0 to 2"),
            ("bandit.means.first", "first must be a position in a list"),
        ],
    )
    def test_mistyped_ones_get_the_nearest(self, key, sentence):
        with pytest.raises(ValueError, match=sentence):
            changed(key, 1)

    def test_parts_without_a_name_are_refused(self):
        bandit = posse.Bandit(posse.families.Gaussian(), lambda generator: generator.random(2))
        unnamed = posse.Experiment(bandit, EXPERIMENT.network, EXPERIMENT.algorithms, horizon=3)
        with pytest.raises(ValueError, match=r"bandit\.means: .*lambda.* cannot be imported"):
            experiment_to_data(unnamed)
