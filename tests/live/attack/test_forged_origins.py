"""Forged entries over real mTLS, by a neighbour whose certificate is good: none gets in."""

import itertools
import random
import time
from dataclasses import replace
from datetime import timedelta

import pytest

from posse import families
from posse.live.agent.agent import Agent
from posse.live.exchange import Entry, FlowsMessage, OriginsMessage
from posse.live.exchange.messages import signed_bytes
from posse.live.ledger import PER_UNIT
from posse.live.messaging.transport.zenoh import ZenohTransport
from posse.live.messaging.wire import Codec
from posse.live.security import certificates
from posse.live.security.certificates import CertificateFiles
from posse.live.security.signatures import make_signer, make_verifier
from posse.live.store import Store
from tests.live.loopback import certified, free_addresses, issue_for, wait_until
from tests.live.single import single_node

CODEC = Codec(OriginsMessage, FlowsMessage)
ARMS = ["red", "green"]
TRUE = {"red": (PER_UNIT, PER_UNIT, 2 * PER_UNIT, 2 * PER_UNIT)}
FALSE = {"red": (0, 0, 50 * PER_UNIT, 50 * PER_UNIT)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return certified(tmp_path_factory.mktemp("certs"), "victim", "mallory", "honest")


class Link:
    """A real node, and a certified neighbour of it that says what it likes."""

    def __init__(self, folder, path, exchange="origins"):
        victim, mallory = free_addresses(2)
        files = CertificateFiles.in_folder(folder, "victim")
        signing = {"identity": "victim", "sign": make_signer(files), "verify": make_verifier(files)}
        agent = Agent(
            ARMS, families.Bernoulli(), exchange=exchange, seed=1,
            exchange_options=signing if exchange == "origins" else None,
        )  # fmt: skip
        store = Store.open(path / "victim.db", fingerprint=agent.fingerprint)
        transport = ZenohTransport("victim", {"mallory": mallory}, listen=victim, files=files)
        self.node = single_node(agent, store, transport, neighbours=["mallory"], tick_seconds=0.2)
        self.mallory = ZenohTransport(
            "mallory",
            {"victim": victim},
            listen=mallory,
            files=CertificateFiles.in_folder(folder, "mallory"),
        )
        self.node.start()
        self.heard = []
        self.mallory.start(lambda peer, payload: self.heard.append(payload))
        wait_until(lambda: self.mallory.connected()["victim"])

    def tell(self, payload):
        """Say something until it has arrived, for the network may lose it."""
        before = self.node.counts["received"]

        def arrived():
            self.mallory.send("victim", payload)
            time.sleep(0.01)
            return self.node.counts["received"] > before

        wait_until(arrived)

    def tell_entry(self, entry):
        message = OriginsMessage(self.node.agent.fingerprint, (entry,), (), False)
        self.tell(CODEC.encode(message))

    def answers(self):
        """Whether it still decides and learns."""
        before = self.node.counts["rewards"]
        decision = self.node.decide()
        self.node.reward(decision.id, 1.0)
        return self.node.counts["rewards"] == before + 1

    def close(self):
        self.mallory.close()
        self.node.stop()


@pytest.fixture
def link(folder, tmp_path):
    made = []

    def make(exchange="origins"):
        made.append(Link(folder, tmp_path, exchange))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_no_forged_entry_gets_in(link, folder, tmp_path):
    world = link()
    fingerprint = world.node.agent.fingerprint

    def signed(entry, files, spoken=None):
        content = signed_bytes(spoken or fingerprint, entry)
        return replace(entry, signature=make_signer(files)(content))

    certificates.create_authority(tmp_path / "other")
    true = Entry.from_ledger(("honest", 1), (2, 3, 5), TRUE)
    honest = signed(true, CertificateFiles.in_folder(folder, "honest"))
    lie = Entry.from_ledger(("honest", 1), (50, 4, 5), FALSE)
    whole = make_signer(CertificateFiles.in_folder(folder, "mallory"))(b"")
    der = whole[4:-64]
    forgeries = {
        "altered": replace(honest, numbers=lie.numbers),
        "with another version": replace(honest, version=(2, 4, 5)),
        "with other arms": replace(honest, arms=("green",)),
        "as a base": replace(honest, incarnation=0, covers=(1,)),
        "in another incarnation": replace(honest, incarnation=2),
        "invented": lie,
        "a replayed signature": replace(lie, signature=honest.signature),
        "signed by the wrong one": signed(lie, CertificateFiles.in_folder(folder, "mallory")),
        "of another authority": signed(
            lie, certificates.issue_certificate(tmp_path / "other", "honest")
        ),
        "an expired one of another name": signed(
            lie, issue_for(folder, "mallory", timedelta(seconds=-10), "expired")
        ),
        "for another network": signed(lie, CertificateFiles.in_folder(folder, "honest"), "another"),
        "as the victim itself": signed(
            Entry.from_ledger(("victim", 1), (50, 9, 5), FALSE),
            CertificateFiles.in_folder(folder, "mallory"),
        ),
        "the certificate of one, the signature of another": replace(
            lie,
            signature=honest.signature[:-64]
            + signed(lie, CertificateFiles.in_folder(folder, "mallory")).signature[-64:],
        ),
    }
    chance = random.Random(3)
    version = der.index(b"\xa0\x03\x02\x01\x02") + 4
    for nth in range(40):  # certificates that no parser has seen before
        broken = bytearray(der)
        broken[chance.randrange(len(broken)) if nth else version] ^= 0x40
        signature = len(broken).to_bytes(4, "big") + bytes(broken) + whole[-64:]
        forgeries[f"a broken certificate {nth}"] = replace(lie, signature=signature)
    for name, entry in forgeries.items():
        before = world.node.network()["refused"].get("signature_invalid", 0)

        def refused(entry=entry, before=before):
            world.tell_entry(entry)  # again, for who forges much is not heard for a while
            return world.node.network()["refused"].get("signature_invalid", 0) > before

        wait_until(refused)
        assert world.node.evidence()["held"] == {}, name
    assert set(world.node.network()["refused"]) - {"message_rate_exceeded"} == {"signature_invalid"}
    assert not world.node.failures.copy()
    # the true one, from the same mouth
    wait_until(lambda: world.tell_entry(honest) or world.node.evidence()["held"] == TRUE)
    assert world.answers()


def test_what_was_signed_outlives_the_certificate(link, folder):
    """An entry says nothing of when it was signed, and must be believed when its agent is gone."""
    world = link()
    files = issue_for(folder, "honest", timedelta(seconds=-10), "long-gone")
    entry = Entry.from_ledger(("honest", 1), (2, 3, 5), TRUE)
    content = signed_bytes(world.node.agent.fingerprint, entry)
    world.tell_entry(replace(entry, signature=make_signer(files)(content)))
    wait_until(lambda: world.node.evidence()["held"] == TRUE)


def noise(honest):
    """Random bytes, and an honest message that is cut off, with a right or a wrong version."""
    chance = random.Random(5)
    for nth in itertools.count():
        payload = bytearray(honest if nth % 2 else chance.randbytes(chance.randrange(500)))
        if payload:
            payload[0] = chance.choice([0, 2, 255]) if nth % 3 else 1
            payload = payload[: chance.randrange(len(payload))]
        yield bytes(payload)


@pytest.mark.parametrize("exchange", ["origins", "flows"])
def test_noise_over_real_tls(link, exchange):
    """A thousand messages as fast as they go: all that arrives is refused, counted and survived."""
    world = link(exchange)
    wait_until(lambda: world.heard)
    node, payloads = world.node, noise(world.heard[0])
    for payload in itertools.islice(payloads, 1000):
        world.mallory.send("victim", payload)
    while node.counts["received"] <= 100:  # a network in a hurry may drop most of them
        world.tell(next(payloads))
    wait_until(lambda: sum(node.network()["refused"].values()) == node.counts["received"])
    assert len(node.network()["refused"]) < 10
    assert node.evidence() == {"own": {}, "held": {}}
    assert not node.failures.copy()
    assert world.answers()
