"""Whole nodes beside a neighbour that says nothing but version 1, as Posse 0.1 does."""

import time

import pytest

from posse.live.certificates import Files
from posse.live.dialects import LONG
from posse.live.exchange import FlowsMessage, OriginsMessage, own
from posse.live.exchange.quanta import PER_UNIT
from posse.live.setup.making import Keys, Outside
from posse.live.setup.process import assemble
from posse.live.setup.settings import from_data
from posse.live.transport.memory import MemoryNetwork
from posse.live.wire import Codec

from .loopback import certified

CODEC = Codec(OriginsMessage, FlowsMessage)
NEWER = "needs a newer Posse"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return certified(tmp_path_factory.mktemp("certs"), "berlin")


class Beside:
    """berlin, and paris of 0.1, which holds what it is told in version 1 and says so."""

    def __init__(self, folder, certificates, **options):
        self.folder, self.certificates, self.options = folder, certificates, options
        self.now, self.held, self.entries = time.time(), {}, {}
        self.start()

    def start(self):
        self.network = MemoryNetwork([("berlin", "paris")])
        settings = from_data(
            {
                "name": "berlin",
                "arms": ["red", "green"],
                "family": "bernoulli",
                "operators": ["berlin"],
                "neighbours": {"paris": ""},
            }
            | self.options
        )
        keys = Keys("berlin", Files.of(self.certificates, "berlin"))
        outside = Outside(lambda _: self.network.transport("berlin"), keys)
        self.node = assemble(settings, self.folder, outside, clock=lambda: self.now)
        self.node.transport.start(self.node.receive)
        self.paris = self.network.transport("paris")
        self.paris.start(self.hear)

    def hear(self, peer, payload):
        if payload[0] == 1:
            for entry in CODEC.decode(payload).message.entries:
                self.entries[entry.key] = entry
                self.held[entry.key] = entry.seq

    def play(self, seconds):
        for _ in range(seconds):
            self.now += 1
            self.node.tick()
            self.network.step()
            holds = tuple((*key, seq) for key, seq in self.held.items())
            fingerprint = self.node.experiment("default").agent.fingerprint
            said = OriginsMessage(fingerprint, (), holds, True)
            self.paris.send("berlin", CODEC.encode(said, version=1))
            self.network.step()

    def crash(self):
        self.node.stop()
        self.start()

    def pulls(self):
        return sum(v[-1] for e in self.entries.values() for v in e.evidence.values()) / PER_UNIT


@pytest.fixture
def beside(tmp_path, certificates):
    made = []

    def make(**options):
        made.append(Beside(tmp_path, certificates, **options))
        return made[-1]

    yield make
    for each in made:
        each.node.stop()


def reward(node, experiment="default"):
    decided = node.experiment(experiment)
    decided.reward(decided.decide().id, 1.0)


def test_what_0_1_cannot_be_told_is_counted_and_the_rest_is_told(beside):
    net = beside(experiments={"default": {}, "banner": {}})
    reward(net.node)
    reward(net.node, "banner")
    net.play(int(LONG) + 5)
    seen = net.node.network()
    assert seen["neighbours"]["paris"]["version"] == 1
    assert seen["refused"][NEWER] > 0
    reward(net.node)
    net.play(3)
    assert net.pulls() == 2
    assert net.node.experiment("default").neighbours()["paris"].lag == 0


def test_a_pin_that_0_1_cannot_be_told_is_counted(beside):
    """Seen: it held "in the whole network", and nothing said that it had not got there."""
    net = beside()
    net.play(int(LONG) + 5)
    assert NEWER not in net.node.network()["refused"]
    net.node.pin(None, "red")
    net.play(2)
    assert net.node.network()["refused"][NEWER] == 1


@pytest.mark.parametrize(("crashes", "entries"), [(5, 6), (12, 3)])
def test_crashes_beside_0_1_keep_nothing_from_it(beside, monkeypatch, crashes, entries):
    """Seen: what was observed after the 65th crash was folded, and 0.1 never heard of it.

    There is room for some; after many they are folded, and what is observed then is not.
    """
    monkeypatch.setattr(own, "FOLDED_ABOVE", 2)
    monkeypatch.setattr(own, "FOLDED_AT_ONCE_ABOVE", 7)
    net = beside()
    for _ in range(crashes):
        for _ in range(2):
            reward(net.node)
            net.play(3)
        net.crash()
    for _ in range(2):
        reward(net.node)
        net.play(3)
    assert net.pulls() == 2 * crashes + 2
    parts = net.node.agent.exchange.state()
    assert len([each for each in parts if each.startswith("entry ")]) == entries
