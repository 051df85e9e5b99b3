"""Whole nodes: what one of them knows of all the others, and what it says about it."""

from dataclasses import replace

import pytest

from posse.live.http.metrics import render_metrics
from posse.live.membership.records import Status, StatusMessage
from posse.live.messaging.wire import Codec
from posse.live.security.certificates import CertificateFiles, issue_certificate
from posse.live.security.signatures import make_signer
from tests.live.loopback import certified
from tests.live.several import Certified, Several, table

NAMES = "abc"
START = 1.8e9  # certificates are of a time, too


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return certified(tmp_path_factory.mktemp("certs"), *NAMES, "mallory")


@pytest.fixture
def line(tmp_path, certificates):
    """a - b - c with certificates, or without."""
    made = []

    def make(kind=Certified, experiments=("shop",), **changes):
        (tmp_path / "certs").symlink_to(certificates)
        several = kind(tmp_path)
        several.now = START
        made.append(several)
        return several.start(**{name: table(name, experiments, **changes) for name in NAMES})

    yield make
    for each in made:
        each.close()


def later(line, seconds):
    """Time passes, in which all tick a few times."""
    for _ in range(seconds // 10):
        line.now += 9
        line.tick()


def states(line, name):
    return {each: shown["state"] for each, shown in line.nodes[name].network()["agents"].items()}


@pytest.mark.parametrize("kind", [Certified, Several])
def test_everybody_sees_everybody(line, kind):
    line = line(kind)
    line.visit("c", "shop", 3)
    line.tick(4)
    shown = line.nodes["a"].network()
    c = shown["agents"]["c"]
    assert states(line, "a") == {"a": "here", "b": "up", "c": "up"}
    assert (c["via"], c["version"], c["started"]) == ("b", shown["agents"]["a"]["version"], START)
    assert c["neighbours"] == {"b": {"up": True, "lag": 0.0}}
    assert c["heard"] >= START
    assert [(each["a"], each["b"], each["state"]) for each in shown["links"]] == [
        ("a", "b", "up"), ("b", "c", "up")
    ]  # fmt: skip
    later(line, 70)
    assert line.nodes["a"].network()["agents"]["c"]["experiments"] == {
        "shop": {"counted": 3, "open": 0, "late": 0, "held": 3, "behind": 0},
    }
    assert shown["refused"] == {}
    assert "posse_agents_up 3\n" in render_metrics(line.nodes["a"])


def test_a_silent_death_and_its_end(line):
    line = line()
    line.tick(5)
    line.nodes.pop("c").stop()
    line.tick(2)
    assert states(line, "b")["c"] == "down"
    assert line.nodes["a"].network()["links"][1]["state"] == "down"
    later(line, 130)
    assert states(line, "a")["c"] == "silent"
    assert "posse_agents_up 2\n" in render_metrics(line.nodes["a"])
    line.open_node(table("c", ["shop"]))
    line.tick(4)
    assert states(line, "a") == {"a": "here", "b": "up", "c": "up"}


def test_open_decisions_are_counted_and_not_called_late(line):
    line = line(reward_window=60, default_reward=0)
    one = line.nodes["b"].experiment("shop")
    first, *_ = [one.decide() for _ in range(4)]
    one.reward(first.id, 1.0)
    later(line, 70)
    line.visit("b", "shop", 2)
    shown = line.nodes["b"].network()["agents"]["b"]["experiments"]["shop"]
    assert shown == {"counted": 6, "open": 2, "late": 0, "held": 6, "behind": 0}
    later(line, 70)
    there = line.nodes["a"].network()["agents"]["b"]["experiments"]["shop"]
    assert there["held"] == there["counted"] == 6


def test_under_flows_an_agent_knows_itself_and_its_neighbours(line):
    line = line(exchange="flows")
    line.visit("c", "shop", 3)
    later(line, 70)
    assert states(line, "a") == {"a": "here", "b": "up"}
    assert states(line, "b") == {"a": "up", "b": "here", "c": "up"}
    c = line.nodes["b"].network()["agents"]["c"]["experiments"]["shop"]
    assert (c["counted"], c["held"], c["behind"]) == (3, None, None)


def test_one_experiment_under_origins_is_enough_to_relay(line):
    line = line(experiments={"banner": {"exchange": "flows"}, "checkout": {}})
    line.tick(5)
    assert states(line, "a") == {"a": "here", "b": "up", "c": "up"}


def test_where_evidence_fades_nobody_is_behind(line):
    line = line(half_life=200)
    line.visit("c", "shop", 50)
    later(line, 150)
    c = line.nodes["a"].network()["agents"]["c"]["experiments"]["shop"]
    assert c["behind"] is None
    assert 25 <= c["held"] <= c["counted"] <= 50


def test_forged_statuses_are_counted_and_charged_to_who_brings_them(line, certificates):
    line = line(limits={"messages_per_second": 20})
    line.tick(5)
    status = Status("c", "default", int(1000 * line.now) + 1, 0, "9")
    codec, sign = (
        Codec(StatusMessage),
        make_signer(CertificateFiles.in_folder(certificates, "mallory")),
    )
    forged = replace(status, signature=sign(status.content))
    victim = line.nodes["a"]
    for n in range(30):
        victim.receive(
            "b", codec.encode(StatusMessage(((0, replace(forged, started=n)),), 1, 0, 0))
        )
    refused = victim.network()["refused"]
    assert 1 <= refused["status_signature_invalid"] <= 10  # eleven of its messages each
    assert refused["message_rate_exceeded"] >= 20
    assert victim.network()["agents"]["c"]["version"] != "9"
    later(line, 80)
    shown = line.nodes["b"].network()["agents"]["a"]
    assert shown["refused"]["status_signature_invalid"] == refused["status_signature_invalid"]


def test_keys_that_change_while_agents_run(tmp_path):
    """A new authority, agent by agent: the statuses of each are signed and read by what it has."""
    certified(tmp_path / "certs", *NAMES)
    line = Certified(tmp_path)
    line.now = START
    line.start(**{name: table(name, ["shop"]) for name in NAMES})
    try:
        line.tick(3)
        new = certified(tmp_path / "new", *NAMES)
        ca = tmp_path / "certs" / "ca.pem"
        both = ca.read_bytes() + (new / "ca.pem").read_bytes()
        ca.write_bytes(both)
        for name in NAMES:  # all trust both first
            line.nodes[name].reload(line.read_settings(table(name, ["shop"])))
        line.tick(3)
        for end in ("pem", "key"):
            target = tmp_path / "certs" / f"c.{end}"
            target.write_bytes((new / f"c.{end}").read_bytes())
        said = line.nodes["c"].reload(line.read_settings(table("c", ["shop"])))
        assert said == "certificates reloaded"
        later(line, 70)
        held = line.nodes["a"].presence.statuses()["c"].status
        assert held.time > 1000 * (line.now - 62)
        assert (
            make_signer(CertificateFiles.in_folder(tmp_path / "new", "c"))(b"")[:-64]
            == held.signature[:-64]
        )
        assert line.nodes["a"].network()["refused"] == {}
    finally:
        line.close()


def test_neighbours_that_a_reload_adds_and_removes(line):
    line = line()
    line.tick(5)
    line.network.link("a", "c")
    a = line.nodes["a"].reload(
        line.read_settings(table("a", ["shop"], neighbours={"b": "", "c": ""}))
    )
    c = line.nodes["c"].reload(line.read_settings(table("c", ["shop"], neighbours={"a": ""})))
    assert (a, c) == ("neighbours: +c", "neighbours: +a -b")
    line.tick(5)
    shown = {(e["a"], e["b"]): e["state"] for e in line.nodes["a"].network()["links"]}
    assert shown == {("a", "b"): "up", ("a", "c"): "up", ("b", "c"): "up"}
    assert line.nodes["b"].network()["agents"]["c"]["neighbours"].keys() == {"a"}


def test_a_neighbour_with_a_small_budget_is_within_it(line):
    """Statuses add at most about a message a tick and neighbour."""
    line = line(limits={"messages_per_second": 8})
    line.tick(30)
    for name in NAMES:
        assert line.nodes[name].network()["refused"] == {}


def test_a_fault_of_ours_keeps_no_evidence_back(line, monkeypatch):
    line = line()
    monkeypatch.setattr(line.nodes["a"].presence, "make_messages", lambda *_: 1 / 0)
    monkeypatch.setattr(line.nodes["b"].presence, "receive", lambda *_: 1 / 0)
    line.visit("a", "shop")
    line.tick(5)
    assert line.pulls("c", "shop") == 1
    assert line.nodes["a"].failures["tick"] == 5
    assert line.nodes["b"].failures["receive"] > 0


def test_a_certificate_of_another_authority_is_not_believed(line, certificates, tmp_path):
    line = line()
    line.tick(3)
    other = certified(tmp_path / "other")
    sign = make_signer(issue_certificate(other, "c"))
    status = Status("c", "default", int(1000 * line.now) + 5, 0, "9")
    status = replace(status, signature=sign(status.content))
    line.nodes["b"].receive(
        "c", Codec(StatusMessage).encode(StatusMessage(((0, status),), 1, 0, 0))
    )
    assert line.nodes["b"].refusals["status_signature_invalid"] == 1
    assert line.nodes["b"].network()["agents"]["c"]["version"] != "9"
