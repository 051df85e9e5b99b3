"""Fleets of several experiments on a line in memory, from settings, driven by hand."""

import time
from itertools import pairwise

from posse.live.demo.fleet import Fleet

ARMS = ["red", "green"]


def table(name, experiments=("checkout", "banner"), **changes):
    """The data of an agent.toml."""
    tables = experiments if isinstance(experiments, dict) else {each: {} for each in experiments}
    common = {"name": name, "arms": ARMS, "family": "bernoulli", "store": f"{name}.db"}
    return {**common, "experiments": tables, **changes}


class Several(Fleet):
    """Agents a, b, c ... on a line; each runs the experiments that it is given."""

    def __init__(self, folder, seed=0, certificates=None, **faults):
        # tests set `now` as they like: the store's own clock must not jump with it
        clock = {"monotonic": time.monotonic, "certificates": certificates}
        super().__init__(folder, seed=seed, **clock, **faults)

    def start(self, **settings):
        """Start agents by name, with the data of each."""
        for a, b in pairwise(settings):
            self.network.link(a, b)
        for data in settings.values():
            self.open_node(data)
        return self

    def visit(self, name, experiment, times=1, reward=1.0):
        one = self.nodes[name].experiment(experiment)
        for _ in range(times):
            one.reward(one.decide().id, reward)

    def pulls(self, name, experiment):
        arms = self.nodes[name].experiment(experiment).arms()
        return round(sum(arm["pulls_in_network"] for arm in arms.values()), 6)


class Certified(Several):
    """The same with certificates: what they say is signed, also that of operators."""

    def __init__(self, folder, seed=0, **faults):
        super().__init__(folder, seed, folder / "certs", **faults)
