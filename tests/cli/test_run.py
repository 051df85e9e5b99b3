"""`posse run`: the table, the files, the options, and nothing half-written."""

import re
from pathlib import Path

import numpy as np
import pytest

from posse import load
from posse.lab.experiments import experiment_of, read_experiment
from posse.lab.jobs import workers
from tests.cli.calling import EXPERIMENT, posse

FILE = f"""{EXPERIMENT}
[algorithms."[alone]"]
name = "isolated"
policy = "greedy"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder of one's own, with the experiment in it."""
    (tmp_path / "two.toml").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def test_a_run_prints_and_writes(capsys):
    assert not posse("run", "two.toml")
    out, err = capsys.readouterr()
    assert "Two [arms]" in out
    assert "regret per agent at round 30; 5 runs, seed 3" in out
    assert out.endswith("results/two.nc\nresults/two.png\n")
    assert out.index("dec-TS") < out.index("[alone]")
    assert "Two [arms]" in err  # the progress bar
    written = sorted(path.name for path in Path("results").iterdir())
    assert written == ["two.nc", "two.parts", "two.png"]
    assert Path("results/two.png").read_bytes().startswith(b"\x89PNG")

    loaded = load("results/two.nc")
    expected = read_experiment("two.toml").run()
    for name in expected:
        np.testing.assert_array_equal(loaded[name].regret, expected[name].regret)
        assert f"{expected[name].summary().mean:.1f}" in out
    assert experiment_of(loaded).algorithms == read_experiment("two.toml").algorithms


def test_a_report_is_written_beside_the_results(capsys):
    assert not posse("run", "two.toml", "--no-plot", "--quiet", "--report")
    page = Path("results/two.report/index.html")
    assert capsys.readouterr().out == f"results/two.nc\n{page}\n"
    text = page.read_text("utf-8")
    assert "<h1>Two [arms]</h1>" in text
    links = re.findall(r'href="((?!#|data:)[^"]+)"', text)
    assert "../two.nc" in links  # which is not written twice
    for link in links:
        assert (page.parent / link).stat().st_size > 0
    again = read_experiment("results/two.report/files/experiment.toml")
    assert again.title == "Two [arms]"


def test_a_report_that_could_not_be_written_is_refused_before_the_first_round(capsys):
    Path("results").mkdir()
    Path("results/two.report").write_text("")
    assert posse("run", "two.toml", "--report") == 2
    assert "results/two.report is a file, and a report is a folder" in capsys.readouterr().err
    assert not Path("results/two.nc").exists()


def test_only_what_is_missing_is_computed(capsys, monkeypatch):
    """Repeated it computes nothing, extended the rest, with another seed all of it."""
    computed, real = [], workers.play_part
    monkeypatch.setattr(workers, "play_part", lambda part: computed.extend(part.runs) or real(part))
    counts = []
    for options in [(), (), ("--runs", 8), ("--runs", 2), ("--seed", 4)]:
        assert not posse("run", "two.toml", "--no-plot", "--quiet", *options)
        counts.append(len(computed))
        del computed[:]
    assert counts == [2 * 5, 0, 2 * 3, 0, 2 * 5]
    assert load("results/two.nc")["dec-TS"].settings["seed"] == 4


def test_damaged_parts_are_computed_again_and_said(capsys):
    assert not posse("run", "two.toml", "--no-plot", "--quiet")
    expected = load("results/two.nc")
    part = next(Path("results/two.parts").glob("*/*.nc"))
    part.write_bytes(part.read_bytes()[:100])
    capsys.readouterr()
    assert not posse("run", "two.toml", "--no-plot", "--quiet")
    assert f"posse: {part} is " in capsys.readouterr().err
    for name, result in load("results/two.nc").items():
        np.testing.assert_array_equal(result.regret, expected[name].regret)


def test_whoever_stops_it_is_told_how_to_go_on(capsys, monkeypatch):
    def interrupted(part):
        raise KeyboardInterrupt

    monkeypatch.setattr(workers, "play_part", interrupted)
    assert posse("run", "two.toml", "--quiet") == 130
    assert "run the same command to resume" in capsys.readouterr().err


def test_the_table_says_which_engine_ran_what_where_they_differ(capsys):
    own = FILE + '\n[algorithms.grid]\nname = "isolated"\npolicy = "greedy"\n'
    own += 'family = {name = "bernoulli", alpha = 2.0}\n'
    Path("mixed.toml").write_text(own.replace("title", 'engine = {grid = "reference"}\ntitle', 1))
    assert not posse("run", "mixed.toml", "--no-plot")
    out = capsys.readouterr().out
    assert "engine" in out
    assert out.count("compiled") == 2
    assert out.count("reference") == 1


