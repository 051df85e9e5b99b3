"""Several experiments in one node: one store and one link, and each is exact whatever others do."""

import pytest

from posse.live.store import StoreError, Unknown
from tests.live.several import Several, table


@pytest.fixture
def several(tmp_path):
    made = []

    def make(**options):
        made.append(Several(tmp_path, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("exchange", ["origins", "flows"])
@pytest.mark.parametrize("faults", [{}, {"loss": 0.3, "duplication": 0.2, "reorder": True}])
def test_every_experiment_counts_its_own(several, exchange, faults):
    w = several(**faults).start(**{n: table(n, exchange=exchange) for n in "abc"})
    for _ in range(10):
        for name in w.nodes:
            w.visit(name, "checkout")
        w.visit("b", "banner")
        w.tick()
    w.network.loss = 0.0
    w.tick(60)
    for name in w.nodes:
        assert w.pulls(name, "checkout") == pytest.approx(30, abs=1e-3)
        assert w.pulls(name, "banner") == pytest.approx(10, abs=1e-3)
        assert w.nodes[name].network()["refused"] == {}
    assert w.nodes["b"].counts.copy()["rewards"] == 20
    assert w.nodes["b"].experiment("banner").counts.copy() == {"decisions": 10, "rewards": 10}


def test_neighbours_need_not_run_the_same_experiments(several):
    """What is not run here is counted and shown; it does not travel by way of this agent."""
    w = several().start(
        a=table("a", ["checkout", "banner"]), b=table("b", ["checkout"]), c=table("c", ["banner"])
    )
    for _ in range(3):
        w.visit("a", "checkout")
        w.visit("a", "banner")
        w.visit("b", "checkout")
        w.visit("c", "banner")
        w.tick()
    w.tick(20)
    assert w.pulls("a", "checkout") == w.pulls("b", "checkout") == 6
    assert w.pulls("a", "banner") == w.pulls("c", "banner") == 3
    assert w.nodes["a"].network()["refused"] == {}  # it runs all that b does
    for name in "bc":
        assert w.nodes[name].network()["refused"].keys() == {"unknown_experiment"}
        assert not w.nodes[name].failures.copy()


def test_an_experiment_is_named_or_the_only_one(several):
    w = several().start(a=table("a"), b=table("b", ["checkout"]))
    with pytest.raises(Unknown, match="several experiments: name one of checkout, banner"):
        w.nodes["a"].decide()
    with pytest.raises(Unknown, match="unknown experiment 'prices': this agent runs checkout"):
        w.nodes["b"].experiment("prices")
    assert w.nodes["b"].decide().arm in ("red", "green")


def test_the_same_id_in_two_experiments_is_two_decisions(several):
    node = several().start(a=table("a"), b=table("b")).nodes["a"]
    one, two = node.experiment("checkout"), node.experiment("banner")
    one.decide("visit-1")
    with pytest.raises(Unknown):
        two.reward("visit-1", 1.0)
    two.decide("visit-1")
    one.reward("visit-1", 1.0)
    two.reward("visit-1", 0.0)
    assert one.evidence()["own"] != two.evidence()["own"]


def test_all_is_there_after_a_restart_and_a_left_out_experiment_waits_in_the_file(several):
    w = several().start(a=table("a"), b=table("b"))
    w.visit("a", "checkout", 3)
    w.visit("a", "banner", 5)
    w.nodes["a"].stop()
    w.open_node(table("a", ["checkout"]))
    assert w.pulls("a", "checkout") == 3
    w.nodes["a"].stop()
    w.open_node(table("a", ["banner", "checkout"]))
    assert (w.pulls("a", "banner"), w.pulls("a", "checkout")) == (5, 3)


def test_a_fault_in_one_experiment_leaves_the_others_exact(several, monkeypatch, caplog):
    """Its tick fails, what it is told fails, and learning fails: of the other nothing is lost."""
    w = several().start(a=table("a"), b=table("b"))
    bad = w.nodes["b"].experiment("checkout")

    def broken(*_):
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(bad.agent, "tick", broken)
    monkeypatch.setattr(bad.agent.exchange, "receive", broken)
    monkeypatch.setattr(bad.agent, "learn", broken)
    for _ in range(5):
        w.visit("a", "banner")
        w.visit("a", "checkout")
        w.visit("b", "banner")
        with pytest.raises(RuntimeError):
            w.visit("b", "checkout")
        w.tick()
    w.tick(20)
    assert w.pulls("a", "banner") == w.pulls("b", "banner") == 10
    assert w.nodes["b"].failures["tick"] >= 5
    assert w.nodes["b"].failures["receive"] >= 5
    assert "experiment checkout: tick failed" in caplog.text
    monkeypatch.undo()
    w.visit("b", "checkout")
    w.tick(40)
    assert w.pulls("a", "checkout") == w.pulls("b", "checkout") == 6


def test_a_flood_of_one_experiment_leaves_the_others_exact(several):
    """Beyond the budget messages are dropped and counted; what was lost is said again."""
    w = several().start(a=table("a", limits={"messages_per_second": 8}), b=table("b"))
    node, heard = w.nodes["a"], []
    taken = w.nodes["b"].transport.send
    w.nodes["b"].transport.send = lambda peer, payload: (
        heard.append(payload),
        taken(peer, payload),
    )
    w.visit("b", "checkout")
    w.tick()
    for _ in range(20):
        for payload in heard[:2] * 50:
            node.receive("b", payload)
        w.visit("a", "banner")
        w.visit("b", "banner")
        w.tick()
    assert node.network()["refused"]["message_rate_exceeded"] > 1000
    w.tick(40)
    assert w.pulls("a", "banner") == w.pulls("b", "banner") == 40
    assert w.pulls("a", "checkout") == 1


def test_a_failed_commit_takes_back_what_every_experiment_did(several, monkeypatch):
    w = several().start(a=table("a"), b=table("b"))
    node = w.nodes["a"]
    one, two = (node.experiment(name) for name in ("checkout", "banner"))
    first, second = one.decide(), two.decide()

    def fail():
        with node.store.transaction():
            one.reward(first.id, 1.0)
            two.reward(second.id, 1.0)
            raise StoreError("the disk is full")

    with pytest.raises(StoreError):
        fail()
    assert one.evidence()["own"] == two.evidence()["own"] == {}
    one.reward(first.id, 1.0)
    two.reward(second.id, 1.0)
    assert sum(arm["pulls_here"] for arm in one.arms().values()) == 1
    assert sum(arm["pulls_here"] for arm in two.arms().values()) == 1


def test_a_run_is_a_function_of_its_seed(tmp_path):
    """No thread, no clock but the one given, no chance but the one drawn."""

    def run(folder):
        folder.mkdir()
        w = Several(folder, seed=7).start(a=table("a"), b=table("b", exchange="origins"))
        said = []
        for name, node in w.nodes.items():
            send = node.transport.send
            node.transport.send = lambda peer, payload, send=send, name=name: (
                said.append((name, peer, payload)), send(peer, payload),
            )  # fmt: skip
        decisions = []
        for _ in range(5):
            for name in w.nodes:
                for experiment in ("checkout", "banner"):
                    one = w.nodes[name].experiment(experiment)
                    decisions.append(one.decide())
                    one.reward(decisions[-1].id, 1.0)
            w.tick()
        w.close()
        return said, decisions

    assert run(tmp_path / "one") == run(tmp_path / "two")
