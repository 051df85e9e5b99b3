"""Nodes with real stores on a line in memory, which may be stopped, changed and started again."""

from itertools import pairwise

import pytest

from posse import families
from posse.live.agent.agent import Agent
from posse.live.demo.fleet import Fleet
from posse.live.experiment.reward_window import RewardWindow
from posse.live.store import Store
from tests.live.single import single_node


class Line(Fleet):
    """Nodes a, b, c on a line, under names that an origin keeps whatever happens to its disk."""

    def __init__(self, folder, exchange, names="abc"):
        super().__init__(folder, pairwise(names))
        self.exchange = exchange

    def path(self, name):
        return self.folder / f"{name}.db"

    def start(self, name, arms=("red", "green"), *, family=None, exchange=None, reward_window=None):
        exchange = exchange or self.exchange
        agent = Agent(
            list(arms), family or families.Bernoulli(), exchange=exchange, seed=ord(name),
            exchange_options={"identity": name} if exchange == "origins" else None,
        )  # fmt: skip
        store = Store.open(self.path(name), fingerprint=agent.fingerprint)
        near = self.network.neighbours(name)
        try:
            node = single_node(
                agent, store, self.network.transport(name), neighbours=near,
                clock=lambda: self.now, reward_window=reward_window or RewardWindow(),
            )  # fmt: skip
        except BaseException:
            store.close()
            raise
        return self.add_node(node, name)

    def visit(self, name, times=1, arm=None, reward=1.0):
        for _ in range(times):
            decision = self.nodes[name].decide(allowed=None if arm is None else [arm])
            self.nodes[name].reward(decision.id, reward)

    def pulls(self, name, arm=None):
        """What a node counts in the network, of one arm or of those it plays."""
        shown = self.nodes[name].arms()
        return sum(s["pulls_in_network"] for n, s in shown.items() if arm in (None, n))


@pytest.fixture
def line(tmp_path):
    made = []

    def make(exchange="origins", names="abc"):
        made.append(Line(tmp_path, exchange, names))
        return made[-1]

    yield make
    for each in made:
        each.close()
