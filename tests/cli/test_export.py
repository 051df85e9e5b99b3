"""`posse export`: what a store holds, as JSON lines, while an agent runs or not."""

import json
import os
import sqlite3
import subprocess
import sys

import pytest

from posse.live.store import DecisionRecord, Store
from tests.cli.calling import said


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
        "silent": False, "assumed": None, "superseded": False, "context": None,
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
        (newer, "has schema 99 and this Posse reads schema 2"),
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
