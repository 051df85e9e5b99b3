"""Agents that reach each other by way of a router, on loopback: who is heard, and who is not."""

import json
import os
import threading
import time

import pytest
import zenoh

from posse.live.messaging.transport.zenoh import ROUTER_THREAD, Router, ZenohTransport
from posse.live.messaging.transport.zenoh_settings import session_settings
from posse.live.security.certificates import CertificateFiles
from tests.live.loopback import free_addresses, wait_until
from tests.live.messaging.zenoh.world import shout

PEER = {"a": "b", "b": "a"}


class World:
    """A router's address, agents a and b behind it, and what they heard."""

    def __init__(self, folder):
        self.folder = folder
        (self.address,) = free_addresses(1)
        self.heard = {"a": [], "b": []}
        self.open = []
        self.agents = {}

    def router(self, *agents):
        files = CertificateFiles.in_folder(self.folder, "hub")
        made = Router("hub", agents or "ab", listen=self.address, files=files, network="default")
        self.open.append(made)
        return made

    def agent(self, name, router="hub"):
        files = CertificateFiles.in_folder(self.folder, name)
        made = ZenohTransport(name, {PEER[name]: None}, files=files, router=(router, self.address))
        self.open.append(made)
        self.agents[name] = made
        made.start(lambda peer, payload: self.heard[name].append((peer, payload)))
        return made

    def pair(self):
        return self.agent("a"), self.agent("b")

    def stranger(self, name, **changes):
        """A session with a valid certificate that obeys no rules of its own."""
        files = CertificateFiles.in_folder(self.folder, name)
        wanted = (
            session_settings(name, [], "default", [], [self.address], files, router="hub") | changes
        )
        wanted["access_control"] = {"enabled": False}
        session = zenoh.open(zenoh.Config.from_json5(json.dumps(wanted)))
        self.open.append(session)
        return session

    def works(self):
        token = os.urandom(8)

        def arrived():
            for name, agent in self.agents.items():
                agent.send(PEER[name], token)
            return all((PEER[name], token) in heard for name, heard in self.heard.items())

        wait_until(arrived, "the honest pair does not hear each other")

    def close(self):
        for each in self.open:
            each.close()


@pytest.fixture
def world(folder):
    world = World(folder)
    yield world
    world.close()


def test_agents_hear_each_other_through_a_router(world):
    world.router()
    a, b = world.pair()
    world.works()
    assert (a.connected(), b.connected()) == ({"b": True}, {"a": True})


@pytest.mark.long
def test_a_router_that_comes_late_goes_and_comes_back(world, caplog):
    begun = time.monotonic()
    a, _ = world.pair()
    assert time.monotonic() - begun < 10  # nobody waits for it
    assert a.connected() == {"b": False}
    wait_until(lambda: "cannot reach the router hub" in caplog.text)
    router = world.router()
    world.works()
    wait_until(lambda: caplog.text.count("connected to the router hub") == 2)  # by both
    router.close()
    wait_until(lambda: a.connected() == {"b": False})
    wait_until(lambda: caplog.text.count("lost the router hub") == 2)
    a.send("b", b"into the void")
    world.router()
    world.works()
    wait_until(lambda: caplog.text.count("connected to the router hub") == 4)
    a.close()
    assert caplog.text.count("lost the router hub") == 2  # we went, not the router


def test_agents_end_while_there_is_no_router(world):
    a = world.agent("a")
    (thread,) = (thread for thread in threading.enumerate() if thread.name == ROUTER_THREAD)
    a.close()
    thread.join(20)
    assert not thread.is_alive()


@pytest.mark.parametrize("name", ["a", "mallory"])
def test_a_valid_certificate_does_not_speak_as_another(world, name):
    world.router("a", "b", "mallory")
    world.pair()
    world.works()
    session = world.stranger(name)
    shout(session, world.folder, key="posse/default/b/a")
    world.works()
    assert all(payload != b"forged" for _, payload in world.heard["a"])


def test_nor_does_it_with_the_session_id_of_another(world):
    world.router()
    _, b = world.pair()
    world.works()
    with pytest.raises(zenoh.ZError):  # a router does not dial, so that b's link is the only one
        world.stranger("mallory", id=b.session_id)
    world.works()


def test_nobody_overhears(world):
    world.router("a", "b", "mallory")
    world.pair()
    overheard = []
    session = world.stranger("mallory")
    session.declare_subscriber("posse/**", overheard.append, allowed_origin=zenoh.Locality.REMOTE)
    session.declare_subscriber(
        "posse/default/a/b", overheard.append, allowed_origin=zenoh.Locality.REMOTE
    )
    for _ in range(5):
        world.works()
        time.sleep(0.1)
    assert overheard == []


def test_another_router_is_not_believed(world):
    """Whoever listens at the router's address must have the certificate that the agents name."""
    world.router()
    a = world.agent("a", router="centre")
    world.agent("b")
    shout(world.stranger("b"), world.folder, key="posse/default/b/a")
    assert world.heard["a"] == []
    assert a.connected() == {"b": False}


@pytest.mark.parametrize(
    "options",
    [{"listen": "127.0.0.1:0"}, {"neighbours": {"b": "127.0.0.1:1"}}, {"insecure": True}],
)
def test_what_does_not_go_with_a_router(folder, options):
    options = {
        "neighbours": {"b": None},
        "files": CertificateFiles.in_folder(folder, "a"),
    } | options
    with pytest.raises(ValueError, match="with the router hub"):
        ZenohTransport("a", router=("hub", "127.0.0.1:1"), **options)
