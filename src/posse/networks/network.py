"""The network: agents, links, weights and dynamics, stored as a recipe.

The fields are the arguments of builders; graphs and matrices are computed on demand and cached.
Hence networks print, compare and hash by recipe, and serialize as plain data (TOML, JSON).
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from posse import validation
from posse.networks import describe, graphs, serialization, spectrum
from posse.networks import shares as equal_shares
from posse.networks import weights as rules
from posse.networks.dynamics import DrawWeights, Dynamics, create_sampler, is_user_defined
from posse.networks.gossip import Gossip
from posse.networks.graphs import GRAPHS, Graph, IntArray
from posse.networks.link_failure import LinkFailure
from posse.networks.static import STATIC
from posse.networks.weights import DEFAULT_RULE, WEIGHT_RULES, FloatArray, Matrix
from posse.randomness import create_generator

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FRESH = "this network is a fresh graph in every run"

# Converters of arguments to one plain type, by the annotations of the builders: networks compare
# by their arguments, so cycle(5) must equal cycle(np.int64(5)).
_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "int": lambda value: value if isinstance(value, str) else int(value),
    "float": lambda value: value if isinstance(value, str) else float(value),
    "Seed": lambda seed: seed if seed == graphs.RUN else int(seed),
}


class _Disconnected(ValueError):
    """The error for a graph with several components, which a new draw may not have."""


@dataclass(frozen=True, repr=False)
class Network:
    """N agents, the links between them, their weights W and the dynamics of W(t).

    A directed network has no doubly stochastic W, but `shares` (for `posse.PushSum`).

    `arguments` are those of the graph's builder, as (name, value) pairs, where a rule of N such as
    "2*log(N)/N" may stand for a number; `rule` is the name of a weight rule or a matrix.

    >>> network = posse.networks.cycle(4)
    >>> round(network.spectral_gap, 4), round(network.failing(0.5).spectral_gap, 4)
    (0.6667, 0.3333)
    """

    graph: str
    arguments: serialization.Arguments
    rule: str | Matrix = DEFAULT_RULE
    dynamics: Dynamics = STATIC

    def __post_init__(self) -> None:
        validation.validate_choice("graph", self.graph, GRAPHS)
        object.__setattr__(self, "arguments", self._plain_arguments())
        if self.is_directed and self.rule != DEFAULT_RULE:
            raise ValueError(
                f"weights of {self.graph} must be left out: in a directed network every agent "
                "splits what it has equally among itself and its receivers"
            )
        if not isinstance(self.rule, Matrix):
            validation.validate_choice("weights", self.rule, WEIGHT_RULES)
            if not self.is_recipe:
                self._refuse_disconnected()
        elif self.is_recipe:
            raise ValueError(
                f"weights of {self.graph} must be the name of a rule, because {_FRESH}"
            )
        else:  # the matrix validates connectedness itself, unless check=False
            self._refuse_foreign_links(self.rule.to_graph())
        validation.validate_methods(
            "dynamics", self.dynamics, ["sampler"], "posse.networks.Gossip()"
        )
        if self.is_directed and is_user_defined(self.dynamics):
            raise ValueError(
                f"dynamics {type(self.dynamics).__name__} need an undirected network, whose W(t) "
                f"is doubly stochastic, and {self.graph} is directed: use failing or gossip"
            )
        # User-defined dynamics may lack `check`, and may inspect the graph: if it is random in
        # every run, the graph of each run is checked instead.
        if hasattr(self.dynamics, "check") and not (
            self.is_recipe and is_user_defined(self.dynamics)
        ):
            self.dynamics.check(self)

    def weighted(self, rule: Any) -> Network:
        """Return the same graph with other weights: the name of a rule, or a matrix (N, N)."""
        is_rule = isinstance(rule, (str, Matrix))
        return dataclasses.replace(self, rule=rule if is_rule else Matrix.from_matrix(rule))

    def gossip(self) -> Network:
        """Return the same graph with gossip: one random link per round averages, eq. `gossip`."""
        return self._with_dynamics(Gossip())

    def failing(self, p: float, normalise: str = "full") -> Network:
        """Return the same network where each link fails with probability p in each round."""
        return self._with_dynamics(LinkFailure(p, normalise))

    def varying(self, dynamics: Any) -> Network:
        """Return the same graph with user-defined dynamics, with `sampler(network, n_runs)`.

        It returns a function that is called once a round as `draw(randomness)` or, if it takes a
        second argument, `draw(randomness, t)` with the round t = 1, 2, ...; see `Dynamics`.
        """
        return self._with_dynamics(dynamics)

    def sampler(self, n_runs: int) -> DrawWeights:
        """Return a function `draw(randomness, t)` that draws W(t) of R = n_runs runs.

        Call it once a round; `draw(randomness)` counts the rounds itself. The result mixes agents
        by `weights @ x` for x of shape (..., R, N, K). A directed network has the column-stochastic
        `shares` of the round in place of W(t).
        """
        self._refuse_recipe()
        return create_sampler(
            self.dynamics, self, validation.validate_integer("n_runs", n_runs, at_least=1)
        )

    @property
    def is_recipe(self) -> bool:
        """Whether every run has a new random graph (`seed="run"`), which `of_run` draws."""
        return dict(self.arguments).get("seed") == graphs.RUN

    def of_run(self, seed: int, run: int, most_draws: int = 10_000) -> Network:
        """Return the network of one run: for a random graph with `seed="run"` a draw of its own.

        A draw that is not connected is repeated, so the result is the random graph conditional on
        being connected; refused after `most_draws`. Any other network returns itself.
        """
        if not self.is_recipe:
            return self
        source = create_generator(seed, run, "graph")
        for _ in range(most_draws):
            drawn = dict(self.arguments) | {"seed": int(source.integers(2**32))}
            try:
                return dataclasses.replace(self, arguments=tuple(drawn.items()))
            except _Disconnected:
                continue
        denser = list(drawn)[1]  # the second argument of every random graph makes it denser
        raise ValueError(
            f"{self} must be connected, but {most_draws} draws for run {run} were not: "
            f"raise {denser}"
        )

    def plot(
        self,
        values: ArrayLike | str | None = "cost",
        *,
        axes: Axes | None = None,
        label: str | None = None,
    ) -> Axes:
        """Draw the network with matplotlib and return the axes; wide links have large weights.

        values: the colour of each agent: "cost" for what the network costs it
                (`posse.theory.network_cost`), numbers (N,), such as regrets, or None for no colours
        axes:   where to draw; None opens a new figure
        label:  the label of the colour bar
        """
        from posse.networks.plots import draw_network

        self._refuse_recipe()
        return draw_network(self, values, axes, label)

    def to_data(self) -> dict[str, Any]:
        """Encode the recipe as plain data, without fields at their defaults."""
        return serialization.encode_network(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Network:
        """Decode a network from plain data, as from `to_data` or a TOML table."""
        return cls(**serialization.decode_network(data))

    @functools.cached_property
    def topology(self) -> Graph:
        """The graph itself: the number of agents and the links."""
        self._refuse_recipe()
        return GRAPHS[self.graph](**self.resolve_arguments())

    def resolve_arguments(self) -> dict[str, Any]:
        """Return the arguments of the graph's builder, with the values of rules in their places."""
        return serialization.resolve_arguments(dict(self.arguments))

    @property
    def n_agents(self) -> int:
        """N, the number of agents."""
        return dict(self.arguments)["agents"] if self.is_recipe else self.topology.n_agents

    @functools.cached_property
    def is_directed(self) -> bool:
        """Whether links carry messages one way only, from sender to receiver."""
        directed = dict(self.arguments).get("directed", False)
        return bool(directed) or self.graph in graphs.DIRECTED

    @property
    def edges(self) -> IntArray:
        """The links (E, 2), each once, sorted, read-only: i < j, or (sender, receiver)."""
        return self.topology.edges

    @property
    def n_links(self) -> int:
        """E, the number of links, each counted once."""
        if isinstance(self.topology, graphs.LargeCompleteGraph):
            return self.n_agents * (self.n_agents - 1) // 2
        return len(self.edges)

    @functools.cached_property
    def senders_receivers(self) -> tuple[IntArray, IntArray]:
        """Senders (C,) and receivers (C,) of all directed links, by ascending receiver; read-only.

        An undirected link is two directed ones. The links of a matrix W are those with W_ij > 0,
        from agent j to agent i.
        """
        if isinstance(self.rule, Matrix):
            entries = self.rule.to_csr().tocoo()
            is_link = (entries.row != entries.col) & (entries.data > 0)
            ends = np.stack([entries.col[is_link], entries.row[is_link]], axis=1)
        elif self.is_directed:
            ends = self.edges
        else:
            ends = np.concatenate([self.edges, self.edges[:, ::-1]])
        senders, receivers = ends[np.lexsort((ends[:, 0], ends[:, 1]))].astype(np.int64).T.copy()
        senders.setflags(write=False)
        receivers.setflags(write=False)
        return senders, receivers

    @functools.cached_property
    def degrees(self) -> IntArray:
        """The number of neighbours of each agent, (N,); if directed, of its receivers."""
        return rules.count_degrees(self.topology)

    @property
    def max_degree(self) -> int:
        """The largest number of neighbours."""
        return int(self.degrees.max())

    def neighbours(self, agent: int) -> IntArray:
        """Return the agents linked to this one, sorted; unlike the paper's N(i), without itself.

        In a directed network these are the receivers of the agent.
        """
        agent = validation.validate_integer("agent", agent, at_least=0, at_most=self.n_agents - 1)
        if isinstance(self.topology, graphs.LargeCompleteGraph):
            return np.delete(np.arange(self.n_agents), agent)
        starts, neighbours = self._adjacency
        return neighbours[starts[agent] : starts[agent + 1]]

    @functools.cached_property
    def link_weights(self) -> FloatArray:
        """The weight of each link, (E,), which determines symmetric weights completely."""
        self._refuse_directed()
        if not isinstance(self.rule, Matrix):
            return WEIGHT_RULES[self.rule](self.topology)
        matrix = self.rule.to_csr()
        if not (self.is_stochastic and rules.is_symmetric(matrix)):
            raise ValueError(
                "matrix must be symmetric and doubly stochastic for links to fail (a link fails "
                f"for both its ends), got {self.rule!r}"
            )
        i, j = self.edges.T
        return np.asarray(matrix[i, j], dtype=np.float64).ravel()

    @functools.cached_property
    def weights(self) -> Any:
        """W (N, N), read-only: an ndarray when small or dense, else a CSR array."""
        self._refuse_directed()
        if isinstance(self.rule, Matrix):
            return rules.freeze_matrix(self.rule.to_csr())
        return rules.freeze_matrix(rules.assemble_matrix(self.topology, self.link_weights))

    @functools.cached_property
    def shares(self) -> Any:
        """P (N, N) of `posse.PushSum`, read-only: P_ij is the share of agent j that i receives.

        Every agent splits what it has equally among itself and the agents it sends to, so that
        columns sum to 1. Only the links count, not their weights; dense or sparse like `weights`.
        """
        if isinstance(self.rule, Matrix):
            return rules.freeze_matrix(equal_shares.split_support(self.rule.to_csr()))
        return rules.freeze_matrix(equal_shares.split_equally(self.topology))

    @functools.cached_property
    def expected_weights(self) -> Any:
        """E[W(t)] (N, N), dense or sparse like `weights`."""
        self._refuse_directed()
        if self.dynamics == STATIC:
            return self.weights
        return rules.freeze_matrix(rules.assemble_matrix(self.topology, self.expected_links))

    @property
    def expected_links(self) -> FloatArray:
        """The weight of each link, (E,), in E[W(t)]."""
        self._refuse_recipe()
        self._refuse_directed()
        if not hasattr(self.dynamics, "expected_links"):
            raise ValueError(
                f"the expected weights of {self} are not known, so neither are its second "
                f"eigenvalue and spectral gap: give {type(self.dynamics).__name__} a method "
                "expected_links(network) that returns the weight of each link (E,) in E[W(t)]"
            )
        return self.dynamics.expected_links(self)

    @functools.cached_property
    def spectral_gap(self) -> float:
        """1 - lambda_2 of `expected_weights` (1 for one agent): the larger, the faster it mixes."""
        self._refuse_recipe()
        self._refuse_directed()
        return spectrum.spectral_gap(self)

    @property
    def second_eigenvalue(self) -> float:
        """lambda_2: the second largest absolute eigenvalue of `expected_weights`."""
        return 1 - self.spectral_gap

    @property
    def is_uniform(self) -> bool:
        """Whether W is 1/N everywhere by construction, so that a merge is a mean."""
        return self.is_complete and self.rule in ("max-degree", "metropolis")

    @property
    def is_complete(self) -> bool:
        """Whether every agent sends to every other; False for a matrix, which may omit some."""
        complete = 2 * self.n_links == self.n_agents * (self.n_agents - 1)
        return complete and not self.is_directed and not isinstance(self.rule, Matrix)

    @functools.cached_property
    def is_stochastic(self) -> bool:
        """Whether W is doubly stochastic, as all but unchecked matrices are."""
        if not isinstance(self.rule, Matrix) or self.rule.check:
            return True
        sums = [self.rule.to_csr().sum(axis=axis) for axis in (0, 1)]
        return bool(abs(np.array(sums) - 1).max() <= rules.TOLERANCE)

    def __repr__(self) -> str:
        words = [f"{name}={value!r}" for name, value in self.arguments]
        if self.rule != DEFAULT_RULE:
            words.append(f"weights={self.rule!r}")
        if self.dynamics != STATIC:
            words.append(f"dynamics={self.dynamics!r}")
        return f"{self.graph}({', '.join(words)})"

    def _repr_html_(self) -> str:
        return describe.render_html(self)

    @functools.cached_property
    def _adjacency(self) -> tuple[IntArray, IntArray]:
        """The start of each agent's neighbours (N + 1,), and all neighbours, as in CSR."""
        ends = self.edges
        if not self.is_directed:
            ends = np.concatenate([ends, ends[:, ::-1]])
        neighbours = ends[np.lexsort((ends[:, 1], ends[:, 0])), 1]
        neighbours.setflags(write=False)
        return np.concatenate([[0], np.cumsum(self.degrees)]), neighbours

    def _plain_arguments(self) -> serialization.Arguments:
        """Return the arguments in one plain form that compares, validated by building the graph."""
        build = GRAPHS[self.graph]
        arguments = serialization.bind_arguments(build, dict(self.arguments), self.graph)
        fresh = arguments.get("seed") == graphs.RUN
        resolved = serialization.resolve_arguments(arguments)
        graph = build(**(resolved | {"seed": 0} if fresh else resolved))
        # The graph is built already: store it under the name of the cached property.
        if not fresh:
            self.__dict__["topology"] = graph
        plain = {
            name: _CONVERTERS.get(p.annotation, lambda value: value)(arguments[name])
            for name, p in inspect.signature(build).parameters.items()
        }
        if "edges" in plain:
            plain |= {"edges": validation.FrozenArray(graph.edges), "agents": graph.n_agents}
        # Undirected graphs are described without the word, as those of a matrix are.
        if plain.get("directed") is False:
            del plain["directed"]
        return tuple(plain.items())

    def _with_dynamics(self, dynamics: Dynamics) -> Network:
        if self.dynamics != STATIC:
            raise ValueError(
                f"dynamics do not chain: {self} cannot have {dynamics!r} as well, "
                "so start from the static network"
            )
        return dataclasses.replace(self, dynamics=dynamics)

    def _refuse_disconnected(self) -> None:
        parts = graphs.count_components(self.topology)
        if parts > 1:
            names = [name for name, _ in self.arguments]
            # The second argument of every random graph makes it denser.
            advice = f"raise {names[1]} or try another seed" if "seed" in names else "add links"
            needed = "strongly connected (every agent must reach every other)"
            raise _Disconnected(
                f"{self} must be {needed if self.is_directed else 'connected'}, but has {parts} "
                f"components: {advice}"
            )

    def _refuse_directed(self) -> None:
        if self.is_directed:
            raise ValueError(
                f"{self.graph} is a directed network, which has no doubly stochastic weights and "
                "no spectral gap: use network.shares, or an undirected network"
            )

    def _refuse_recipe(self) -> None:
        if self.is_recipe:
            raise ValueError(f"{_FRESH}: use network.of_run(seed, run)")

    def _refuse_foreign_links(self, support: Graph) -> None:
        if support.n_agents != self.n_agents:
            raise ValueError(
                f"matrix must be of shape ({self.n_agents}, {self.n_agents}) for "
                f"{self.graph}, got {(support.n_agents, support.n_agents)}"
            )
        key = np.array([self.n_agents, 1])
        foreign = support.edges[~np.isin(support.edges @ key, self.edges @ key)]
        if len(foreign):
            raise ValueError(
                f"matrix must be zero where {self.graph} has no link, but agents "
                f"{foreign[0, 0]} and {foreign[0, 1]} are not linked"
            )
