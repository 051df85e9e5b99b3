"""Ten thousand random and mutated messages of a neighbour: the node lives on and counts them."""

import random

import msgspec
import pytest

from posse import families
from posse.live.agent.agent import Agent
from posse.live.demo.fleet import Fleet
from posse.live.exchange import FlowsMessage, OriginsMessage
from posse.live.membership.heartbeats import Presence
from posse.live.messaging.inbox import MessageLimits
from posse.live.messaging.wire import Codec
from posse.live.security.certificates import CertificateFiles
from posse.live.security.signatures import make_signer, make_verifier
from posse.live.store import Store
from tests.live.loopback import certified
from tests.live.single import single_node

ROUNDS = 5000  # for each exchange
CODEC = Codec(OriginsMessage, FlowsMessage)
ARMS = ["red", "green"]
NASTY = [
    None, True, False, 0, 1, -1, 2**31, 2**60, 2**63 - 1, 2**64 - 1, -(2**63), 0.5, float("nan"),
    float("inf"), -0.0, "", "a", "b", "c", "red", "\x00", "é" * 150, "x" * 300, b"", b"\xff" * 40,
    [], {}, [[]], [1, 2], {"red": [2**60, 2**60]}, {"red": [1]}, {"": [1, 1]}, {1: [1, 1]},
]  # fmt: skip
KINDS = {
    "message_too_large", "message_too_short", "wire_version_mismatch", "unknown_message_type",
    "malformed",
    "exchange_mismatch", "fingerprint_mismatch", "signature_invalid",
    "evidence_exceeds_pulls", "evidence_exceeds_network",
    "impossible_version", "own_identity", "identity_name_mismatch",
    "too_many_identities", "too_many_entries", "entry_too_large",
    "too_many_entries_of_origin",
    "unknown_experiment", "malformed_status", "status_signature_invalid",
    "status_wrong_network", "status_from_future", "status_too_old",
}  # fmt: skip

SEEN = {
    "origins": {
        "signature_invalid",
        "evidence_exceeds_pulls",
        "fingerprint_mismatch",
        "malformed_status",
    },
    "flows": {"impossible_version", "fingerprint_mismatch", "wire_version_mismatch"},
}


def mutated(value, chance):
    """The same with one leaf, one key or one item changed, mostly to something of its type."""
    if isinstance(value, list) and value and chance.random() < 0.98:
        at = chance.randrange(len(value))
        kind = chance.random()
        if kind < 0.95:
            return [*value[:at], mutated(value[at], chance), *value[at + 1 :]]
        return value[:at] + value[at + 1 :] if kind < 0.97 else [*value, chance.choice(value)]
    if isinstance(value, dict) and value and chance.random() < 0.98:
        key = chance.choice(list(value))
        inner = mutated(value[key], chance)
        if chance.random() < 0.9:
            return {**value, key: inner}
        return {**value, chance.choice(["", "blue", "evil" * 60, 7]): inner}
    return typed(value, chance) if chance.random() < 0.9 else chance.choice(NASTY)


def typed(leaf, chance):
    """Another leaf of the same type."""
    if isinstance(leaf, bool):
        return not leaf
    if isinstance(leaf, bytes) and leaf:
        at = chance.randrange(len(leaf))
        return leaf[:at] + chance.randbytes(1) + leaf[at + chance.randrange(3) :]
    if isinstance(leaf, int):
        changed = leaf + chance.choice([-1, 1, 1, 3, 2**20, -(2**20), 2**40, 2**59])
        return min(max(changed, -(2**63)), 2**64 - 1)
    return chance.choice([one for one in NASTY if type(one) is type(leaf)] or NASTY)


