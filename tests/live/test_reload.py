"""Changes without a restart: what is taken in, what is refused; what is bad changes nothing."""

import sqlite3
import threading

import pytest

from posse.live.config.agent_settings import settings_from_data
from posse.live.experiment.experiment import Audit
from posse.live.messaging.inbox import MessageLimits
from posse.live.process import make_node
from posse.live.security import certificates
from posse.live.store import Disk, Store, StoreError, Unknown
from tests.live.loopback import certified, free_addresses, wait_until
from tests.live.several import Several, table


@pytest.fixture
def pair(tmp_path):
    made = Several(tmp_path).start(a=table("a"), b=table("b"))
    yield made
    made.close()


def change(pair, who="a", **changes):
    experiments = changes.pop("experiments", ("checkout", "banner"))
    data = table(who, experiments) | changes
    return pair.nodes[who].reload(pair.read_settings(data))


def test_the_same_settings_change_nothing(pair):
    before = pair.nodes["a"].transport
    assert change(pair) == "nothing changed"
    assert pair.nodes["a"].transport is before


def test_what_verdicts_rest_on_cannot_be_changed(tmp_path):
    verdicts = {"stop": {}, "reward_window": 60}
    made = Several(tmp_path).start(a=table("a") | verdicts, b=table("b") | verdicts)
    try:
        for changes, words in (
            ({"stop": {}, "reward_window": 90}, "reward_window of the experiment checkout"),
            ({"stop": {}}, "equal windows for all decisions; start another experiment"),
            ({"reward_window": 60}, "stop of the experiment checkout cannot change"),
        ):
            with pytest.raises(ValueError, match=words):
                change(made, **changes)
        assert change(made, stop={}, reward_window=60) == "nothing changed"
    finally:
        made.close()


def test_experiments_come_and_go_and_their_evidence_stays(pair):
    pair.visit("a", "banner", 4)
    assert change(pair, experiments=["checkout", "prices"]) == "experiments: +prices -banner"
    with pytest.raises(Unknown):
        pair.visit("a", "banner")
    change(pair, "b", experiments=["checkout", "prices"])
    pair.visit("a", "prices", 2)
    pair.visit("b", "checkout", 3)
    pair.tick(20)
    assert (pair.pulls("b", "prices"), pair.pulls("a", "checkout")) == (2, 3)
    assert change(pair, experiments=["banner", "checkout", "prices"]) == "experiments: +banner"
    assert pair.pulls("a", "banner") == 4
    pair.visit("a", "banner")
    assert pair.pulls("a", "banner") == 5
    assert pair.nodes["a"].counts.copy()["rewards"] == 7


def test_a_reward_in_flight_counts_while_its_experiment_is_added_back(pair, monkeypatch):
    """It was acknowledged, and lost: the added experiment had read its evidence before."""
    removed = pair.nodes["a"].experiment("banner")
    made = removed.decide()
    pair.visit("a", "banner")
    change(pair, experiments=["checkout"])
    read = Store.read_rows
    reward = threading.Thread(target=lambda: removed.reward(made.id, 1.0))

    def read_slowly(store, query, values=()):
        rows = read(store, query, values)
        if query.startswith("SELECT part, value FROM exchange"):
            reward.start()
            reward.join(0.5)  # it must wait: the evidence has been read
        return rows

    monkeypatch.setattr(Store, "read_rows", read_slowly)
    change(pair)
    reward.join()
    assert pair.nodes["a"].experiment("banner").audit() == Audit(2, 2.0, 2.0)


