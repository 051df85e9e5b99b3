"""Networks of agents: `posse.networks.cycle(100)`, and all other graphs, weights and dynamics."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec

from posse.networks import graphs, recipes
from posse.networks.dynamics import DYNAMICS
from posse.networks.gossip import Gossip
from posse.networks.graphs import EXAMPLES, GRAPHS, Graph
from posse.networks.link_failure import LinkFailure
from posse.networks.network import Network
from posse.networks.operators import as_matrix
from posse.networks.static import Static
from posse.networks.weights import WEIGHT_RULES, Matrix

if TYPE_CHECKING:
    import networkx as nx

__all__ = [
    "DYNAMICS",
    "EXAMPLES",
    "GRAPHS",
    "WEIGHT_RULES",
    "Gossip",
    "LinkFailure",
    "Network",
    "Static",
    "as_matrix",
    "barabasi_albert",
    "complete",
    "cycle",
    "erdos_renyi",
    "from_edges",
    "from_matrix",
    "from_networkx",
    "grid",
    "hypercube",
    "path",
    "random_geometric",
    "random_regular",
    "regular_ring",
    "star",
    "torus",
    "watts_strogatz",
]

P = ParamSpec("P")


def constructor(build: Callable[P, Graph]) -> Callable[P, Network]:
    """The public constructor of a graph's networks: same arguments, returns a Network."""
    signature = inspect.signature(build)

    @functools.wraps(build)
    def construct(*args: P.args, **kwargs: P.kwargs) -> Network:
        return Network(build.__name__, tuple(signature.bind(*args, **kwargs).arguments.items()))

    return construct


complete = constructor(graphs.complete)
cycle = constructor(graphs.cycle)
path = constructor(graphs.path)
star = constructor(graphs.star)
grid = constructor(graphs.grid)
torus = constructor(graphs.torus)
regular_ring = constructor(graphs.regular_ring)
hypercube = constructor(graphs.hypercube)
erdos_renyi = constructor(graphs.erdos_renyi)
watts_strogatz = constructor(graphs.watts_strogatz)
barabasi_albert = constructor(graphs.barabasi_albert)
random_regular = constructor(graphs.random_regular)
random_geometric = constructor(graphs.random_geometric)
from_edges = constructor(graphs.from_edges)


def from_networkx(graph: nx.Graph[Any]) -> Network:
    """The network of a NetworkX graph; agent i is the i-th of `graph.nodes`."""
    n_agents, edges = graphs.from_networkx(graph)
    return from_edges(edges, n_agents)


def from_matrix(matrix: Any, check: bool = True) -> Network:
    """The network of a doubly stochastic W (N, N), dense or sparse, linked where W > 0.

    `check=False` admits any non-negative W with a warning, for published variants only.
    """
    rule = Matrix.of(matrix, check)
    return Network("from_edges", recipes.support(rule), rule)
