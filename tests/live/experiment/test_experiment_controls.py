"""Pins and pauses in whole nodes: they act, travel, stay on disk, and go no further."""

import time

import pytest

from posse.live.experiment.decision_request import DecisionRequest
from posse.live.store import Conflict, StoreError
from tests.live.loopback import certified
from tests.live.several import Certified, Several, table


@pytest.fixture(scope="module")
def certs(tmp_path_factory):
    return certified(tmp_path_factory.mktemp("world") / "certs", "a", "b", "c").parent


@pytest.fixture
def line(certs, tmp_path):
    """a, b and c on a line under both exchanges; a is the operator."""
    (tmp_path / "certs").symlink_to(certs / "certs")
    tables = {"checkout": {}, "banner": {"exchange": "flows"}}
    made = Certified(tmp_path)
    made.now = time.time()  # certificates are valid now
    made.start(**{name: table(name, tables, operators=["a"]) for name in "abc"})
    yield made
    made.close()


def played(node, experiment):
    return {node.experiment(experiment).decide().arm for _ in range(40)}


@pytest.mark.parametrize("experiment", ["checkout", "banner"])
def test_an_operators_pin_acts_everywhere_and_is_lifted_again(line, experiment):
    line.nodes["a"].pin(experiment, "green")
    line.tick(5)
    for node in line.nodes.values():
        assert played(node, experiment) == {"green"}
        other = "banner" if experiment == "checkout" else "checkout"
        assert played(node, other) == {"red", "green"}
        assert node.experiment(experiment).control_status()["pinned"] == "green"
    with pytest.raises(Conflict, match="no arm is left to play"):
        line.nodes["c"].experiment(experiment).decide(allowed=["red"])
    line.nodes["a"].resume(experiment)
    line.tick(5)
    for node in line.nodes.values():
        assert played(node, experiment) == {"red", "green"}
        assert node.network()["refused"] == {}


def test_who_is_no_operator_acts_at_home_alone(line):
    line.nodes["c"].pause("checkout", "red")
    line.tick(15)
    assert played(line.nodes["c"], "checkout") == {"green"}
    assert played(line.nodes["b"], "checkout") == {"red", "green"}
    with pytest.raises(Conflict, match="unknown arm 'blue'"):
        line.nodes["c"].pin("checkout", "blue")


def test_a_control_is_there_after_a_restart_of_all(line):
    line.nodes["a"].pin("checkout", "green")
    line.tick(5)
    for name in "abc":
        line.nodes[name].stop()
        line.open_node(
            table(name, {"checkout": {}, "banner": {"exchange": "flows"}}, operators=["a"])
        )
    for node in line.nodes.values():
        assert played(node, "checkout") == {"green"}


def test_a_control_that_cannot_be_written_does_not_act(line, monkeypatch):
    node = line.nodes["a"]

    def full(*_):
        raise StoreError("the disk is full")

    monkeypatch.setattr(node.experiment("checkout").store, "write_record", full)
    with pytest.raises(StoreError):
        node.pin("checkout", "green")
    assert played(node, "checkout") == {"red", "green"}
    line.tick(5)
    assert played(line.nodes["c"], "checkout") == {"red", "green"}


def test_a_batch_keeps_to_controls_and_each_wish_has_its_own_answer(line):
    node = line.nodes["a"]
    node.pause("checkout", "red")
    one = node.experiment("checkout")
    asked = (None, None), ("x", ["red"]), (None, ["green"]), (None, ["blue"])
    made = one.draw_decisions([DecisionRequest(*each) for each in asked])
    assert [getattr(each, "arm", type(each).__name__) for each in made] == [
        "green", "Conflict", "green", "ValueError",
    ]  # fmt: skip


def test_without_certificates_controls_stay_here(tmp_path):
    w = Several(tmp_path).start(a=table("a", operators=["a"]), b=table("b", operators=["a"]))
    try:
        w.nodes["a"].pin("checkout", "green")
        w.tick(15)
        assert played(w.nodes["a"], "checkout") == {"green"}
        assert played(w.nodes["b"], "checkout") == {"red", "green"}
    finally:
        w.close()


def test_operators_change_with_a_reload(line):
    line.nodes["a"].pin("checkout", "green")
    line.tick(5)
    tables = {"checkout": {}, "banner": {"exchange": "flows"}}
    line.nodes["b"].reload(line.read_settings(table("b", tables)))
    assert played(line.nodes["b"], "checkout") == {"red", "green"}
    line.nodes["b"].reload(line.read_settings(table("b", tables, operators=["a"])))
    line.tick(15)
    assert played(line.nodes["b"], "checkout") == {"green"}
