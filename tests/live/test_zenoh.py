"""zenoh for real, on loopback: who is heard, who is not, and how peers come and go."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from datetime import timedelta
from itertools import chain
from types import SimpleNamespace

import pytest
import zenoh

from posse.live import certificates
from posse.live.certificates import Files
from posse.live.transport import Transport
from posse.live.transport.settings import settings
from posse.live.transport.zenoh import ZenohTransport

from .loopback import SOON, free_addresses, issue_for, wait_until


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certs")
    certificates.create_authority(folder)
    for name in ("a", "b", "mallory"):
        certificates.issue(folder, name)
    return folder


class World:
    """Agents a and b at addresses of their own, strangers, and what a and b heard."""

    def __init__(self, folder, *, a_dials=True, b_dials=True):
        self.folder = folder
        self.addresses = dict(zip("ab", free_addresses(2), strict=True))
        self.dials = {"a": a_dials, "b": b_dials}
        self.heard = {"a": [], "b": []}
        self.agents = {}
        self.sessions = []

    def agent(self, name, **options):
        (peer,) = {"a", "b"} - {name}
        address = self.addresses[peer] if self.dials[name] else None
        options = {"files": Files.of(self.folder, name)} | options
        agent = ZenohTransport(name, {peer: address}, listen=self.addresses[name], **options)
        self.agents[name] = agent
        agent.start(lambda peer, payload: self.heard[name].append((peer, payload)))
        return agent

    def pair(self, **options):
        a, b = self.agent("a", **options), self.agent("b", **options)
        self.wait_connected()
        return a, b

    def wait_connected(self):
        agents = self.agents.values()
        wait_until(lambda: all(all(agent.connected().values()) for agent in agents))

    def stranger(self, protocol="tls", **changes):
        """A session that dials a and obeys no rules of its own."""
        wanted = settings("b", ["a"], "default", [], [], Files.of(self.folder, "b"))
        wanted["access_control"] = {"enabled": False}
        wanted["connect"]["endpoints"] = [f"{protocol}/{self.addresses['a']}"]
        wanted["transport"]["link"]["protocols"] = [protocol]
        wanted["transport"]["link"]["tls"] |= changes.pop("tls", {})
        session = zenoh.open(zenoh.Config.from_json5(json.dumps(wanted | changes)))
        self.sessions.append(session)
        return session

    def honest_pair_works(self):
        """Messages of the honest get through, both ways."""
        token = os.urandom(8)
        a, b = self.agents["a"], self.agents["b"]

        def arrived():
            a.send("b", token)
            b.send("a", token)
            return ("b", token) in self.heard["a"] and ("a", token) in self.heard["b"]

        wait_until(arrived, "the honest pair was disturbed")

    def close(self):
        for end in chain(self.agents.values(), self.sessions):
            end.close()


@pytest.fixture
def world(folder):
    world = World(folder)
    yield world
    world.close()


def tls(files):
    return {
        "root_ca_certificate": str(files.authority),
        "listen_certificate": str(files.certificate),
        "listen_private_key": str(files.key),
        "connect_certificate": str(files.certificate),
        "connect_private_key": str(files.key),
    }


def proof(folder, name="b"):
    """The certificate that goes along with every message; it is no secret."""
    return certificates.encoded(certificates.read_certificate(folder / f"{name}.pem"))


def shout(session, folder, seconds=0.7, key="posse/default/b/a"):
    """Say something forged for a while, under the key and under wildcards that match it."""
    certificate = proof(folder)
    publisher = session.declare_publisher(key, congestion_control=zenoh.CongestionControl.DROP)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        publisher.put(b"forged", attachment=certificate)
        session.put("posse/*/b/a", b"forged", attachment=certificate)
        session.put("**", b"forged", attachment=certificate)
        session.delete(key)
        time.sleep(0.02)


def test_both_ways(world):
    a, b = world.pair()
    transport: Transport = a
    assert transport.connected() == {"b": True}
    a.send("b", b"hello")
    b.send("a", b"")
    wait_until(lambda: world.heard == {"a": [("b", b"")], "b": [("a", b"hello")]})
    large = b"\x00\xff" * 350_000
    b.send("a", large)
    wait_until(lambda: ("b", large) in world.heard["a"])
    a.send("nobody", b"dropped")


@pytest.mark.parametrize("dials", ["a_dials", "b_dials"])
def test_one_end_that_dials_is_enough(folder, dials):
    world = World(folder, **({"a_dials": False, "b_dials": False} | {dials: True}))
    try:
        world.pair()
        world.honest_pair_works()
        world.agents["b"].close()
        wait_until(lambda: world.agents["a"].connected() == {"b": False})
        world.agent("b")
        world.wait_connected()
        world.honest_pair_works()
    finally:
        world.close()


def test_the_stranger_of_these_tests_is_heard_with_the_right_certificate(world):
    """Or the tests that follow would show nothing."""
    world.agent("a")
    session = world.stranger()
    publisher = session.declare_publisher("posse/default/b/a")
    certificate = proof(world.folder)

    def right():
        publisher.put(b"right", attachment=certificate)
        return ("b", b"right") in world.heard["a"]

    wait_until(right)
    shout(session, world.folder, 0.3)
    # but neither wildcards nor deletions: as many as went out under the one key
    assert {payload for _, payload in world.heard["a"]} == {b"right", b"forged"}
    assert sum(payload == b"forged" for _, payload in world.heard["a"]) <= 0.3 / 0.02 + 1


def unheard(world, **changes):
    world.pair()
    try:
        session = world.stranger(**changes)
    except zenoh.ZError:
        session = None
    overheard = []
    if session is not None:
        session.declare_subscriber(
            "**",
            lambda sample: overheard.append(sample.payload.to_bytes()),
            allowed_origin=zenoh.Locality.REMOTE,
        )
        shout(session, world.folder)
    world.honest_pair_works()
    assert all(payload != b"forged" for _, payload in world.heard["a"] + world.heard["b"])
    assert overheard == []
    return session


def test_a_message_without_a_certificate_that_is_good_now_is_not_heard(world):
    """A session that TLS resumed may be of one that has ended."""
    world.agent("a")
    session = world.stranger()
    publisher = session.declare_publisher("posse/default/b/a")
    ended = issue_for(world.folder, "b", timedelta(seconds=-1), "ended")
    others = [proof(world.folder, "mallory"), proof(world.folder, "ended"), b"none", None]
    certificate = proof(world.folder)

    def right():
        for other in others:
            publisher.put(b"wrong", attachment=other)
        publisher.put(b"right", attachment=certificate)
        return world.heard["a"].count(("b", b"right")) > 5

    assert ended.certificate.exists()
    wait_until(right)
    assert {payload for _, payload in world.heard["a"]} == {b"right"}


def test_another_authority_is_not_heard(world, tmp_path):
    certificates.create_authority(tmp_path)
    theirs = tls(certificates.issue(tmp_path, "b"))
    session = unheard(world, tls=theirs | {"verify_name_on_connect": False})
    assert session.info.links() == []


def test_another_authority_that_trusts_ours_is_not_heard(world, tmp_path):
    certificates.create_authority(tmp_path)
    files = certificates.issue(tmp_path, "b")
    ours = Files(world.folder / "ca.pem", files.certificate, files.key)
    assert unheard(world, tls=tls(ours)).info.links() == []


def test_no_certificate_is_not_heard(world):
    none = dict.fromkeys(tls(Files.of(world.folder, "b")))
    none |= {"root_ca_certificate": str(world.folder / "ca.pem"), "enable_mtls": False}
    assert unheard(world, tls=none).info.links() == []


def test_no_tls_is_not_heard(world):
    session = unheard(world, protocol="tcp")
    assert session.info.links() == []


def test_an_expired_certificate_is_not_heard(world):
    files = issue_for(world.folder, "b", timedelta(seconds=-60), "expired")
    assert unheard(world, tls=tls(files)).info.links() == []


def test_a_valid_certificate_does_not_speak_as_another(world):
    session = unheard(world, tls=tls(Files.of(world.folder, "mallory")))
    # the link is there: it is the access control that keeps it from speaking
    assert len(session.info.links()) == 1


def test_nor_does_it_at_the_address_of_another(world):
    world.agent("a")
    there = {"endpoints": [f"tls/{world.addresses['b']}"]}
    session = world.stranger(
        tls=tls(Files.of(world.folder, "mallory")), listen=there, connect={"endpoints": []}
    )
    wait_until(session.info.links)
    shout(session, world.folder)
    assert world.heard["a"] == []
    assert world.agents["a"].connected() == {"b": False}


@pytest.mark.parametrize("dialled", [False, True])
def test_nor_does_it_with_the_session_id_of_another(folder, dialled, caplog):
    world = World(folder, b_dials=not dialled)
    try:
        a, b = world.pair()
        mallory = tls(Files.of(folder, "mallory"))
        world.stranger(tls=mallory, id=str(b._session.info.zid()))
        if dialled:  # its link joins those of b, so that nobody can tell them apart any more
            wait_until(lambda: a.connected() == {"b": False})
            wait_until(lambda: "of b and mallory claim to be one agent" in caplog.text)
            heard = list(world.heard["a"])
            shout(world.sessions[0], world.folder)
            b.send("a", b"lost")
            time.sleep(0.1)
            assert world.heard["a"] == heard
            world.sessions[0].close()
            wait_until(lambda: a.connected() == {"b": True})
        else:
            shout(world.sessions[0], world.folder)
        world.honest_pair_works()
        assert all(payload != b"forged" for _, payload in world.heard["a"])
    finally:
        world.close()


def test_agents_of_an_old_and_a_new_authority_hear_each_other(world, tmp_path):
    certificates.create_authority(tmp_path)
    certificates.issue(tmp_path, "b")
    both = tmp_path / "both.pem"
    both.write_bytes((tmp_path / "ca.pem").read_bytes() + (world.folder / "ca.pem").read_bytes())
    for name, home in (("a", world.folder), ("b", tmp_path)):
        world.agent(name, files=Files(both, home / f"{name}.pem", home / f"{name}.key"))
    world.wait_connected()
    world.honest_pair_works()


def test_gone_and_back(world):
    a, b = world.pair()
    for _ in range(3):
        b.close()
        wait_until(lambda: a.connected() == {"b": False})
        a.send("b", b"into the void")
        b = world.agent("b")
        world.wait_connected()
        world.honest_pair_works()
    assert ("a", b"into the void") not in world.heard["b"]


CHILD = """
import sys, time
from pathlib import Path
from posse.live.certificates import Files
from posse.live.transport.zenoh import ZenohTransport

