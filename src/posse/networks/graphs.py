"""Graphs: builders that return the links between agents as a plain array.

NumPy alone builds structured graphs, so a million agents cost no more than their links. A new
graph is one builder and one line of `_BUILDERS` (and its typed name in `__init__.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.validation import detect_memory, format_gigabytes

if TYPE_CHECKING:
    import networkx as nx

IntArray = NDArray[np.int64]

# The seed "run" means a new random graph in every run, which `Network.of_run` handles; a builder
# itself takes whole numbers only.
RUN = "run"
Seed = int | Literal["run"]


class Graph(NamedTuple):
    """A simple graph: `edges` (E, 2) holds each link once, in sorted order.

    Undirected links are (i, j) with i < j; directed ones are (sender, receiver).
    """

    n_agents: int
    edges: IntArray
    directed: bool = False


class LargeCompleteGraph(Graph):
    """A complete graph of so many agents that its links are not listed."""

    __slots__ = ()

    @property
    def edges(self) -> IntArray:
        """Refused: they would not fit into memory."""
        n = self.n_agents
        raise ValueError(
            f"complete({n}) has {n * (n - 1) // 2:,} links, which are not listed above "
            f"{_MOST_LISTED:,} agents: use its n_agents, degrees, neighbours(agent) and "
            "spectral_gap, the default weights and no dynamics, or fewer agents"
        )


_MOST_LISTED = 10_000  # agents of a complete graph whose links are listed: 50 million links
# More agents would not fit into the memory of most machines.
_MOST_AGENTS = 100_000_000
# Measured bytes per link while a graph is built: in NumPy's arrays, and in NetworkX's dicts.
_LINK = 64
_NETWORKX_LINK = 300


def complete(agents: int) -> Graph:
    """Every agent is linked to every other; a merge is a mean, so that a million agents can play.

    agents: how many, at least 1; above 10,000 the links are not listed.
    """
    n = _validate_agents(agents)
    if n > _MOST_LISTED:
        return LargeCompleteGraph(n, np.empty((0, 2), dtype=np.int64))
    return build_simple_graph(n, np.triu_indices(n, k=1))


def cycle(agents: int) -> Graph:
    """A ring: each agent has two neighbours (`cycle(2)` is one link).

    agents: how many, at least 1.

    >>> posse.networks.cycle(4).weights.round(2).tolist()[0]
    [0.33, 0.33, 0.0, 0.33]
    """
    n = _validate_agents(agents)
    ring = np.arange(n)
    return build_simple_graph(n, (ring, (ring + 1) % n))


def path(agents: int) -> Graph:
    """A line: a cycle with one link cut.

    agents: how many, at least 1.
    """
    n = _validate_agents(agents)
    line = np.arange(n)
    return build_simple_graph(n, (line[:-1], line[1:]))


def star(agents: int) -> Graph:
    """Agent 0 in the middle, linked to all the others.

    agents: how many in all, at least 1.
    """
    n = _validate_agents(agents)
    leaves = np.arange(1, n)
    return build_simple_graph(n, (np.zeros_like(leaves), leaves))


def grid(rows: int, columns: int) -> Graph:
    """A 4-connected grid; agent `r * columns + c` sits at row r, column c.

    rows, columns: of agents, at least 1 each.

    >>> posse.networks.grid(2, 3).neighbours(0).tolist()
    [1, 3]
    """
    seats = _number_seats(rows, columns)
    right = (seats[:, :-1], seats[:, 1:])
    down = (seats[:-1], seats[1:])
    return build_simple_graph(seats.size, right, down)


def torus(rows: int, columns: int) -> Graph:
    """A grid whose opposite borders are joined (a side of 2 has single links, of 1 none).

    rows, columns: of agents, at least 1 each; agent `r * columns + c` sits at row r, column c.
    """
    seats = _number_seats(rows, columns)
    right = (seats, np.roll(seats, -1, axis=1))
    down = (seats, np.roll(seats, -1, axis=0))
    return build_simple_graph(seats.size, right, down)


def regular_ring(agents: int, k: int) -> Graph:
    """A ring where each agent is linked to the k nearest on each side (2k < agents).

    agents: how many.
    k: neighbours on each side, at least 1.
    """
    n = _validate_agents(agents)
    k = validation.validate_integer("k", k, at_least=1)
    if 2 * k >= n:
        raise ValueError(f"k must satisfy 2 k < agents (k neighbours on each side), got {k=}, {n=}")
    _check_links(n * k, "agents or a smaller k", _LINK)
    ring = np.arange(n)
    return build_simple_graph(n, *((ring, (ring + step) % n) for step in range(1, k + 1)))


def hypercube(dimension: int) -> Graph:
    """The 2**dimension corners of a cube, linked where they differ in one coordinate.

    dimension: from 0 (one agent) to 20.
    """
    dimension = validation.validate_integer("dimension", dimension, at_least=0, at_most=20)
    corners = np.arange(2**dimension)
    return build_simple_graph(
        corners.size, *((corners, corners ^ (1 << bit)) for bit in range(dimension))
    )


def erdos_renyi(agents: int, p: float, seed: Seed = 0) -> Graph:
    """Each possible link is present with probability p, independently.

    agents: how many, at least 1.
    p: the probability of a link, from 0 to 1.
    seed: of the one draw that all runs share, or "run" for a fresh graph in every run.

    >>> fresh = posse.networks.erdos_renyi(20, 0.3, seed="run")
    >>> fresh.of_run(seed=7, run=0) == fresh.of_run(seed=7, run=1)
    False
    """
    import networkx as nx

    n = _validate_agents(agents)
    p = validation.validate_number("p", p, at_least=0, at_most=1)
    seed = _validate_seed(seed)
    _check_links(n * (n - 1) / 2 * p, "agents or a smaller p")
    return from_networkx(nx.fast_gnp_random_graph(n, p, seed=seed))


def watts_strogatz(agents: int, k: int, p: float, seed: Seed = 0) -> Graph:
    """A ring of k neighbours in all (k even, k/2 on each side), each link rewired w.p. p.

    agents: how many.
    k: neighbours in the ring, even and below agents.
    p: the probability that a link is rewired, from 0 to 1.
    seed: of the one draw that all runs share, or "run" for a fresh graph in every run.
    """
    import networkx as nx

    n = _validate_agents(agents)
    k = validation.validate_integer("k", k, at_least=2)
    if k % 2 or k >= n:
        raise ValueError(f"k must be even and below agents={n} (k/2 on each side), got {k}")
    p = validation.validate_number("p", p, at_least=0, at_most=1)
    seed = _validate_seed(seed)
    _check_links(n * k / 2, "agents or a smaller k")
    return from_networkx(nx.watts_strogatz_graph(n, k, p, seed=seed))


def barabasi_albert(agents: int, m: int, seed: Seed = 0) -> Graph:
    """Agents join one by one, each linked to m earlier ones in proportion to their degrees.

    agents: how many in the end, at least 2.
    m: links of an agent that joins, from 1 to agents - 1.
    seed: of the one draw that all runs share, or "run" for a fresh graph in every run.
    """
    import networkx as nx

    n = validation.validate_integer("agents", agents, at_least=2)
    m = validation.validate_integer("m", m, at_least=1, at_most=n - 1)
    seed = _validate_seed(seed)
    _check_links((n - m) * m, "agents or a smaller m")
    return from_networkx(nx.barabasi_albert_graph(n, m, seed=seed))


def random_regular(agents: int, degree: int, seed: Seed = 0) -> Graph:
    """A random graph in which every agent has the same degree.

    agents: how many.
    degree: links of every agent, below agents; agents * degree is even.
    seed: of the one draw that all runs share, or "run" for a fresh graph in every run.
    """
    import networkx as nx

    n = _validate_agents(agents)
    degree = validation.validate_integer("degree", degree, at_least=0, at_most=n - 1)
    seed = _validate_seed(seed)
    if n * degree % 2:
        raise ValueError(f"agents * degree must be even, got agents={n} and {degree=}")
    _check_links(n * degree / 2, "agents or a smaller degree")
    return from_networkx(nx.random_regular_graph(degree, n, seed=seed))


def random_geometric(agents: int, radius: float, seed: Seed = 0) -> Graph:
    """Agents at uniform places of the unit square, linked when no further than radius apart.

    agents: how many, at least 1.
    radius: the reach of an agent, above 0.
    seed: of the one draw that all runs share, or "run" for a fresh graph in every run.
    """
    import networkx as nx

    n = _validate_agents(agents)
    radius = validation.validate_number("radius", radius, above=0)
    seed = _validate_seed(seed)
    _check_links(n * (n - 1) / 2 * link_probability(radius), "agents or a smaller radius")
    return from_networkx(nx.random_geometric_graph(n, radius, seed=seed))


def random_directed(agents: int, k: int, seed: Seed = 0) -> Graph:
    """Each agent sends to k others: the next one in a random ring, and k - 1 drawn uniformly.

    agents: how many, at least 2.
    k: links out of every agent, from 1 to agents - 1; links in vary around k.
    seed: of the one draw that all runs share, or "run" for a fresh graph in every run.

    >>> network = posse.networks.random_directed(40, 3, seed=1)
    >>> network.is_directed, len(network.edges)
    (True, 120)
    """
    n = validation.validate_integer("agents", agents, at_least=2, at_most=_MOST_AGENTS)
    k = validation.validate_integer("k", k, at_least=1, at_most=n - 1)
    seed = _validate_seed(seed)
    _check_links(n * k, "agents or a smaller k", _LINK)
    generator = np.random.default_rng(seed)
    ring = generator.permutation(n)
    # Steps along the ring: 1, which makes the graph strongly connected, and k - 1 of 2 to n - 1.
    steps = np.ones((n, k), dtype=np.int64)
    if k > 1:
        steps[:, 1:] = [2 + generator.choice(n - 2, k - 1, replace=False) for _ in range(n)]
    senders = np.broadcast_to(np.arange(n)[:, None], steps.shape)
    return build_simple_graph(n, (ring[senders], ring[(senders + steps) % n]), directed=True)


def link_probability(radius: float) -> float:
    """Return the probability that two uniform points of the unit square are within the radius.

    For radii above 1 it returns the value at 1, a lower bound.
    """
    r = min(radius, 1.0)
    return r**2 * (np.pi - 8 * r / 3 + r**2 / 2)


def from_edges(edges: Any, agents: int | None = None, directed: bool = False) -> Graph:
    """The given links; a duplicate, or the reverse of another if undirected, counts once.

    edges: pairs of agents, (E, 2), numbered from 0; of a directed graph (sender, receiver).
    agents: how many; None takes the largest number in edges plus one.
    directed: whether a link carries messages one way only (`posse.PushSum` can use these).

    >>> posse.networks.from_edges([(0, 1), (1, 2)]).degrees.tolist()
    [1, 2, 1]
    """
    if not isinstance(directed, bool):
        raise ValueError(f"directed must be true or false, got {directed!r}")
    try:
        pairs = np.asarray(edges.values if isinstance(edges, validation.FrozenArray) else edges)
    except ValueError as error:
        raise ValueError(f"edges must be pairs of whole numbers: {error}") from None
    if pairs.size == 0:
        pairs = np.empty((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise ValueError(
            "edges must be pairs of whole numbers, an array of shape (E, 2), "
            f"got shape {pairs.shape} of {pairs.dtype}"
        )
    pairs = pairs.astype(np.int64)
    n = _validate_agents(int(pairs.max(initial=0)) + 1 if agents is None else agents)
    outside = (pairs < 0) | (pairs >= n)
    if outside.any():
        label = pairs[outside][0]
        raise ValueError(f"edges must join agents 0 to {n - 1}, got agent {label}")
    loops = pairs[pairs[:, 0] == pairs[:, 1]]
    if loops.size:
        raise ValueError(f"edges must join two different agents, got {tuple(loops[0].tolist())}")
    return build_simple_graph(n, (pairs[:, 0], pairs[:, 1]), directed=directed)


def from_networkx(graph: nx.Graph[Any]) -> Graph:
    """Return the links of a NetworkX graph without attributes; agent i is its i-th node.

    The edges of a directed graph lead from sender to receiver.
    """
    if not all(hasattr(graph, name) for name in ("nodes", "edges", "is_directed")):
        raise ValueError(
            f"graph must be one such as networkx.petersen_graph(), "
            f"got {validation.format_value(graph)}"
        )
    if graph.is_multigraph():
        raise ValueError(f"graph must be simple, got {graph}: call networkx.Graph(graph) first")
    order = {node: i for i, node in enumerate(graph.nodes)}
    pairs = [(order[i], order[j]) for i, j in graph.edges]
    edges = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return from_edges(edges, agents=len(order), directed=graph.is_directed())


def read_edge_weights(graph: nx.Graph[Any], weight: str) -> dict[tuple[int, int], float]:
    """Return the attribute `weight` of each edge of a NetworkX graph, by its two agents."""
    order = {node: i for i, node in enumerate(graph.nodes)}
    edges: list[tuple[Any, Any, Any]] = list(graph.edges(data=weight))
    for i, j, value in edges:
        if value is None:
            raise ValueError(f"weight {weight!r} must be on every edge, but ({i}, {j}) has none")
        validation.validate_number(f"weight {weight!r} of edge ({i}, {j})", value, at_least=0)
    return {(order[i], order[j]): float(value) for i, j, value in edges}


def count_components(graph: Graph) -> int:
    """Count the connected components of a graph, strong ones if it is directed."""
    if isinstance(graph, LargeCompleteGraph):
        return 1
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    shape = (graph.n_agents, graph.n_agents)
    one_way = coo_array((np.ones(len(graph.edges), dtype=np.int8), graph.edges.T), shape=shape)
    return int(
        connected_components(
            one_way, directed=graph.directed, connection="strong", return_labels=False
        )
    )


def build_simple_graph(
    n_agents: int, *pairs: tuple[IntArray, IntArray], directed: bool = False
) -> Graph:
    """Build a graph from arrays of ends, without self-loops and duplicate links."""
    first = np.concatenate([i.ravel() for i, _ in pairs] or [np.empty(0, dtype=np.int64)])
    second = np.concatenate([j.ravel() for _, j in pairs] or [np.empty(0, dtype=np.int64)])
    if not directed:
        first, second = np.minimum(first, second), np.maximum(first, second)
    # a link (i, j) as one number i N + j, so that sorting and deduplication are one pass
    keys = first * n_agents + second
    keys = np.sort(keys[first != second])  # ten times faster than np.unique here
    keys = keys[np.diff(keys, prepend=-1) > 0]
    edges = np.stack(np.divmod(keys, n_agents), axis=1)
    edges.setflags(write=False)
    return Graph(n_agents, edges, directed)


def _validate_agents(value: Any) -> int:
    return validation.validate_integer("agents", value, at_least=1, at_most=_MOST_AGENTS)


def _check_links(expected: float, fewer: str, bytes_a_link: int = _NETWORKX_LINK) -> None:
    """Refuse a graph with more links than fit in memory, before it is built."""
    needed = expected * bytes_a_link / 1e9
    room = detect_memory()
    if needed > room:
        raise ValueError(
            f"the graph has about {expected:.2g} links, which take {format_gigabytes(needed)} of "
            f"{format_gigabytes(room)} of memory: take fewer {fewer}"
        )


def _validate_seed(value: Any) -> int:
    if value is None or isinstance(value, str):
        raise ValueError(
            "seed must be a whole number at least 0 for one graph in all runs, or 'run' for a "
            f"fresh graph in every run, got {value!r}"
        )
    return validation.validate_integer("seed", value, at_least=0)


def _number_seats(rows: Any, columns: Any) -> IntArray:
    shape = (
        validation.validate_integer("rows", rows, at_least=1),
        validation.validate_integer("columns", columns, at_least=1),
    )
    validation.validate_integer(
        "rows x columns", shape[0] * shape[1], at_least=1, at_most=_MOST_AGENTS
    )
    return np.arange(shape[0] * shape[1]).reshape(shape)


# Each builder with the arguments of a small instance, on which the law tests run.
_BUILDERS: tuple[tuple[Callable[..., Graph], Mapping[str, Any]], ...] = (
    (complete, {"agents": 6}),
    (cycle, {"agents": 7}),
    (path, {"agents": 5}),
    (star, {"agents": 6}),
    (grid, {"rows": 3, "columns": 4}),
    (torus, {"rows": 3, "columns": 5}),
    (regular_ring, {"agents": 9, "k": 2}),
    (hypercube, {"dimension": 3}),
    (erdos_renyi, {"agents": 12, "p": 0.4, "seed": 1}),
    (watts_strogatz, {"agents": 12, "k": 4, "p": 0.3, "seed": 1}),
    (barabasi_albert, {"agents": 12, "m": 2, "seed": 1}),
    (random_regular, {"agents": 10, "degree": 3, "seed": 1}),
    (random_geometric, {"agents": 12, "radius": 0.5, "seed": 2}),
    (random_directed, {"agents": 10, "k": 2, "seed": 1}),
    (from_edges, {"edges": [(0, 1), (1, 2), (0, 2), (2, 3)], "agents": 4}),
)
GRAPHS: dict[str, Callable[..., Graph]] = {build.__name__: build for build, _ in _BUILDERS}
# Graphs whose links have a direction; `from_edges` says so by an argument.
DIRECTED = ("random_directed",)
EXAMPLES: dict[str, Mapping[str, Any]] = {build.__name__: kwargs for build, kwargs in _BUILDERS}
