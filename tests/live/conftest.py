"""A node on its own, its server, and a plain client."""

import httpx
import pytest

from posse import families
from posse.live.agent.agent import Agent
from posse.live.http import serve_node
from posse.live.messaging.transport.memory import MemoryNetwork
from posse.live.store import Store
from tests.live.single import single_node


@pytest.fixture
def node(tmp_path):
    agent = Agent(["red", "green", 'the "blue"'], families.Bernoulli(), seed=1)
    store = Store.open(tmp_path / "agent.db", fingerprint=agent.fingerprint)
    network = MemoryNetwork([("a", "b")])
    made = single_node(agent, store, network.transport("a"), neighbours=["b"])
    made.transport.start(made.receive)
    yield made
    made.stop()


@pytest.fixture
def server(node):
    made = serve_node(node, "127.0.0.1:0")
    yield made
    made.stop()
    assert not made.alive


@pytest.fixture
def http(server):
    with httpx.Client(base_url=server.url, trust_env=False, timeout=10) as client:
        yield client
