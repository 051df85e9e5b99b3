"""`posse export`: what a store holds, as JSON lines, while an agent runs or not."""

import json
import os
import sqlite3
import subprocess
import sys

import pytest

from posse.live.store import DecisionRecord, Store
from tests.cli.calling import said
from tests.live.test_offline import world


def run(capsys, *arguments):
    return said(capsys, "export", *arguments)


@pytest.fixture
def path(tmp_path):
    """A store with a decision that was rewarded, one discarded and one open."""
    path = tmp_path / "agent.db"
    with Store.open(path, fingerprint="f") as store:
        fill(store)
    return path


def fill(store):
    for time, id_ in enumerate(("first", "second", "third")):
        store.add_decision(DecisionRecord(id_, "rød", 0.25, float(time)))
    store.add_reward("first", 1, 10.0)
    store.expire_decisions(12.0, 11.0, None)  # the second
    return store


def content(text):
    return [(each["id"], each["reward"]) for each in map(json.loads, text.splitlines())]


EXPECTED = [("first", 1.0), ("second", None), ("third", None)]


def test_a_line_a_decision(capsys, path):
    code, out, err = run(capsys, path)
    assert (code, err) == (0, "")
    assert content(out) == EXPECTED
    first = json.loads(out.splitlines()[0])
    assert first.pop("closed") in (None, 10.0)
    assert first == {
        "experiment": "default", "site": None, "id": "first", "arm": "rød", "probability": 0.25,
        "allowed": None, "probabilities": None, "time": 0.0, "reward": 1.0, "settled": 10.0,
        "silent": False, "assumed": None, "superseded": False, "inactive": False,
        "cancelled": False, "context": None, "visitor": None, "metrics": None, "holdout": None,
    }  # fmt: skip


def test_one_experiment_of_several(capsys, path):
    with Store.open(path, fingerprint="f") as store:
        store.open_experiment("banner", "f").add_decision(DecisionRecord("first", "blue", 1.0, 5.0))
    code, out, _ = run(capsys, path, "--experiment", "banner")
    assert (code, content(out)) == (0, [("first", None)])
    assert json.loads(out)["experiment"] == "banner"
    assert content(run(capsys, path)[1]) == [*EXPECTED, ("first", None)]
    code, out, err = run(capsys, path, "--experiment", "footer")
    assert (code, out) == (2, "")
    assert "no experiment 'footer': it has default, banner" in err


def test_while_the_agent_runs(capsys, tmp_path):
    path = tmp_path / "agent.db"
    with Store.open(path, fingerprint="f") as store:
        fill(store)
        assert content(run(capsys, path)[1]) == EXPECTED
        store.add_decision(DecisionRecord("fourth", "red", 1.0, 20.0))  # nothing is locked
        assert len(content(run(capsys, path)[1])) == 4


def test_nothing_is_changed(capsys, path):
    before = path.read_bytes()
    run(capsys, path)
    assert path.read_bytes() == before


def test_into_a_file(capsys, path, tmp_path):
    output = tmp_path / "out.jsonl"
    output.write_text("old")
    code, out, err = run(capsys, path, "-o", output)
    assert (code, out, err) == (0, f"3 decisions in {output}\n", "")
    assert content(output.read_text(encoding="utf-8")) == EXPECTED
    assert not (tmp_path / "out.jsonl.part").exists()


def test_a_failure_leaves_the_old_file(capsys, tmp_path):
    output = tmp_path / "out.jsonl"
    output.write_text("old")
    (tmp_path / "agent.db").write_text("no store at all, and long enough to be one")
    assert run(capsys, tmp_path / "agent.db", "-o", output)[0] == 2
    assert output.read_text() == "old"
    assert {each.name for each in tmp_path.iterdir()} == {"agent.db", "out.jsonl"}


def foreign(path):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()


