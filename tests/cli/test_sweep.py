"""`posse sweep`: the table, the files, and only what is missing computed."""

from pathlib import Path

import pandas as pd
import pytest

from posse.lab.jobs import workers
from tests.cli.calling import EXPERIMENT, posse, said

FILE = f"""{EXPERIMENT}
[sweep]
network.agents = [3, 5]
bandit.means.1 = [0.1, 0.2, 0.3]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder of one's own, with the sweep in it."""
    (tmp_path / "two.toml").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def test_it_prints_writes_and_resumes(capsys, monkeypatch):
    computed, real = [], workers.play_part
    monkeypatch.setattr(workers, "play_part", lambda part: computed.extend(part.runs) or real(part))
    code, out, err = said(capsys, "sweep", "two.toml")
    assert code == 0
    assert "Two [arms]" in out
    assert "Two [arms]" in err  # the progress bar
    assert "regret per agent at the horizon ± standard error; 5 runs" in out
    paths = [line for line in out.splitlines() if line.startswith("results/two/")]
    assert "results/two/table.csv" in paths
    assert all(Path(path).is_file() for path in paths)
    assert len(pd.read_csv("results/two/table.csv")) == 6
    assert len(computed) == 30
    for options, more in [((), 0), (("--runs", 7), 12), (("--output", "b"), 30)]:
        del computed[:]
        code, out, err = said(capsys, "sweep", "two.toml", "--quiet", *options)
        assert (code, len(computed)) == (0, more)
        assert err == ""
        assert all(Path(line).is_file() for line in out.splitlines())


def test_long_tables_are_cut(capsys):
    text = FILE.replace("bandit.means.1 = [0.1, 0.2, 0.3]", f"seed = {list(range(30))}")
    Path("two.toml").write_text(text.replace("horizon = 30", "horizon = 2"))
    code, out, _ = said(capsys, "sweep", "two.toml", "--runs", 1)
    assert code == 0
    assert "40 of 60 rows, table.csv has all" in out
    assert "nan" not in out


@pytest.mark.parametrize(
    ("change", "options", "sentence"),
    [
        (("[sweep]", "[swep]"), (), "two.toml: there is no table [sweep]"),
        (("[3, 5]", "[3, 0]"), (), "the cell network.agents = 0, bandit.means.1 = 0.1: network"),
        (
            ("network.agents", "network.agent"),
            (),
            "the cell network.agent = 3, bandit.means.1 = 0.1: ",
        ),
        (("", ""), ("--runs", 0), "runs must be a whole number at least 1, got 0"),
        (("", ""), ("--output", "two.toml"), "two.toml/parts cannot be written to: Not a dir"),
    ],
)
def test_mistakes_get_one_line_and_leave_nothing(change, options, sentence, capsys):
    Path("two.toml").write_text(FILE.replace(*change))
    code, out, err = said(capsys, "sweep", "two.toml", *options)
    assert (code, out) == (2, "")
    assert err.startswith(f"posse: {sentence}")
    assert err.count("\n") == 1
    assert not Path("results").exists()


def test_whoever_stops_it_is_told_how_to_go_on(capsys, monkeypatch):
    def interrupted(part):
        raise KeyboardInterrupt

    monkeypatch.setattr(workers, "play_part", interrupted)
    assert posse("sweep", "two.toml", "--quiet") == 130
    assert "run the same command to resume" in capsys.readouterr().err


def test_values_are_not_cut_in_80_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    keys = (
        'network.graph = ["cycle", "complete"]\nnetwork.agents = [3, 4]\n'
        'algorithms.dec-TS.policy = ["thompson-sampling", "bayes-ucb"]\n'
        "algorithms.dec-TS.learning_rate = [1, 4]\n"
    )
    Path("wide.toml").write_text(FILE.partition("[sweep]")[0] + "[sweep]\n" + keys)
    code, out, err = said(capsys, "sweep", "wide.toml")
    assert code == 0, err
    assert "thompson-sampling" in out
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= 80
