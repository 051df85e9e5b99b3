"""How evidence travels when no message is lost: many runs of a network at once, as arrays.

Who sends what and when does not depend on rewards, so that what an agent holds is a fixed sum over
everybody's pulls.  The tests compare it with real agents.
"""

from __future__ import annotations

import runpy
from collections import deque
from pathlib import Path
from types import SimpleNamespace

import networkx as nx
import numpy as np
from scipy.sparse import csr_array

from posse.live.exchange import Flows

live = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("live_network.py"))))

MANY_PULLS = 2**50  # quanta, so that a division that leaves less than one is as exact as a float


class FlowsTravel:
    """A round merges: held' = A (held + N fresh), with A seen from real exchanges.

    There each agent observes an arm of its own, once a round: held' = A (held + 1).  The first
    round has an A of its own, since neighbours greet each other.
    """

    def __init__(self, network, identities, probed_rounds=4):
        names = iter(identities)
        agents = live.connected(
            network,
            lambda: Flows(fingerprint="", bounds=(1.0,), identity=next(names)),
        )
        held = np.zeros((len(agents), len(agents)))
        self.merges = []
        for now in range(probed_rounds):
            for name, agent in agents.items():
                agent.observe(name, (MANY_PULLS,))
            live.deliver(agents, now)
            levels = [agent.level() for agent in agents.values()]
            after = np.array(
                [[e.get(name, (0,))[0] / MANY_PULLS for name in agents] for e in levels]
            )
            self.merges.append(np.linalg.solve((held + np.eye(len(agents))).T, after.T).T)
            held = after
        np.testing.assert_allclose(self.merges[-1], self.merges[-2], atol=1e-9)
        self.rounds = 0
        self.held = 0.0

    def step(self, fresh):
        """What everybody holds (N, ...) after a round in which they observed this."""
        merge = self.merges[min(self.rounds, len(self.merges) - 1)]
        self.rounds += 1
        self.held = np.tensordot(merge, self.held + len(merge) * fresh, axes=1)
        return self.held


class OriginsTravel:
    """Entries go one edge a round, and the first edge in the round of the pull."""

    def __init__(self, network, identities):
        graph = nx.Graph(network.edges.tolist())
        distance = nx.floyd_warshall_numpy(graph, range(network.n_agents))
        delay = np.maximum(distance - 1, 0)
        self.shells = [csr_array((delay == rounds) * 1.0) for rounds in range(int(delay.max()) + 1)]
        self.recent = deque(maxlen=len(self.shells))  # newest first
        self.held = 0.0

    def step(self, fresh):
        """What everybody holds (N, ...) after a round in which they observed this."""
        self.recent.appendleft(fresh.reshape(len(fresh), -1))
        pairs = zip(self.shells, self.recent, strict=False)
        self.held = self.held + sum(shell @ pulls for shell, pulls in pairs)
        return self.held.reshape(fresh.shape)


TRAVEL = {"flows": FlowsTravel, "origins": OriginsTravel}