def newer(path):
    Store.open(path, fingerprint="f").close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version=99")
    connection.close()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "there is no store"),
        (lambda path: path.mkdir(), "there is no store"),
        (lambda path: path.write_text("not a database at all, really"), "is damaged"),
        (foreign, "not a store of Posse"),
        (newer, "has schema 99 and this Posse reads schema 4"),
    ],
)
def test_mistakes_are_one_line(capsys, tmp_path, make, words):
    make(tmp_path / "agent.db")
    code, out, err = run(capsys, tmp_path / "agent.db")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such pipes")
def test_a_reader_that_leaves_early(tmp_path):
    path = tmp_path / "agent.db"
    with Store.open(path, fingerprint="f") as store, store.transaction():
        for i in range(5000):  # more than a pipe holds
            store.add_decision(DecisionRecord(f"decision-{i}", "red", 1.0, float(i)))
    process = subprocess.Popen(
        [sys.executable, "-c", "from posse.cli import main; main()", "export", str(path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert "decision-0" in process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(60) == 0


# Formats, and exports that go on where the last one ended ------------------------------------


def test_a_table_for_spreadsheets(capsys, path, tmp_path):
    from posse.offline import read_rows

    output = tmp_path / "out.csv"
    assert run(capsys, path, "-o", output)[0] == 0  # by the ending
    lines = output.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("experiment,site,id,arm,probability,allowed")
    assert len(lines) == 4
    _, text, _ = run(capsys, path)
    assert list(read_rows(output)) == [json.loads(line) for line in text.splitlines()]
    assert run(capsys, path, "--format", "csv")[1].splitlines() == lines


def test_a_parquet_file_has_the_same_rows(capsys, tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is missing: Parquet goes untested")
    from posse.offline import read_rows

    path = tmp_path / "agent.db"
    rows = [json.loads(line) for line in world(path, "berlin", 1, 200).splitlines()]
    output = tmp_path / "out.parquet"
    assert run(capsys, path, "-o", output)[:2] == (0, f"200 decisions in {output}\n")
    assert list(read_rows(output)) == rows
    with Store.open(tmp_path / "two.db", fingerprint="f") as store:
        store.add_decision(DecisionRecord("x", "red", 0.25, 5.0, context='{"country": "de"}'))
    run(capsys, tmp_path / "two.db", "-o", output)
    (row,) = read_rows(output)
    assert (row["context"], row["allowed"]) == ('{"country": "de"}', None)


def test_without_pyarrow_the_error_says_what_to_install(capsys, path, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, _, err = run(capsys, path, "-o", tmp_path / "out.parquet")
    assert (code, err.count("\n")) == (2, 1)
    assert "posse[parquet]" in err
    assert not (tmp_path / "out.parquet").exists()
    assert "name a file" in run(capsys, path, "--format", "parquet")[2]


def test_an_export_goes_on_where_the_last_one_ended(capsys, tmp_path):
    """What was made, rewarded or closed since then: nothing is missed, some rows come again."""
    path = tmp_path / "agent.db"
    with Store.open(path, fingerprint="f") as store:
        for number in range(4):
            store.add_decision(DecisionRecord(f"d{number}", "red", 1.0, 1000.0 * number))
        code, out, err = run(capsys, path, "--since", "1970-01-01T00:16:40")
        assert (code, [row[0] for row in content(out)]) == (0, ["d1", "d2", "d3"])
        (line,) = err.splitlines()
        assert line == "next: --since 2940.000"  # a minute before the newest
        store.add_reward("d0", 1.0, 5000.0)
        store.add_decision(DecisionRecord("d4", "red", 1.0, 5001.0))
        code, out, err = run(capsys, path, "--since", line.split()[-1])
        assert content(out) == [("d0", 1.0), ("d3", None), ("d4", None)]
        assert err == "next: --since 4941.000\n"
        assert content(run(capsys, path, "--since", "5001.5")[1]) == []


def test_a_time_that_is_none(capsys, path):
    for endless in ("nan", "1e400"):
        assert "--since must be a time" in run(capsys, path, "--since", endless)[2]
    code, out, err = run(capsys, path, "--since", "yesterday")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--since must be a time such as 2026-11-01" in err
