"""`posse arena`: a table, a page, strangers, and mistakes in one line."""

import errno
import json

import pytest

from posse import Result
from posse.lab.jobs import workers
from tests.cli.calling import posse, said

TINY = ("--instances", "16,23", "--algorithms", "isolated TS", "--runs", 3, "--horizon", 30)
MINE = '''
class First:
    """Always the first arm."""

    def init(self, problem):
        return problem

    def choose(self, problem, t, generator):
        if problem.n_agents == 16 and t == 25:
            raise RuntimeError("tired of it")
        return generator.random((problem.n_runs, problem.n_agents)).astype(int)

    def learn(self, problem, arms, rewards, weights):
        return problem
'''


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    import sys

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("COLUMNS", "80")
    yield tmp_path
    sys.modules.pop("mine_for_arena", None)


def test_a_tiny_arena(folder, capsys):
    code, out, err = said(capsys, "arena", *TINY)
    assert code == 0, err
    assert out.splitlines()[-1] == "arena/index.html"
    assert all(len(line) <= 80 for line in out.splitlines())
    assert "isolated TS" in out
    assert {path.name for path in (folder / "arena").iterdir()} == {
        "index.html",
        "report.json",
        "results",
        "table.csv",
    }
    report = json.loads((folder / "arena" / "report.json").read_text())
    assert report["made"]["mode"] == "custom"
    assert [row["algorithm"] for row in report["standings"]] == ["dec-TS", "isolated TS"]
    assert "isolated TS" in (folder / "arena" / "index.html").read_text(encoding="utf-8")


def test_the_regret_of_some_agents(folder, capsys):
    tiny = ("--instances", "23", *TINY[2:])
    code, out, err = said(capsys, "arena", *tiny, "--agents", "leaves")
    assert code == 0, err
    assert "regret of these agents only: leaves" in out
    leaves = json.loads((folder / "arena" / "report.json").read_text())["instances"]
    code, out, err = said(capsys, "arena", *tiny, "--agents", "0,3")  # the same two agents
    assert code == 0, err
    assert json.loads((folder / "arena" / "report.json").read_text())["instances"] == leaves
    said(capsys, "arena", *tiny)
    assert json.loads((folder / "arena" / "report.json").read_text())["instances"] != leaves
    code, out, err = said(capsys, "arena", *TINY, "--agents", "leaves")
    assert code == 2
    assert "leave instance 16 out with --instances" in err


def test_the_widest_row_fits_into_80_columns(capsys):
    from posse.cli.arena import print_leaderboard
    from posse.lab.arena.report_data import ArenaProvenance, ArenaReport, LeaderboardRow

    row = LeaderboardRow(
        "Follow Your Leader", "abstract", 10, 24, 12.3, 12.1, 12.4, 9.5, 3, 10, 10, 4, 0.502, True,
        13.21, 24,
    )  # fmt: skip
    made = ArenaProvenance("quick", 20, 1, 1.0, {}, "2 threads")
    print_leaderboard(ArenaReport("", made, "dec-TS", [], [row], []))
    out = capsys.readouterr().out
    assert "…" not in out
    assert all(text in out for text in ("plays", "Follow Your Leader", "10/10/4", "0.502*"))


def test_a_stranger_is_ranked_and_told_what_it_cannot_play(folder, capsys):
    (folder / "mine_for_arena.py").write_text(MINE)
    code, out, err = said(capsys, "arena", "mine_for_arena.py:First", *TINY)
    assert code == 0, err
    told = " ".join(out.split())
    assert "First did not play instance 16: failed while it played: RuntimeError: tired of" in told
    report = json.loads((folder / "arena" / "report.json").read_text())
    assert [e["source"] for e in report["entrants"] if e["name"] == "First"] == ["yours"]
    (row,) = [row for row in report["standings"] if row["algorithm"] == "First"]
    assert row["instances"] == 1
    assert row["numbers_sent"] is None


def test_a_stranger_that_ends_python_is_told_of(folder, capsys):
    (folder / "mine_for_arena.py").write_text(
        MINE.replace('RuntimeError("tired of it")', "SystemExit(3)")
    )
    code, out, err = said(capsys, "arena", "mine_for_arena.py:First", *TINY)
    assert code == 0, err
    told = " ".join(out.split())
    assert "First did not play instance 16: failed while it played: PartFailed: SystemExit" in told
    (folder / "leaves.py").write_text("raise SystemExit(1)")
    code, _, err = said(capsys, "arena", "leaves.py:First", *TINY)
    assert code == 2
    assert "leaves.py:First cannot be imported: SystemExit: 1" in err


def test_a_full_disk_is_no_fault_of_the_players(capsys, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    alone = [word if word != "isolated TS" else "dec-TS" for word in TINY]
    assert said(capsys, "arena", *alone)[0] == 0
    monkeypatch.setattr(Result, "save", full)
    code, _, err = said(capsys, "arena", *TINY)
    assert code == 2
    assert "cannot be written to: No space left on device" in err


def test_the_full_form_says_how_long_it_will_take(capsys):
    code, _, err = said(capsys, "arena", "--full", *TINY)
    assert code == 0, err
    assert "this will take about" in err
    assert "playing" in err


def test_quiet_prints_the_path_only(capsys):
    assert said(capsys, "arena", *TINY, "--quiet", "--output", "here")[:2] == (
        0,
        "here/index.html\n",
    )


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--instances", "25"], "instances must be"),
        (["--algorithms", "nobody"], "'nobody' is unknown"),
        (["--runs", "1"], "runs must be"),
        (["nowhere.py:Mine"], "there is no file nowhere.py"),
        (["mine"], "is named as in mine.py:MyAlgorithm"),
        (["--workers", "0", *TINY], "--workers must be"),
    ],
)
def test_mistakes_are_one_line(capsys, arguments, why):
    code, _, err = said(capsys, "arena", *arguments)
    assert code == 2
    assert why in err
    assert len(err.strip().splitlines()) == 1


def test_whoever_stops_it_is_told_how_to_go_on(capsys, monkeypatch):
    def interrupted(part):
        raise KeyboardInterrupt

    monkeypatch.setattr(workers, "play_part", interrupted)
    assert posse("arena", *TINY, "--quiet") == 130
    assert "run the same command to resume" in capsys.readouterr().err