def test_an_experiment_that_a_full_disk_does_not_take_is_refused_and_added_later(pair, monkeypatch):
    """Seen: KeyError in place of the reason, where the commit failed that attaches it."""
    commit = Disk.commit
    left = 0  # commits before the disk is full

    def commit_while_there_is_room(disk, connection, durable):
        nonlocal left
        left -= 1
        if left < 0:
            full = sqlite3.OperationalError("database or disk is full")
            full.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise full
        commit(disk, connection, durable)

    wanted = ["banner", "checkout", "prices"]
    with monkeypatch.context() as patch:
        patch.setattr(Disk, "commit", commit_while_there_is_room)
        for room in range(20):
            left = room
            try:
                change(pair, experiments=wanted)
            except StoreError as error:
                assert "disk is full" in str(error)  # noqa: PT017
            if left >= 0:
                break
    assert room >= 3
    assert left == 0
    change(pair, experiments=wanted)
    for experiment in wanted:
        pair.visit("a", experiment)
        assert pair.nodes["a"].experiment(experiment).audit() == Audit(1, 1.0, 1.0)


def test_arms_come_and_go_and_their_evidence_stays(pair):
    pair.visit("a", "checkout", 10)
    held = pair.nodes["a"].experiment("checkout").evidence()["held"]
    said = change(pair, experiments={"checkout": {"arms": ["green", "blue"]}, "banner": {}})
    assert said == "arms of checkout: +blue -red"
    one = pair.nodes["a"].experiment("checkout")
    assert list(one.arms()) == ["green", "blue"]
    assert {one.decide().arm for _ in range(30)} <= {"green", "blue"}
    assert one.evidence()["held"] == held
    pair.tick(20)
    assert pair.pulls("b", "checkout") == 10


def test_windows_limits_and_operators(pair):
    said = change(
        pair, reward_window=5, default_reward=0, operators=["b"], tick_seconds=0.5,
        limits={"messages_per_second": 1.0},
    )  # fmt: skip
    assert "reward_window of checkout: 5; default_reward of checkout: 0" in said
    assert "operators: +b; new limits; new tick_seconds" in said
    node = pair.nodes["a"]
    assert (node.limits, node.tick_seconds) == (MessageLimits(1.0), 0.5)
    assert [each.agent.exchange.tick_seconds for each in node.experiments.values()] == [0.5] * 2
    assert node.experiment("banner").controls.operators == {"b"}
    decision = node.experiment("banner").decide()
    pair.tick(6)
    assert node.experiment("banner").store.find_decision(decision.id).silent


def test_neighbours_come_and_go(pair):
    assert change(pair, neighbours={}) == "neighbours: -b"
    pair.visit("b", "checkout", 2)
    pair.tick(20)
    assert pair.pulls("a", "checkout") == 2  # what it says is still heard
    pair.visit("a", "checkout")
    pair.tick(20)
    assert pair.pulls("b", "checkout") == 2
    assert change(pair) == "neighbours: +b"
    pair.tick(20)
    assert pair.pulls("b", "checkout") == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "c"}, "name cannot change while the agent runs: restart it"),
        ({"store": "other.db"}, "store cannot change"),
        ({"http": "127.0.0.1:1"}, "http cannot change"),
        ({"network": "other"}, "network cannot change"),
        ({"family": {"name": "bernoulli", "alpha": 2}}, "family of the experiment checkout cannot"),
        ({"exchange": "flows"}, "exchange of the experiment checkout cannot change"),
        ({"half_life": "1 day"}, "half_life of the experiment checkout cannot change"),
    ],
)
def test_what_cannot_be_changed_changes_nothing(pair, changes, words):
    """Not even what is good beside it."""
    node = pair.nodes["a"]
    before = node.experiments, node.transport, node.limits, node.neighbours
    good = {"limits": {"messages_per_second": 1.0}, "neighbours": {}}
    with pytest.raises(ValueError, match=words):
        change(pair, **changes, **good)
    assert (node.experiments, node.transport, node.limits, node.neighbours) == before
    assert change(pair) == "nothing changed"


def test_a_store_that_fails_changes_nothing(pair, monkeypatch):
    node = pair.nodes["a"]
    before = node.experiments

    def full(*_):
        raise ValueError("the disk is full")

    monkeypatch.setattr(type(node.store), "open_experiment", full)
    with pytest.raises(ValueError, match="the disk is full"):
        change(pair, experiments=["checkout", "banner", "prices"], neighbours={})
    assert node.experiments is before
    assert node.neighbours == ("b",)
    pair.visit("b", "checkout")
    pair.tick(20)
    assert pair.pulls("a", "checkout") == 1


