"""Messages arrive whichever end dials, goes and comes back, or hangs; some must not arrive."""

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
import zenoh

from posse.live.messaging.transport import Transport
from posse.live.security import certificates
from posse.live.security.certificates import CertificateFiles
from tests.live.loopback import SOON, wait_until
from tests.live.messaging.zenoh.world import World, proof


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


def test_agents_of_an_old_and_a_new_authority_hear_each_other(world, tmp_path):
    certificates.create_authority(tmp_path)
    certificates.issue_certificate(tmp_path, "b")
    both = tmp_path / "both.pem"
    both.write_bytes((tmp_path / "ca.pem").read_bytes() + (world.folder / "ca.pem").read_bytes())
    for name, home in (("a", world.folder), ("b", tmp_path)):
        world.agent(name, files=CertificateFiles(both, home / f"{name}.pem", home / f"{name}.key"))
    world.wait_connected()
    world.honest_pair_works()


def test_without_certificates_on_this_machine_only(world):
    world.pair(files=None, insecure=True)
    world.honest_pair_works()


def test_networks_do_not_mix(world):
    world.agent("a", network="one")
    world.agent("b", network="two")
    wait_until(lambda: world.agents["a"].links)
    for _ in range(20):
        world.agents["b"].send("a", b"x")
        time.sleep(0.01)
    assert world.heard == {"a": [], "b": []}
    assert world.agents["a"].connected() == {"b": False}


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
from posse.live.security.certificates import CertificateFiles
from posse.live.messaging.transport.zenoh import ZenohTransport

folder, ours, theirs = sys.argv[1:]
files = CertificateFiles.in_folder(Path(folder), "b")
b = ZenohTransport("b", {"a": theirs}, listen=ours, files=files)
b.start(lambda peer, payload: b.send(peer, b"%d" % len(payload)))
time.sleep(60)
"""


def test_a_neighbour_that_speaks_is_connected_whatever_it_declared(world):
    """After a path that lost all large packets for a while, zenoh matched nobody for ever."""
    a, b = world.pair()
    world.honest_pair_works()
    a.publishers["b"] = SimpleNamespace(matching_status=SimpleNamespace(matching=False))
    assert a.connected() == {"b": True}
    b.close()
    wait_until(lambda: a.connected() == {"b": False})


def test_links_that_end_without_an_event_are_found(world):
    """On a busy machine zenoh did not tell of every link that it closed."""
    a, b = world.pair()
    world.honest_pair_works()
    gone = "session", "tls/127.0.0.1:1", "tls/127.0.0.1:2"
    a.update_links({gone: "b"}, set())
    assert a.connected() == {"b": True}
    assert gone not in a.links
    assert a.links  # those that are there are not taken for ended
    a.update_links({gone: "b"}, set())
    b.close()
    wait_until(lambda: a.connected() == {"b": False})


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGSTOP")
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