folder, ours, theirs = sys.argv[1:]
b = ZenohTransport("b", {"a": theirs}, listen=ours, files=Files.of(Path(folder), "b"))
b.start(lambda peer, payload: b.send(peer, b"%d" % len(payload)))
time.sleep(60)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGSTOP")
def test_a_neighbour_that_speaks_is_connected_whatever_it_declared(world):
    """After a path that lost all large packets for a while, zenoh matched nobody for ever."""
    a, b = world.pair()
    world.honest_pair_works()
    a._publishers["b"] = SimpleNamespace(matching_status=SimpleNamespace(matching=False))
    assert a.connected() == {"b": True}
    b.close()
    wait_until(lambda: a.connected() == {"b": False})


def test_a_peer_that_hangs_blocks_nobody(world):
    a = world.agent("a")
    addresses = world.addresses["b"], world.addresses["a"]
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(world.folder), *addresses])
    try:
        world.wait_connected()
        child.send_signal(signal.SIGSTOP)
        slowest = 0.0
        deadline = time.monotonic() + SOON
        while a.connected() == {"b": True}:
            assert time.monotonic() < deadline
            start = time.monotonic()
            a.send("b", bytes(900_000))
            slowest = max(slowest, time.monotonic() - start)
            time.sleep(0.01)
        assert slowest < 1
        child.send_signal(signal.SIGCONT)
        wait_until(lambda: a.send("b", bytes(77)) or ("b", b"77") in world.heard["a"])
        child.kill()
        wait_until(lambda: a.connected() == {"b": False})
    finally:
        child.kill()
        child.wait()


