"""Networks of agents: `posse.networks.cycle(100)`, and all other graphs, weights and dynamics."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, ParamSpec

from posse.networks import graphs, serialization
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
    signature = inspect.signature(build, eval_str=True)

    @functools.wraps(build)
    def construct(*args: P.args, **kwargs: P.kwargs) -> Network:
        return Network(build.__name__, tuple(signature.bind(*args, **kwargs).arguments.items()))

    # What help() and documentation show is this function, not the builder behind it
    shown = signature.replace(return_annotation=Network)
    annotations = {name: p.annotation for name, p in shown.parameters.items()}
    vars(construct).update(__signature__=shown)
    construct.__module__ = __name__
    construct.__annotations__ = annotations | {"return": Network}
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


def from_networkx(graph: nx.Graph[Any], weight: str | Literal[False] | None = None) -> Network:
    """The network of a NetworkX graph; agent i is the i-th of `graph.nodes`.

    graph: undirected and simple.
    weight: the attribute of edges that holds the entries of W between two agents; diagonal entries
    are the rest to 1. False ignores what edges carry, and None refuses edges with a "weight".
    """
    n_agents, edges = graphs.from_networkx(graph)
    if weight is None and any("weight" in data for *_, data in graph.edges(data=True)):
        raise ValueError(
            f"weight must be given for {graph}, whose edges carry one: weight='weight' takes these "
            "as the entries of W between agents, weight=False ignores them"
        )
    if weight is None or weight is False:
        return from_edges(edges, n_agents)
    if not isinstance(weight, str):
        raise ValueError(f"weight must be the name of an attribute of edges or False, got {weight}")
    rule = Matrix.of_links(n_agents, graphs.edge_weights(graph, weight))
    return Network("from_edges", serialization.get_matrix_arguments(rule), rule)


def from_matrix(matrix: Any, check: bool = True) -> Network:
    """The network of a doubly stochastic W (N, N), dense or sparse, linked where W > 0.

    matrix: W, rows that say how much each agent listens to the others.
    check: False admits any non-negative W with a warning, for published variants only.
    """
    rule = Matrix.of(matrix, check)
    return Network("from_edges", serialization.get_matrix_arguments(rule), rule)
