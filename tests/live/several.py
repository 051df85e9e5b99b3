"""Nodes of several experiments on a line in memory, from settings, driven by hand."""

import random
from itertools import pairwise

from posse.live.config.agent_settings import from_data
from posse.live.messaging.transport.memory import MemoryNetwork
from posse.live.node_factory import Keys, Outside
from posse.live.process import assemble
from posse.live.security.certificates import Files

ARMS = ["red", "green"]


def table(name, experiments=("checkout", "banner"), **changes):
    """The data of an agent.toml."""
    tables = experiments if isinstance(experiments, dict) else {each: {} for each in experiments}
    common = {"name": name, "arms": ARMS, "family": "bernoulli", "store": f"{name}.db"}
    return {**common, "experiments": tables, **changes}


class Several:
    """Agents a, b, c ... on a line; each runs the experiments that it is given."""

    def __init__(self, folder, seed=0, **faults):
        self.folder, self.now, self.seed = folder, 0.0, seed
        self.faults, self.nodes, self.network = faults, {}, None

    def start(self, **settings):
        """Agents by name, with the data of each."""
        names = list(settings)
        self.links = list(pairwise(names))
        self.network = MemoryNetwork(self.links, **self.faults)
        for name, data in settings.items():
            self.open(name, data)
        return self

    def near(self, name):
        return {b if a == name else a: "" for a, b in self.links if name in (a, b)}

    def settings(self, name, data):
        return from_data({"neighbours": self.near(name), **data})

    def open(self, name, data):
        return self._open(name, data, Outside(lambda _: self.network.transport(name)))

    def _open(self, name, data, outside):
        node = assemble(
            self.settings(name, data),
            self.folder,
            outside,
            clock=lambda: self.now,
            draw=random.Random(f"{self.seed} {name}").getrandbits,
        )
        node.transport.start(node.receive)
        self.nodes[name] = node
        return node

    def visit(self, name, experiment, times=1, reward=1.0):
        one = self.nodes[name].experiment(experiment)
        for _ in range(times):
            one.reward(one.decide().id, reward)

    def tick(self, times=1):
        for _ in range(times):
            self.now += 1
            for node in self.nodes.values():
                node.tick()
            for _ in range(4):
                self.network.step()

    def pulls(self, name, experiment):
        arms = self.nodes[name].experiment(experiment).arms()
        return round(sum(arm["pulls_in_network"] for arm in arms.values()), 6)

    def close(self):
        for node in self.nodes.values():
            node.stop()


class Certified(Several):
    """The same with certificates: what they say is signed, also that of operators."""

    def open(self, name, data):
        files = Files.of(self.folder / "certs", name)
        outside = Outside(lambda _: self.network.transport(name), Keys(name, files))
        return self._open(name, data, outside)