def noise(honest, chance):
    """Random bytes, or an honest message with bytes or values changed."""
    kind = chance.random()
    if kind < 0.1:
        return chance.randbytes(chance.randrange(300))
    if kind < 0.12:
        return honest[:2] + b"\x91" * chance.randrange(1, 20_000)
    if kind < 0.4:
        payload = bytearray(honest)
        for _ in range(chance.randrange(1, 5)):
            at = chance.randrange(len(payload))
            payload[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
        return bytes(payload[: chance.randrange(len(payload) + 1)] if kind < 0.2 else payload)
    value = msgspec.msgpack.decode(honest[1:])
    for _ in range(chance.randrange(1, 3)):
        value = mutated(value, chance)
    return honest[:1] + msgspec.msgpack.encode(value)


@pytest.fixture(scope="module")
def certs(tmp_path_factory):
    return certified(tmp_path_factory.mktemp("certs"), "a", "b", "c")


class Trio(Fleet):
    """Honest a and b, and c whose messages are tampered with: all three with real stores."""

    def __init__(self, folder, certs, exchange):
        super().__init__(folder, [("a", "b"), ("a", "c")])
        self.exchange = exchange
        self.verify = make_verifier(CertificateFiles.in_folder(certs, "a"))
        for name, near in {"a": "bc", "b": "a", "c": "a"}.items():
            files = CertificateFiles.in_folder(certs, name)
            signing = {"identity": name, "sign": make_signer(files), "verify": make_verifier(files)}
            agent = Agent(
                ARMS, families.Bernoulli(), exchange=exchange, seed=ord(name),
                exchange_options=signing if exchange == "origins" else None,
            )  # fmt: skip
            store = Store.open(folder / f"{name}.db", fingerprint=agent.fingerprint)
            node = single_node(
                agent, store, self.network.transport(name), neighbours=list(near),
                clock=lambda: self.now, limits=MessageLimits(1e9, 1e15),
            )  # fmt: skip
            signed = {"sign": signing["sign"], "verify": signing["verify"]}
            node.presence = Presence(name, now=self.now, **signed)
            self.add_node(node, name)

    def visit(self, name):
        decision = self.nodes[name].decide()
        self.nodes[name].reward(decision.id, 1.0)

    def words_of_c(self):
        """What c would say to a now: it hears a, and a hears nothing."""
        said = []
        original, self.nodes["c"].transport.send = (
            self.nodes["c"].transport.send,
            lambda peer, payload: said.append(payload),
        )
        self.tick(names="ac")
        self.nodes["c"].transport.send = original
        return said


@pytest.mark.parametrize("exchange", ["origins", "flows"])
def test_no_message_is_deadly(tmp_path, certs, exchange):
    trio = Trio(tmp_path, certs, exchange)
    try:
        attack(trio, random.Random(7))
    finally:
        trio.close()


def attack(trio, chance):
    a, b, _ = trio.nodes.values()
    for name in "abc":
        trio.visit(name)
    for _ in range(25):
        trio.tick()
    assert not a.network()["refused"]
    assert a.evidence()["held"]
    said = {name: [node.evidence()["own"]] for name, node in trio.nodes.items()}
    honest, refused = [], 0
    for round_ in range(ROUNDS):
        if round_ % 50 == 0:
            trio.visit("c")
            honest = trio.words_of_c()
            said["c"].append(trio.nodes["c"].evidence()["own"])
        state, before = a.agent.state(), sum(a.network()["refused"].values())
        a.receive("c", noise(chance.choice(honest), chance))
        if sum(a.network()["refused"].values()) > before:
            refused += 1
            # of origins a message may hold good entries beside bad ones
            assert trio.exchange == "origins" or a.agent.state() == state
        if round_ % 50 == 49:  # what is said of agents they said themselves
            for origin, held in a.presence.statuses().items():
                assert trio.verify(origin, held.status.content, held.status.signature)
        if trio.exchange == "origins":  # nothing is held that its origin did not sign
            for entry in a.agent.exchange.replica.entries.values():
                assert entry.ledger() in said[entry.origin]
    assert refused > ROUNDS / 2
    assert set(a.network()["refused"]) > SEEN[trio.exchange]
    assert not a.failures.copy()
    assert set(a.network()["refused"]) <= KINDS
    still_works(trio, a, b)


def still_works(trio, a, b):
    """Decisions, rewards and the edge between the honest."""
    counts = [sum(s["pulls_here"] for s in node.arms().values()) for node in (a, b)]
    for _ in range(5):
        trio.visit("a")
        trio.visit("b")
    for _ in range(60):
        trio.tick(names="ab")
    for node, count in zip((a, b), counts, strict=True):
        assert sum(s["pulls_here"] for s in node.arms().values()) == count + 5
    assert not b.network()["refused"]
    held = [node.evidence()["held"] for node in (a, b)]
    assert held[0].keys() == held[1].keys()
    if trio.exchange == "origins":
        assert held[0] == held[1]
    else:
        one, other = a.agent.exchange, b.agent.exchange
        assert one.records()[other.identity][0] == other.records()[one.identity][0]
        for arm, values in other.records()[one.identity][1].items():
            assert one.records()[other.identity][1][arm] == tuple(-value for value in values)