def test_what_no_file_could_keep_is_refused_before_the_first_round(capsys):
    Path("kept.toml").write_text('keep = ["beliefs"]\n' + FILE)
    code = posse("run", "kept.toml", "--runs", "100000", "--horizon", "1000")
    assert code == 2
    assert "keep: 'beliefs' of 200000 runs at 1000 rounds does not fit" in capsys.readouterr().err
    assert not list(Path("results").iterdir())


def test_options_override_the_file(capsys):
    options = ("--runs", 2, "--horizon", 7, "--seed", 9, "--output", "a/b", "--no-plot", "--quiet")
    assert not posse("run", "two.toml", *options)
    out, err = capsys.readouterr()
    assert out == "a/b/two.nc\n"
    assert [line for line in err.splitlines() if "compiling kernels (once" not in line] == []
    assert sorted(path.name for path in Path("a/b").iterdir()) == ["two.nc", "two.parts"]
    result = load("a/b/two.nc")["dec-TS"]
    assert (result.runs, result.horizon, result.settings["seed"]) == (2, 7, 9)


def test_one_run_has_no_interval(capsys):
    assert not posse("run", "two.toml", "--runs", 1, "--no-plot")
    assert "nan" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "options", "sentence"),
    [
        (
            ("greedy", "gredy"),
            (),
            "two.toml: algorithms.\"[alone]\".policy: 'gredy' is unknown: did",
        ),
        (("runs = 5", "runs 5"), (), "two.toml: invalid TOML: Expected '=' after a key"),
        (("", ""), ("--runs", 0), "runs must be a whole number at least 1, got 0"),
        (("", ""), ("--output", "two.toml"), "two.toml: File exists"),
        (("", ""), ("--horizon", 10**9), "the curves of 10 runs at 1000000000 rounds do not fit"),
        (("", ""), ("--runs", 5 * 10**7, "--horizon", 1), "the pulls of 100000000 runs, 3 agents"),
    ],
)
def test_mistakes_leave_nothing_behind(change, options, sentence, capsys):
    Path("two.toml").write_text(FILE.replace(*change))
    assert posse("run", "two.toml", *options) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"posse: {sentence}")
    assert err.count("\n") == 1
    assert not list(Path().glob("results/*"))


def test_a_family_that_cannot_learn_is_a_mistake(capsys):
    gaussian = FILE.replace('"bernoulli"', '"gaussian"')
    Path("two.toml").write_text(gaussian + 'family = "bernoulli"\n')
    assert posse("run", "two.toml") == 2
    assert "family 'bernoulli' learns from rewards in [0, 1]" in capsys.readouterr().err
    assert not list(Path().glob("results/*"))


WORLD = 'means = [0.8, 0.2]\nsite_sd = 0.3\ndrift = {name = "random-walk", sd = 0.1, time = 10}'


def test_sites_that_differ_and_drift_run_from_a_file(capsys):
    text = FILE.replace("means = [0.8, 0.2]", WORLD).replace("horizon", 'keep = ["means"]\nhorizon')
    Path("world.toml").write_text(text)
    assert not posse("run", "world.toml")
    assert capsys.readouterr().out.endswith("results/world.nc\nresults/world.png\n")
    loaded = load("results/world.nc")
    assert loaded["dec-TS"].means.shape == (5, 30, 3, 2)
    again = experiment_of(loaded)
    assert again.bandit == read_experiment("world.toml").bandit
    np.testing.assert_array_equal(again.run()["dec-TS"].regret, loaded["dec-TS"].regret)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("site_sd = -1", "bandit.site_sd: must be a finite number at least 0, got -1"),
        ('drift = {name = "rotation", every = 0}', "bandit.drift.every: must be a whole number"),
        ('drift = "xyz"', "bandit.drift: 'xyz' is unknown: allowed are rotation, random-walk"),
    ],
)
def test_a_bad_world_gets_one_line(line, sentence, capsys):
    Path("bad.toml").write_text(FILE.replace("means =", f"{line}\nmeans =", 1))
    assert posse("run", "bad.toml")
    err = capsys.readouterr().err
    assert err.startswith("posse: bad.toml: ")
    assert sentence in err
    assert err.count("\n") == 1