def test_large_messages_are_neither_sent_nor_taken(world):
    a, b = world.pair()
    with pytest.raises(ValueError, match="a message may have 1,000,000 bytes, got 10,000,000"):
        a.send("b", bytes(10_000_000))
    world.honest_pair_works()
    assert max(len(payload) for _, payload in world.heard["b"]) < 100
    b.close()
    session = world.stranger()
    publisher = session.declare_publisher(
        "posse/default/b/a", congestion_control=zenoh.CongestionControl.BLOCK
    )
    certificate = proof(world.folder)

    def heard(payload):
        publisher.put(payload, attachment=certificate)
        return ("b", payload) in world.heard["a"]

    wait_until(lambda: heard(b"before"))
    publisher.put(bytes(10_000_000), attachment=certificate)
    publisher.put(bytes(1_000_001), attachment=certificate)
    wait_until(lambda: heard(b"after"))
    assert max(len(payload) for _, payload in world.heard["a"]) < 100


def test_closing_is_prompt_and_for_good(world):
    a, _ = world.pair()
    start = time.monotonic()
    a.close()
    a.close()
    assert time.monotonic() - start < 2
    assert a.connected() == {"b": False}
    a.send("b", b"dropped")
    with pytest.raises(RuntimeError, match="was started before"):
        a.start(lambda *_: None)
    unstarted = ZenohTransport("c", {}, files=Files.of(world.folder, "a"))
    unstarted.close()