def test_a_refused_experiment_leaves_no_other_in_the_store(pair):
    """The new one beside it stayed in the store, and could not be added in another form."""
    store = pair.nodes["a"].store
    change(pair, experiments=["checkout"])
    counts = {"family": "poisson", "reward_range": [0, 10]}
    with pytest.raises(ValueError, match="in the experiment banner"):
        change(pair, experiments={"checkout": {}, "prices": {}, "banner": counts})
    assert store.experiment_names() == ["checkout", "banner"]
    change(pair, experiments={"checkout": {}, "prices": counts})


def test_an_address_that_is_taken_changes_nothing(pair, monkeypatch):
    """The new transport cannot start: the old way to others is opened again."""
    node = pair.nodes["a"]
    start = type(node.transport).start
    failed = []

    def taken(self, receive):
        if len(failed) < 1:
            failed.append(1)
            raise RuntimeError("the address is in use")
        start(self, receive)

    monkeypatch.setattr(type(node.transport), "start", taken)
    with pytest.raises(RuntimeError, match="the address is in use"):
        change(pair, neighbours={}, experiments=["checkout", "banner", "prices"])
    assert node.neighbours == ("b",)
    assert node.store.experiment_names() == ["checkout", "banner"]
    pair.visit("b", "checkout")
    pair.tick(20)
    assert pair.pulls("a", "checkout") == 1


def test_ten_experiments_are_added_while_others_are_asked(pair):
    """No request fails, none is lost."""
    node, over, mistakes, made = pair.nodes["a"], threading.Event(), [], []

    def ask():
        try:
            while not over.is_set():
                one = node.experiment("checkout")
                one.reward(one.decide().id, 1.0)
                made.append(1)
        except Exception as error:
            mistakes.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    names = ["checkout", "banner"]
    for k in range(10):
        names.append(f"new-{k}")
        assert change(pair, experiments=names) == f"experiments: +new-{k}"
        node.tick()
    over.set()
    thread.join(30)
    assert not mistakes
    assert pair.pulls("a", "checkout") == len(made) > 0
    assert list(node.experiments) == names


def test_a_node_made_by_hand_says_so(node):
    with pytest.raises(ValueError, match="not built from settings"):
        node.reload(settings_from_data(table("a")))


def test_neighbours_and_certificates_over_real_tls(tmp_path):
    """The session is opened anew for both, at the same address, and neither agent stops."""
    certified(tmp_path / "certs", "a", "b")
    at = dict(zip("ab", free_addresses(2), strict=True))

    def settings(name, **changes):
        return settings_from_data(
            table(name, ["checkout"], listen=at[name], tick_seconds=0.05, **changes)
        )

    nodes = {
        "a": make_node(settings("a"), tmp_path),
        "b": make_node(settings("b", neighbours={"a": at["a"]}), tmp_path),
    }
    try:
        for node in nodes.values():
            node.start()
        nodes["b"].reward(nodes["b"].decide().id, 1.0)
        joined = settings("a", neighbours={"b": at["b"]})
        assert nodes["a"].reload(joined) == "neighbours: +b"

        def holds(name, pulls):
            arms = nodes[name].arms().values()
            return sum(arm["pulls_in_network"] for arm in arms) == pulls

        wait_until(lambda: holds("a", 1), "the new neighbour is heard")
        before = nodes["a"].transport
        assert nodes["a"].reload(joined) == "nothing changed"
        assert nodes["a"].transport is before
        (tmp_path / "certs" / "a.key").write_text("spoilt")
        with pytest.raises(ValueError, match="not a private key"):
            nodes["a"].reload(joined)
        certificates.issue_certificate(tmp_path / "certs", "a", force=True)
        assert nodes["a"].reload(joined) == "certificates reloaded"
        nodes["a"].reward(nodes["a"].decide().id, 1.0)
        wait_until(lambda: holds("b", 2), "it is heard with its new certificate")
        assert nodes["b"].network()["refused"] == {}
    finally:
        for node in nodes.values():
            node.stop()
