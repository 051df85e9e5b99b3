"""Networks of agents: `posse.networks.cycle(100)`, and all other graphs, weights and dynamics."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, ParamSpec

from posse.networks import graphs, serialization
from posse.networks.awake_links import AwakeLinks as AwakeLinks
from posse.networks.awake_links import cut_off_sleepers as cut_off_sleepers
from posse.networks.awake_links import is_by_max_degree as is_by_max_degree
from posse.networks.describe import describe_cost as describe_cost
from posse.networks.describe import describe_mixing as describe_mixing
from posse.networks.describe import describe_size as describe_size
from posse.networks.dynamics import DYNAMICS
from posse.networks.dynamics import is_user_defined as is_user_defined
from posse.networks.gossip import Gossip
from posse.networks.graphs import EXAMPLES, GRAPHS, Graph
from posse.networks.graphs import count_components as count_components
from posse.networks.link_failure import LinkFailure
from posse.networks.network import Network
from posse.networks.operators import SparseRuns as SparseRuns
from posse.networks.operators import SparseWeights as SparseWeights
from posse.networks.operators import UniformWeights as UniformWeights
from posse.networks.operators import as_matrix
from posse.networks.operators import as_operator as as_operator
from posse.networks.operators import count_links_in_use as count_links_in_use
from posse.networks.operators import get_link_weights as get_link_weights
from posse.networks.operators import sum_by_receiver as sum_by_receiver
from posse.networks.shares import split_among_links as split_among_links
from posse.networks.spanning import spanning_tree as spanning_tree
from posse.networks.spectrum import TRANSITIVE as TRANSITIVE
from posse.networks.spectrum import structured_spectrum as structured_spectrum
from posse.networks.static import Static
from posse.networks.weights import DEFAULT_RULE as DEFAULT_RULE
from posse.networks.weights import WEIGHT_RULES
from posse.networks.weights import Matrix as Matrix
from posse.networks.weights import assemble_matrix as assemble_matrix
from posse.networks.weights import is_symmetric as is_symmetric

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
    "random_directed",
    "random_geometric",
    "random_regular",
    "regular_ring",
    "star",
    "torus",
    "watts_strogatz",
]

P = ParamSpec("P")


def wrap_builder(build: Callable[P, Graph]) -> Callable[P, Network]:
    """Wrap the builder of a graph as a constructor of networks with the same arguments."""
    signature = inspect.signature(build, eval_str=True)

    @functools.wraps(build)
    def construct(*args: P.args, **kwargs: P.kwargs) -> Network:
        return Network(build.__name__, tuple(signature.bind(*args, **kwargs).arguments.items()))

    # help() and the documentation must show this function, not the builder.
    public_signature = signature.replace(return_annotation=Network)
    annotations = {name: p.annotation for name, p in public_signature.parameters.items()}
    vars(construct).update(__signature__=public_signature)
    construct.__module__ = __name__
    construct.__annotations__ = annotations | {"return": Network}
    return construct


complete = wrap_builder(graphs.complete)
cycle = wrap_builder(graphs.cycle)
path = wrap_builder(graphs.path)
star = wrap_builder(graphs.star)
grid = wrap_builder(graphs.grid)
torus = wrap_builder(graphs.torus)
regular_ring = wrap_builder(graphs.regular_ring)
hypercube = wrap_builder(graphs.hypercube)
erdos_renyi = wrap_builder(graphs.erdos_renyi)
watts_strogatz = wrap_builder(graphs.watts_strogatz)
barabasi_albert = wrap_builder(graphs.barabasi_albert)
random_regular = wrap_builder(graphs.random_regular)
random_geometric = wrap_builder(graphs.random_geometric)
random_directed = wrap_builder(graphs.random_directed)
from_edges = wrap_builder(graphs.from_edges)


def from_networkx(graph: nx.Graph[Any], weight: str | Literal[False] | None = None) -> Network:
    """Build the network of a NetworkX graph; agent i is the i-th of `graph.nodes`.

    graph: simple; the edges of a directed one lead from sender to receiver.
    weight: the attribute of edges that holds the entries of W between two agents; the diagonal
    completes each row to 1. False ignores the attributes, and None refuses edges with a "weight".
    """
    n_agents, edges, directed = graphs.from_networkx(graph)
    if weight is None and any("weight" in data for *_, data in graph.edges(data=True)):
        raise ValueError(
            f"weight must be given for {graph}, whose edges carry one: weight='weight' takes these "
            "as the entries of W between agents, weight=False ignores them"
        )
    if weight is None or weight is False:
        return from_edges(edges, n_agents, directed)
    if directed:
        raise ValueError(
            f"weight must be False for {graph}, which is directed: its agents split what they have "
            "equally among themselves and their receivers"
        )
    if not isinstance(weight, str):
        raise ValueError(f"weight must be the name of an edge attribute or False, got {weight}")
    rule = Matrix.from_links(n_agents, graphs.read_edge_weights(graph, weight))
    return Network("from_edges", serialization.get_matrix_arguments(rule), rule)


def from_matrix(matrix: Any, check: bool = True) -> Network:
    """Build the network of a doubly stochastic W (N, N), dense or sparse, linked where W > 0.

    matrix: W; row i holds the weights that agent i gives to the others.
    check: False admits any non-negative W with a warning, for published variants only.
    """
    rule = Matrix.from_matrix(matrix, check)
    return Network("from_edges", serialization.get_matrix_arguments(rule), rule)
