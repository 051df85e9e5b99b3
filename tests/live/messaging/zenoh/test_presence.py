"""A killed neighbour over real TLS: the transport tells at once, and so does the agent."""

import subprocess
import sys
import time

from posse import families
from posse.live.agent.agent import Agent
from posse.live.membership.heartbeats import LEAST_STATUS_SECONDS
from posse.live.store import Store
from tests.live.loopback import wait_until
from tests.live.messaging.zenoh.test_delivery import CHILD
from tests.live.single import single_node

SOON = 3.0  # seconds: what people are promised


def test_a_killed_neighbour_is_down_within_three_seconds(world, tmp_path):
    transport = world.agent("a", receive=lambda *_: None)
    agent = Agent(["red", "green"], families.Bernoulli(), exchange_options={"identity": "a"})
    store = Store.open(tmp_path / "a.db", fingerprint=agent.fingerprint)
    passed = [0.0]
    clock = lambda: time.time() + passed[0]  # noqa: E731
    node = single_node(agent, store, transport, neighbours=["b"], clock=clock)
    addresses = world.addresses["b"], world.addresses["a"]
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(world.folder), *addresses])

    def state():
        return node.network()["agents"]["b"]["state"]

    try:
        assert state() == "down"
        wait_until(lambda: state() == "up")
        node.tick()
        child.kill()
        killed = time.monotonic()
        while transport.connected()["b"]:
            assert time.monotonic() - killed < SOON
            time.sleep(0.01)
        assert state() == "down"
        assert node.network()["links"] == [{"a": "a", "b": "b", "state": "down", "lag": None}]
        passed[0] = LEAST_STATUS_SECONDS
        node.tick()
        assert node.presence.statuses()["a"].status.neighbours == (("b", False, -1),)
    finally:
        child.kill()
        child.wait()
        node.stop()
