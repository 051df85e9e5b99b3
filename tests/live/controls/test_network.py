"""Pins and pauses from agent to agent: whole nodes with certificates on a network that loses."""

import re
import time

import pytest

from posse.live.controls.controls import REPEAT_SECONDS
from posse.live.demo.fleet import Fleet
from posse.live.http.metrics import render_metrics
from posse.live.security import read_certificate
from posse.live.store import Conflict
from tests.live.loopback import certified

NAMES = ("berlin", "paris", "rome")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return certified(tmp_path_factory.mktemp("certs"), *NAMES)


class Line(Fleet):
    """berlin - paris - rome; every third message is lost."""

    def __init__(self, folder, certificates, **options):
        links = [("berlin", "paris"), ("paris", "rome")]
        super().__init__(
            folder, links, seed=1, now=time.time(), certificates=certificates, loss=0.3
        )
        self.options = options
        for name in NAMES:
            self.start(name)

    def start(self, name, **changed):
        data = {
            "name": name,
            "arms": ["red", "green"],
            "family": "bernoulli",
            "operators": ["berlin"],
            "experiments": {"default": {}, "banner": {"arms": ["red", "blue"]}},
        }
        self.open_node(data | self.options | changed)

    def restart(self, name, **changed):
        self.close_node(name)
        self.start(name, **changed)

    def play(self, rounds=30):
        for _ in range(rounds):
            for node in self.nodes.values():
                node.tick()
            self.network.step()
            self.now += REPEAT_SECONDS  # so that what was lost is said again

    def pinned(self, experiment="default"):
        return {
            name: node.experiment(experiment).control_status()["pinned"]
            for name, node in self.nodes.items()
        }


@pytest.fixture
def line(tmp_path, certificates):
    made = []

    def make(**options):
        made.append(Line(tmp_path, certificates, **options))
        return made[0]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("exchange", ["origins", "flows"])
def test_an_operators_pin_reaches_all_and_outlives_restarts(line, exchange):
    line = line(exchange=exchange)
    line.nodes["berlin"].pin("default", "green")
    line.play()
    assert line.pinned() == dict.fromkeys(NAMES, "green")
    assert line.pinned("banner") == dict.fromkeys(NAMES)  # the other experiment plays on
    rome = line.nodes["rome"].experiment("default")
    assert rome.decide().arm == "green"
    with pytest.raises(Conflict, match="'green' is pinned in the whole network by berlin"):
        rome.decide(None, ["red"])
    line.network.partition(["rome"], ["paris"], ["berlin"])
    line.restart("rome")
    assert line.pinned()["rome"] == "green"  # nobody had to say it again
    line.network.heal()
    line.nodes["berlin"].resume("default")
    line.play()
    assert line.pinned() == dict.fromkeys(NAMES)
    assert line.nodes["rome"].experiment("default").control_status()["network"]["version"] == 2
    assert all("control" not in reason for reason in line.nodes["rome"].network()["refused"])


def test_what_others_pin_stays_where_it_is(line):
    line = line()
    line.nodes["paris"].pin("banner", "blue")
    line.play()
    assert line.pinned("banner") == {"berlin": None, "paris": "blue", "rome": None}
    line.restart("paris")
    assert line.pinned("banner")["paris"] == "blue"


def test_an_operator_whom_others_do_not_name_is_refused_and_counted(line):
    line = line()
    line.restart("paris", operators=["rome"])
    line.nodes["berlin"].pin("default", "green")
    line.play()
    assert line.pinned() == {"berlin": "green", "paris": None, "rome": None}
    reason = "control_not_from_operator"
    assert line.nodes["paris"].network()["refused"][reason] > 0


def test_without_certificates_a_pin_stays_here(line):
    line = line(insecure=True)
    line.nodes["berlin"].pin("default", "green")
    line.play()
    assert line.pinned() == {"berlin": "green", "paris": None, "rome": None}


def test_an_agent_that_left_is_forgotten_everywhere_until_it_comes_back(line):
    """Its evidence stays, its links are not drawn, and who forgot it and why is an event."""
    line = line()
    rome = line.nodes["rome"].experiment("default")
    rome.reward(rome.decide("visit").id, 1.0)
    line.play()
    berlin = line.nodes["berlin"]
    with pytest.raises(Conflict, match="rome is up, or was two minutes ago"):
        berlin.forget("rome")
    with pytest.raises(Conflict, match="unknown agent 'oslo'"):
        berlin.forget("oslo")
    line.close_node("rome")
    line.play(40)
    assert "rome" in berlin.network()["agents"]
    before = berlin.experiment("default").evidence()["held"]
    berlin.forget("rome", by="Ada", reason="the shop was closed")
    line.play(10)
    for name in ("berlin", "paris"):
        network = line.nodes[name].network()
        assert set(network["agents"]) == {"berlin", "paris"}
        assert [(link["a"], link["b"]) for link in network["links"]] == [("berlin", "paris")]
        for experiment in ("default", "banner"):
            kinds = {e.kind: e.text for e in line.nodes[name].experiment(experiment).events()}
            sentence = "rome is forgotten in the whole network by berlin (Ada: the shop was closed)"
            assert kinds["forget"] == sentence
    assert berlin.experiment("default").evidence()["held"] == before
    line.restart("paris")
    assert "rome" not in line.nodes["paris"].network()["agents"]
    line.start("rome")
    line.play(10)
    assert berlin.network()["agents"]["rome"]["state"] == "up"
    assert "rome" in line.nodes["paris"].network()["agents"]


def test_the_end_of_the_certificate_is_a_metric(line, certificates):
    line = line()
    end = read_certificate(certificates / "berlin.pem").not_valid_after_utc.timestamp()
    (value,) = re.findall(
        r"^posse_certificate_expires_seconds (.+)$", render_metrics(line.nodes["berlin"]), re.M
    )
    assert float(value) == pytest.approx(end - line.now, abs=1.0)
