"""Agents a and b over zenoh on loopback, strangers that dial them, and what was heard."""

import json
import os
import time
from itertools import chain

import zenoh

from posse.live.messaging.transport.zenoh import ZenohTransport
from posse.live.messaging.transport.zenoh_settings import session_settings
from posse.live.security import certificates
from posse.live.security.certificates import CertificateFiles
from tests.live.loopback import free_addresses, wait_until


class World:
    """Agents a and b at addresses of their own, strangers, and what a and b heard."""

    def __init__(self, folder, *, a_dials=True, b_dials=True):
        self.folder = folder
        self.addresses = dict(zip("ab", free_addresses(2), strict=True))
        self.dials = {"a": a_dials, "b": b_dials}
        self.heard = {"a": [], "b": []}
        self.agents = {}
        self.sessions = []

    def agent(self, name, receive=None, **options):
        (peer,) = {"a", "b"} - {name}
        address = self.addresses[peer] if self.dials[name] else None
        options = {"files": CertificateFiles.in_folder(self.folder, name)} | options
        agent = ZenohTransport(name, {peer: address}, listen=self.addresses[name], **options)
        self.agents[name] = agent
        agent.start(receive or (lambda peer, payload: self.heard[name].append((peer, payload))))
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
        wanted = session_settings(
            "b", ["a"], "default", [], [], CertificateFiles.in_folder(self.folder, "b")
        )
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
    return certificates.encode_certificate(certificates.read_certificate(folder / f"{name}.pem"))


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
