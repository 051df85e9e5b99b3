"""Figures of a sweep: each number stands where its settings say, and nothing is averaged away."""

import re

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import posse
from posse.lab.report.pages import sweep as page

mpl.use("Agg")

AGENTS, FAMILY, RATE = "network.agents", "network.graph", "algorithms.dec-TS.learning_rate"
EXPERIMENT = posse.Experiment(
    posse.Bandit.gaussian([0.5, 0.2, 0.1]),
    posse.networks.cycle(5),
    {
        "dec-TS": posse.Decentralized(posse.ThompsonSampling()),
        "alone": posse.Isolated(posse.ThompsonSampling()),
    },
    horizon=20,
    runs=3,
    seed=7,
    title="Rings <and> others",
)


@pytest.fixture(autouse=True)
def _no_figures_are_left():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    grid = {AGENTS: [60, 3, 10], FAMILY: ["cycle", "complete"], RATE: [1, 3]}
    return posse.sweep(EXPERIMENT, grid, folder=tmp_path_factory.mktemp("sweep"))


@pytest.fixture(scope="module")
def paired(tmp_path_factory):
    grid = {(FAMILY, AGENTS): [("cycle", 3), ("cycle", 5), ("complete", 5)]}
    return posse.sweep(EXPERIMENT, grid, folder=tmp_path_factory.mktemp("paired"))


def of(sweep, **wanted):
    """The rows of the table with these values, by x."""
    table = sweep.table()
    for key, value in wanted.items():
        table = table[table[key] == value]
    return table


def test_a_curve_for_each_algorithm_at_the_numbers_of_the_key(sweep):
    axes = sweep.plot(x=AGENTS, where={FAMILY: "cycle", RATE: 3})
    for line, name in zip(axes.lines, ["dec-TS", "alone"], strict=True):
        assert line.get_label() == name
        rows = of(sweep, algorithm=name, **{FAMILY: "cycle", RATE: 3}).sort_values(AGENTS)
        assert list(line.get_xdata()) == [3, 10, 60]  # in order, whatever that of the grid
        np.testing.assert_array_equal(line.get_ydata(), rows["regret"])
    bands = [band.get_paths()[0].vertices[:, 1] for band in axes.collections]
    assert (
        bands[0].max() == of(sweep, algorithm="dec-TS", **{FAMILY: "cycle", RATE: 3})["high"].max()
    )
    assert axes.get_xscale() == "log"  # 3 to 60 are far apart
    assert axes.get_xlabel() == "agents"  # its name in short
    assert axes.get_title() == "graph = cycle, learning_rate = 3"


def test_names_stand_evenly_side_by_side(sweep):
    axes = sweep.plot(x=FAMILY, where={AGENTS: 10, RATE: 1})
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["cycle", "complete"]
    first, second = (np.asarray(each.lines[0].get_xdata()) for each in axes.containers)
    np.testing.assert_allclose([first, second], [[-0.125, 0.875], [0.125, 1.125]])
    heights = axes.containers[0].lines[0].get_ydata()
    np.testing.assert_array_equal(
        heights, of(sweep, algorithm="dec-TS", **{AGENTS: 10, RATE: 1})["regret"]
    )
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["dec-TS", "alone"]


def test_rows_are_axes_below_each_other_on_one_scale(sweep):
    drawn = sweep.plot(x=AGENTS, hue=RATE, row=FAMILY, where={"algorithm": "dec-TS"})
    assert [axes.get_title() for axes in drawn] == [
        "graph = cycle, algorithm = dec-TS",
        "graph = complete, algorithm = dec-TS",
    ]
    assert drawn[0].get_ylim() == drawn[1].get_ylim()
    for axes, graph in zip(drawn, ["cycle", "complete"], strict=True):
        for line, rate in zip(axes.lines, [1, 3], strict=True):
            assert line.get_label() == f"learning_rate = {rate}"
            rows = of(sweep, algorithm="dec-TS", **{FAMILY: graph, RATE: rate})
            np.testing.assert_array_equal(line.get_ydata(), rows.sort_values(AGENTS)["regret"])


