"""`posse paper`: the report, its options, and mistakes in one line."""

import csv
import json
import re

import pytest

from tests.cli.calling import posse


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def report_of(folder):
    """The numbers of the page."""
    return json.loads((folder / "report.json").read_text())


def test_some_figures(folder, capsys):
    assert posse("paper", "fig3", "5a", "--runs", 3) == 0
    out = capsys.readouterr()
    assert out.out.splitlines()[-1] == "report/index.html"
    assert "What the paper says" in out.out
    assert '<a href="report.json">JSON</a>' in (folder / "report/index.html").read_text()
    report = report_of(folder / "report")
    assert [panel["id"] for panel in report["panels"]] == ["fig3", "fig5a"]
    assert {panel["runs"] for panel in report["panels"]} == {3}
    assert report["summary"]["mode"] == "custom"
    assert report["summary"]["variant"] == "as stated"
    untested = [row for row in report["claims"] if row["verdict"] == "not tested"]
    assert {row["figure"] for row in untested} == {"1", "1b", "2", "4", "5b"}
    for id_ in ("fig3", "fig5a"):
        for suffix in ("png", "pdf"):
            assert (folder / "report" / "figures" / f"{id_}.{suffix}").stat().st_size > 10_000
    assert "13 claims of other figures were not tested" in out.out


def test_the_figures_data_are_a_table(folder):
    assert posse("paper", "fig3", "--runs", 3, "--quiet") == 0
    (panel,) = report_of(folder / "report")["panels"]
    assert panel["files"] == [f"figures/fig3.{suffix}" for suffix in ("png", "pdf", "csv")]
    with (folder / "report" / "figures" / "fig3.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(len(curve["times"]) for curve in panel["chart"]["curves"])
    for curve in panel["chart"]["curves"]:
        mine = [row for row in rows if row["curve"] == curve["name"]]
        assert [int(row["round"]) for row in mine] == curve["times"]
        for column, key in (("regret", "mean"), ("low", "low"), ("high", "high")):
            assert [float(row[column]) for row in mine] == curve[key]


def test_a_second_time_nothing_is_computed(folder, monkeypatch):
    from posse.lab.jobs import workers

    assert posse("paper", "fig4a", "--runs", 2, "--quiet") == 0
    first = report_of(folder / "report")
    monkeypatch.setattr(workers, "play_runs", None)
    assert posse("paper", "fig4a", "--runs", 2, "--quiet") == 0
    again = report_of(folder / "report")
    assert again["panels"][0]["chart"] == first["panels"][0]["chart"]


def test_damage_is_said(folder, capsys):
    assert posse("paper", "fig4b", "--runs", 2, "--quiet") == 0
    stored = sorted((folder / "report" / "results").glob("*/*.nc"))
    stored[0].write_bytes(b"")
    capsys.readouterr()
    assert posse("paper", "fig4b", "--runs", 2, "--quiet") == 0
    err = capsys.readouterr().err
    assert str(stored[0].relative_to(folder)) in err
    assert "computed again" in err


def test_as_published(folder):
    assert posse("paper", "fig3", "--as-published", "--runs", 2, "--output", "published") == 0
    report = report_of(folder / "published")
    assert report["summary"]["variant"] == "as published"
    assert "not doubly stochastic" in report["panels"][0]["note"]


def test_the_published_values_are_there(folder, capsys):
    assert posse("paper", "published", "--runs", 5) == 0
    assert len(report_of(folder / "report")["panels"][0]["published"]) == 30
    out = " ".join(capsys.readouterr().out.split())
    assert re.search(r"\d+ of 30 published values agree with ours at 5 runs; .*: cycle", out)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fig1c"], "fig1a"),
        (["figure 6"], "allowed"),
        (["fig3", "--runs", "1"], "at least 2"),
        (["fig3", "--runs", "many"], "--runs"),
        (["fig3", "--full", "--runs", "10"], "not both"),
        (["fig3", "--seed", "-1"], "--seed"),
        (["fig3", "--threads", "-2"], "--threads"),
        (["fig3", "--output", "a-file/below"], "a-file"),
    ],
)
def test_mistakes_are_one_line(folder, capsys, arguments, words):
    (folder / "a-file").write_text("")
    assert posse("paper", *arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("posse: ")
    assert words in line


def test_without_a_terminal_a_line_says_that_a_figure_is_done(capsys):
    from types import SimpleNamespace

    from posse.cli.paper import _PaperBars
    from posse.lab.progress import create_progress

    panel = SimpleNamespace(title="a cycle [x]", horizon=1, curves={})
    bars = _PaperBars(create_progress())
    bars.announce_plan([("fig1a", panel, 5)])
    with bars.show_panel("fig1a", panel, 5):
        assert capsys.readouterr().err == ""
    assert capsys.readouterr().err == "fig1a: a cycle [x]: done, 5 runs\n"
