"""Nodes with real stores on a line in memory, which may be stopped, changed and started again."""

from itertools import pairwise

import pytest

from posse import families
from posse.live.agent.agent import Agent
from posse.live.messaging.transport.memory import MemoryNetwork
from posse.live.node import Node, Silence
from posse.live.store import Store


class Line:
    """Nodes a, b, c on a line, under names that an origin keeps whatever happens to its disk."""

    def __init__(self, folder, exchange, names="abc"):
        self.folder, self.exchange, self.now = folder, exchange, 0.0
        self.links = list(pairwise(names))
        self.network = MemoryNetwork(self.links)
        self.nodes = {}

    def path(self, name):
        return self.folder / f"{name}.db"

    def start(self, name, arms=("red", "green"), *, family=None, exchange=None, silence=None):
        exchange = exchange or self.exchange
        agent = Agent(
            list(arms), family or families.Bernoulli(), exchange=exchange, seed=ord(name),
            exchange_options={"identity": name} if exchange == "origins" else None,
        )  # fmt: skip
        store = Store.open(self.path(name), fingerprint=agent.fingerprint)
        near = [b if a == name else a for a, b in self.links if name in (a, b)]
        try:
            node = Node(
                agent, store, self.network.transport(name), neighbours=near,
                clock=lambda: self.now, silence=silence or Silence(),
            )  # fmt: skip
        except BaseException:
            store.close()
            raise
        node.transport.start(node.receive)
        self.nodes[name] = node
        return node

    def stop(self, name):
        self.nodes.pop(name).stop()

    def visit(self, name, times=1, arm=None, reward=1.0):
        for _ in range(times):
            decision = self.nodes[name].decide(allowed=None if arm is None else [arm])
            self.nodes[name].reward(decision.id, reward)

    def tick(self, times=1):
        for _ in range(times):
            self.now += 1
            for node in self.nodes.values():
                node.tick()
            for _ in range(4):
                self.network.step()

    def pulls(self, name, arm=None):
        """What a node counts in the network, of one arm or of those it plays."""
        shown = self.nodes[name].arms()
        return sum(s["pulls_in_network"] for n, s in shown.items() if arm in (None, n))

    def close(self):
        for name in list(self.nodes):
            self.stop(name)


@pytest.fixture
def line(tmp_path):
    made = []

    def make(exchange="origins", names="abc"):
        made.append(Line(tmp_path, exchange, names))
        return made[-1]

    yield make
    for each in made:
        each.close()
