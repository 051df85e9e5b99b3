"""`posse evaluate`: a table of what policies would have earned, and where the log does not know."""

import json

import pytest

from tests.cli.calling import said
from tests.live.test_offline import world
from tests.test_offline import make_rows


def run(capsys, *arguments):
    return said(capsys, "evaluate", *arguments)


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.jsonl"
    rows = make_rows(1, 400, probabilities=(0.0, 0.6, 0.4))
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def test_a_table_of_policies(capsys, log):
    code, out, err = run(capsys, log, "--policy", "arm=red", "--policy", "uniform")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "400 decisions"
    rows = [line.split() for line in lines if line.startswith(("as logged", "arm=red", "uniform"))]
    assert [row[0] for row in rows] == ["as", *["arm=red"] * 3, *["uniform"] * 3]
    assert {row[1] for row in rows[1:]} == {"IPS", "SNIPS", "doubly"}
    (warning,) = [line for line in lines if line.startswith("! uniform: 33%")]
    assert "set min_share" in warning
    assert not any(line.startswith("! arm=red") for line in lines)


def test_nothing_of_a_number_is_cut_off_in_a_narrow_window(capsys, log, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    name = "a-checkout-with-a-rather-long-name"
    log.write_text(log.read_text().replace("red", name))
    code, out, _ = run(capsys, log, "--policy", f"arm={name}")
    assert code == 0
    assert "…" not in out
    rows = [line.split() for line in out.splitlines() if " to " in line]
    assert all(float(row[-5]) <= float(row[-3]) for row in rows)
    assert len(rows) == 4


def test_every_arm_greedy_and_uniform_if_none_is_named(capsys, log):
    code, out, _ = run(capsys, log, "--json")
    answer = json.loads(out)
    assert code == 0
    policies = {each["policy"]: each for each in answer["policies"]}
    assert list(policies) == ["greedy", "uniform", "arm=blue", "arm=green", "arm=red"]
    assert answer["decisions"] == 400
    assert policies["arm=blue"]["estimates"]["SNIPS"]["value"] is None  # nobody played it
    assert policies["arm=red"]["estimates"]["SNIPS"]["value"] == pytest.approx(0.3, abs=0.15)
    assert policies["arm=red"]["warnings"] == []


def test_several_logs_are_one(capsys, tmp_path, log):
    other = tmp_path / "paris.jsonl"
    rows = make_rows(2, 100, site="paris")
    other.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    answer = json.loads(run(capsys, log, other, "--json")[1])
    assert answer["decisions"] == 500


def test_a_store_is_read_itself(capsys, tmp_path):
    exported = world(tmp_path / "agent.db", "berlin", 1, 2000, min_share=0.1)
    (tmp_path / "log.jsonl").write_text(exported, encoding="utf-8")
    answers = [
        json.loads(run(capsys, tmp_path / name, "--policy", "uniform", "--json")[1])
        for name in ("agent.db", "log.jsonl")
    ]
    assert answers[0] == answers[1]
    # twenty a second, within the window of 50 seconds
    (young,) = [n for why, n in answers[0]["left_out"].items() if why.startswith("younger")]
    assert young == pytest.approx(1000, abs=40)
    assert answers[0]["decisions"] == 2000 - young


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nothing.jsonl"], "there is no file nothing.jsonl"),
        (["{log}", "--policy", "best"], "policy must be greedy, uniform or arm=NAME, got 'best'"),
        (["{log}", "--window", "-1"], "--window must be seconds, 0 or more, got -1.0"),
        (["{log}", "--experiment", "x"], "the log has no decisions of experiment 'x'"),
    ],
)
def test_mistakes_are_one_line(capsys, log, arguments, sentence):
    code, out, err = run(capsys, *(text.replace("{log}", str(log)) for text in arguments))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