def test_some_values_of_a_key_can_be_shown(sweep):
    axes = sweep.plot(where={FAMILY: "cycle", RATE: 1, AGENTS: [3, 10]})
    assert list(axes.lines[0].get_xdata()) == [3, 10]
    assert axes.get_xscale() == "linear"


@pytest.mark.parametrize(
    ("draw", "sentence"),
    [
        (
            lambda s: s.plot(x=AGENTS, where={FAMILY: "cycle"}),
            "learning_rate has 2 values: name it as row or column, or choose one by "
            "where={'learning_rate': 1}",
        ),
        (
            lambda s: s.plot(x=AGENTS, where={FAMILY: "cycle", "algorithm": "alone"}),
            "learning_rate has 2 values: name it as hue or row or column, or choose one by",
        ),
        (
            lambda s: s.plot(x=AGENTS, row=RATE),
            "graph has 2 values: name it as column, or choose one by where={'graph': 'cycle'}",
        ),
        (lambda s: s.plot(x="agent"), "key 'agent' is unknown: did you mean 'agents'?"),
        (lambda s: s.plot(x=AGENTS, row=AGENTS), "x and row must be different, got 'agents' for"),
        (
            lambda s: s.plot(where={AGENTS: 4}),
            "where: agents = 4 is not in the sweep, which has 60, 3, 10",
        ),
        (lambda s: s.plot(where=[AGENTS]), "where must be a dict of key to value"),
        (lambda s: s.heat_map(AGENTS, FAMILY), "algorithm must be given, one of dec-TS, alone"),
        (
            lambda s: s.heat_map(AGENTS, FAMILY, "dec-TS"),
            "learning_rate has 2 values: name it as row or column, or choose one by",
        ),
        (
            lambda s: s.heat_map(algorithm="alone", where={FAMILY: "cycle", RATE: 1}),
            "a heat map needs two keys of several values, x and y",
        ),
    ],
)
def test_what_is_not_named_is_refused_in_a_sentence(sweep, draw, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        draw(sweep)


def test_a_heat_map_has_the_numbers_of_the_table_in_their_places(sweep):
    axes = sweep.heat_map(x=FAMILY, y=AGENTS, algorithm="alone", where={RATE: 1})
    shown = np.asarray(axes.images[0].get_array())
    for column, graph in enumerate(["cycle", "complete"]):
        for line, agents in enumerate([60, 3, 10]):
            (regret,) = of(sweep, algorithm="alone", **{FAMILY: graph, AGENTS: agents, RATE: 1})[
                "regret"
            ]
            assert shown[line, column] == regret
    assert len(axes.texts) == 6
    assert axes.get_title() == "algorithm = alone, learning_rate = 1"


def test_a_paired_list_goes_by_any_key_that_tells_its_points_apart(paired):
    joint = "graph & agents"
    for name in (None, FAMILY, AGENTS, "graph", joint):
        axes = paired.plot(x=name)
        assert axes.get_xlabel() == joint
    assert [tick.get_text() for tick in axes.get_xticklabels()] == [
        "cycle & 3",
        "cycle & 5",
        "complete & 5",
    ]
    axes = paired.plot(x=AGENTS, where={FAMILY: "cycle"})
    assert axes.get_xlabel() == "agents"
    assert list(axes.lines[0].get_xdata()) == [3, 5]


def test_the_report_is_one_page_with_everything(sweep, tmp_path, monkeypatch):
    monkeypatch.setattr(
        page, "MOST_FIGURES", 1
    )  # figures are slow, and what holds of one holds of more
    path = sweep.report(tmp_path / "report")
    text = path.read_text()
    assert path == tmp_path / "report" / "index.html"
    assert "Rings &lt;and&gt; others" in text
    assert not re.search(r'(?:src|href)="(?:https?:)?//', text)
    assert set(re.findall(r'id="([a-z]+)"', text)) >= {"regret", "best", "maps", "curves", "cells"}
    for name in re.findall(r'href="((?!#|data:)[^"]+)"', text):
        assert (path.parent / name).stat().st_size > 0
    assert text.count("data:image/png;base64,") == 2
    assert text.count("<figure data-chart=") == 1
    assert "[sweep]\n" in text
    assert "11 more are left out here; sweep[cell].plot() draws them." in text
    written = pd.read_csv(path.parent / "table.csv")
    pd.testing.assert_frame_equal(written, sweep.table())
    # a row for each cell and algorithm, and in the table of the best one for each cell
    assert text.count("<tr>") == 2 + len(written) + len(written) // 2
    assert "not told from it by paired t tests" in text
    monkeypatch.setattr(page, "write_page", lambda made, folder: folder / "index.html")
    assert sweep.report() == sweep.folder / "index.html"


def test_values_of_the_library_are_chosen_by_themselves(tmp_path):
    grid = {"algorithms.dec-TS.policy": [posse.ThompsonSampling(), posse.BayesUCB(log_power=2.0)]}
    sweep = posse.sweep(EXPERIMENT, grid, folder=tmp_path)
    axes = sweep.plot(where={"policy": posse.BayesUCB(log_power=2.0), "algorithm": "dec-TS"})
    (rows,) = [
        row
        for row in sweep.table().to_dict("records")
        if "2.0" in row[next(iter(grid))] and row["algorithm"] == "dec-TS"
    ]
    assert axes.containers[0].lines[0].get_ydata() == [rows["regret"]]


SIZES = {"network.agents": [4, 9], "algorithms.dec-TS.learning_rate": [2, 3]}


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    grid = posse.axis("size", SIZES, labels=["small", "large"]) | {FAMILY: ["cycle", "complete"]}
    return posse.sweep(EXPERIMENT, grid, folder=tmp_path_factory.mktemp("named"))


@pytest.fixture(scope="module")
def ruled(tmp_path_factory):
    grid = {AGENTS: [4, 9], RATE: [1, "sqrt(N)", "2*N"], "horizon": ["3*N"]}
    return posse.sweep(EXPERIMENT, grid, folder=tmp_path_factory.mktemp("ruled"))


def test_rules_are_labels_and_tables_say_what_was_played(ruled):
    table = ruled.table()
    assert list(table[RATE].unique()) == [1, "sqrt(N)", "2*N"]
    by_rule = of(ruled, algorithm="dec-TS", **{RATE: "sqrt(N)"})
    assert list(by_rule[f"{RATE} played"]) == [2, 3]
    assert list(by_rule["horizon played"]) == [12, 27]
    direct = posse.simulate(
        EXPERIMENT.bandit,
        posse.networks.cycle(9),
        posse.Decentralized(posse.ThompsonSampling(), learning_rate=3),
        horizon=27,
        runs=3,
        seed=7,
    )
    assert by_rule["regret"].iloc[1] == direct.regret[:, -1].mean()
    cell = ruled.plan[4]
    assert cell.describe(ruled.grid.short_names()) == (
        "agents = 9, learning_rate = sqrt(N) = 3, horizon = 3*N = 27"
    )
    axes = ruled.plot(x="learning_rate", hue="agents", where={"algorithm": "dec-TS"})
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "sqrt(N)", "2*N"]
    (path,) = [path for path in ruled.save() if path.suffix == ".toml"]
    experiment, grid = posse.read_sweep(path)
    again = posse.sweep(experiment, grid, folder=ruled.folder)
    pd.testing.assert_frame_equal(again.table(), table)