def test_closing_while_dialling_is_prompt(world):
    a = world.agent("a")
    start = time.monotonic()
    a.close()
    assert time.monotonic() - start < 2


HANGING = """
import sys, time
from pathlib import Path
from posse.live.certificates import Files
from posse.live.transport.zenoh import ZenohTransport

folder, there = sys.argv[1:]
a = ZenohTransport("a", {"b": there}, files=Files.of(Path(folder), "a"))
a.start(print)
time.sleep(0.5)
start = time.monotonic()
a.close()
print(time.monotonic() - start < 2)
"""


def test_closing_while_a_peer_hangs_is_prompt_and_so_is_the_end(folder):
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # takes connections and says nothing
        there = f"127.0.0.1:{deaf.getsockname()[1]}"
        command = [sys.executable, "-c", HANGING, str(folder), there]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SOON)
    assert (done.returncode, done.stdout) == (0, "True\n")


def test_without_certificates_on_this_machine_only(world):
    world.pair(files=None, insecure=True)
    world.honest_pair_works()


def test_networks_do_not_mix(world):
    world.agent("a", network="one")
    world.agent("b", network="two")
    wait_until(lambda: world.agents["a"]._links)
    for _ in range(20):
        world.agents["b"].send("a", b"x")
        time.sleep(0.01)
    assert world.heard == {"a": [], "b": []}
    assert world.agents["a"].connected() == {"b": False}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "give the files of a certificate"),
        ({"insecure": True, "listen": "0.0.0.0:7447"}, r"stays on 127\.0\.0\.1, got 0\.0\.0\.0"),
        ({"insecure": True, "neighbours": {"b": "example.org:1"}}, "got example.org:1"),
        ({"insecure": True, "listen": "127.0.0.1"}, "an address is host:port"),
        ({"insecure": True, "listen": "127.0.0.1:70000"}, "an address is host:port"),
        ({"insecure": True, "listen": "tcp/127.0.0.1:x"}, "an address is host:port"),
        ({"insecure": True, "neighbours": {"a": None}}, "cannot be its own neighbour"),
        ({"insecure": True, "neighbours": {"b/*": None}}, "letters, digits"),
        ({"insecure": True, "network": "**"}, "letters, digits"),
    ],
)
def test_nonsense_is_refused(options, sentence):
    neighbours = options.pop("neighbours", {"b": None})
    with pytest.raises(ValueError, match=sentence):
        ZenohTransport("a", neighbours, **options)


def test_files_that_nobody_would_accept_are_refused_here(folder, tmp_path):
    def refused(files, sentence):
        with pytest.raises(ValueError, match=sentence) as caught:
            ZenohTransport("a", {"b": None}, files=files).start(lambda *_: None)
        assert "posse certs issue a" in str(caught.value)

    good = Files.of(folder, "a")
    certificates.create_authority(tmp_path)
    refused(Files.of(tmp_path, "a"), "there is no file")
    refused(Files.of(folder, "b"), "is not the certificate of a")
    refused(Files(good.authority, good.certificate, folder / "b.key"), "is not the key of")
    refused(Files(tmp_path / "ca.pem", good.certificate, good.key), "did not sign")
    refused(issue_for(folder, "a", timedelta(seconds=-9), "old"), "has expired")


def test_an_address_in_use_is_said_in_one_line(world):
    world.agent("a")
    again = ZenohTransport(
        "a", {"b": None}, listen=world.addresses["a"], files=Files.of(world.folder, "a")
    )
    with pytest.raises(
        ValueError, match=f"a cannot listen on tls/{world.addresses['a']}"
    ) as caught:
        again.start(lambda *_: None)
    assert "\n" not in str(caught.value)
    again.close()