def test_a_named_paired_list_goes_by_its_name(named):
    axes = named.plot(x="size", where={FAMILY: "cycle"})
    assert axes.get_xlabel() == "size"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["small", "large"]
    assert list(named.table()["size"].unique()) == ["small", "large"]
    large = named[{"size": "large", "graph": "cycle"}]
    assert large["dec-TS"].n_agents == 9
    assert (
        large["dec-TS"].regret.tolist()
        == named[{AGENTS: 9, FAMILY: "cycle"}]["dec-TS"].regret.tolist()
    )
    (path,) = [path for path in named.save() if path.suffix == ".toml"]
    assert 'name = "size"' in path.read_text()
    experiment, grid = posse.read_sweep(path)
    again = posse.sweep(experiment, grid, folder=named.folder)
    pd.testing.assert_frame_equal(again.table(), named.table())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("size", {"seed": [1, 2], "horizon": [3]}), "seed has 2, horizon has 1"),
        (("size", {"seed": 3}), "axis 'size': seed needs a list of values, got 3"),
        (("size", {}), "axis 'size' needs a dict from keys to lists"),
        (("algorithm", {"seed": [1]}), "not 'algorithm', got 'algorithm'"),
    ],
)
def test_wrong_axes_are_refused_in_a_sentence(arguments, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        posse.axis(*arguments)


def test_an_unnamed_paired_list_has_the_labels_of_the_key_that_distinguishes(tmp_path):
    networks = [posse.networks.cycle(4), posse.networks.star(9)]
    grid = {("network", RATE): [(networks[0], 2), (networks[1], 3)]}
    sweep = posse.sweep(EXPERIMENT, grid, folder=tmp_path)
    axes = sweep.plot()
    assert axes.get_xlabel() == "network"
    labels = ["cycle(agents=4)", "star(agents=9)"]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == labels
    # two keys of one paired list: the diagonal is filled, and nothing else
    axes = sweep.heat_map(x="learning_rate", y="network", algorithm="dec-TS")
    shown = np.ma.filled(axes.images[0].get_array(), np.nan)
    regrets = of(sweep, algorithm="dec-TS")["regret"]
    np.testing.assert_array_equal(shown, np.where(np.eye(2), np.diag(regrets), np.nan))


def test_columns_and_the_algorithms_of_a_heat_map_share_one_scale(sweep):
    drawn = sweep.heat_map(x="algorithm", y=AGENTS, row=FAMILY, column=RATE)
    titles = ["learning_rate = 1", "learning_rate = 3", "", ""]  # the first row names the columns
    assert [axes.get_title() for axes in drawn] == titles
    rows = ["graph = cycle\nagents", "", "graph = complete\nagents", ""]
    assert [axes.get_ylabel() for axes in drawn] == rows
    assert len({axes.images[0].get_clim() for axes in drawn}) == 1
    regrets = sweep.table()["regret"]
    assert drawn[0].images[0].get_clim() == (regrets.min(), regrets.max())
    shown = np.asarray(drawn[3].images[0].get_array())
    for column, name in enumerate(["dec-TS", "alone"]):
        for line, agents in enumerate([60, 3, 10]):
            (regret,) = of(sweep, algorithm=name, **{AGENTS: agents, FAMILY: "complete", RATE: 3})[
                "regret"
            ]
            assert shown[line, column] == regret
    drawn = sweep.plot(x=AGENTS, hue=RATE, row=FAMILY, column="algorithm")
    assert [axes.get_title() for axes in drawn] == ["dec-TS", "alone", "", ""]
    assert drawn[2].get_ylabel() == "graph = complete\nfinal regret per agent"
    rows = of(sweep, algorithm="alone", **{FAMILY: "complete", RATE: 3}).sort_values(AGENTS)
    np.testing.assert_array_equal(drawn[3].lines[1].get_ydata(), rows["regret"])


def test_a_notebook_shows_the_axes_of_a_sweep(named):
    text = named._repr_html_()
    assert "Rings &lt;and&gt; others: 4 cells" in text
    assert ">small, large<" in text
    assert ">cycle, complete<" in text
