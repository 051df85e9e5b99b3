"""Pictures of networks: agents as points, coloured by what the network costs each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from posse import validation
from posse.networks.weights import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from posse.networks.network import Network

MOST_AGENTS = 2000  # more points and links are a blot, and their layout takes minutes
MOST_SPRINGS = 150  # agents up to which the slower and better layout is taken
COLOURS = "viridis_r"  # dark is dear; safe for colour-blind readers


def draw_network(
    network: Network, values: ArrayLike | str | None, axes: Axes | None, label: str | None
) -> Axes:
    """Draw a network on axes, new ones if None; `values` as in `Network.plot`."""
    if network.n_agents > MOST_AGENTS:
        raise ValueError(
            f"network has {network.n_agents:,} agents: a picture shows {MOST_AGENTS:,} at most"
        )
    numbers = _resolve_values(network, values)
    if axes is None:
        axes = _new_axes()
    places = place_agents(network)
    _draw_links(axes, network, places)
    # points of a line would overlap sooner than those of a plane
    room = 4e4 / network.n_agents**2 if network.graph == "path" else 9000 / network.n_agents
    size = float(np.clip(room, 8, 260))
    style: dict[str, Any] = {"s": size, "edgecolors": "black", "linewidths": 0.5, "zorder": 2}
    if numbers is None:
        axes.scatter(places[:, 0], places[:, 1], color="#0072B2", **style)
    else:
        top = float(numbers.max()) if numbers.max() > 0 else 1.0
        low = min(0.0, float(numbers.min()))
        style |= {"cmap": COLOURS, "vmin": low, "vmax": top}
        points = axes.scatter(places[:, 0], places[:, 1], c=numbers, **style)
        if label is None:
            label = "cost S2, about in pulls" if isinstance(values, str) else "value"
        axes.figure.colorbar(points, ax=axes, label=label, shrink=0.8)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.08)
    axes.set_axis_off()
    title = repr(network)
    axes.set_title(title if len(title) <= 70 else f"{title[:67]}...", fontsize=10)
    return axes


def place_agents(network: Network) -> FloatArray:
    """Place the agents in the plane: (N, 2), the same for the same network.

    Rings lie on a circle, grids on a lattice, and a star's hub in its middle; other graphs are laid
    out by springs, so that linked agents are near.
    """
    n_agents = network.n_agents
    agents = np.arange(n_agents)
    arguments = dict(network.arguments)
    if n_agents == 1:
        return np.zeros((1, 2))
    if network.graph in ("cycle", "complete", "regular_ring"):
        return _place_on_circle(n_agents)
    if network.graph == "star":
        return np.concatenate([np.zeros((1, 2)), _place_on_circle(n_agents - 1)])
    if network.graph == "path":
        return np.stack([agents, np.zeros(n_agents)], axis=1).astype(float)
    if network.graph in ("grid", "torus"):
        row, column = np.divmod(agents, arguments["columns"])
        return np.stack([column, -row], axis=1).astype(float)
    import networkx as nx

    graph: nx.Graph[int] = nx.Graph(network.edges.tolist())
    layout = (
        nx.kamada_kawai_layout(graph)
        if n_agents <= MOST_SPRINGS
        else nx.spring_layout(graph, seed=0)
    )
    return np.array([layout[agent] for agent in range(n_agents)])


def _place_on_circle(count: int) -> FloatArray:
    """Return points on a circle from the top on, clockwise: (count, 2)."""
    angle = 2 * np.pi * np.arange(count) / count
    return np.stack([np.sin(angle), np.cos(angle)], axis=1)


def _resolve_values(network: Network, values: ArrayLike | str | None) -> FloatArray | None:
    """Return one number per agent, (N,), or None for no colours."""
    if values is None:
        return None
    if not isinstance(values, str):
        numbers = validation.validate_array("values", values)
        if numbers.shape != (network.n_agents,):
            raise ValueError(
                f"values must be one number for each of the {network.n_agents} agents, "
                f"got shape {numbers.shape}"
            )
        return numbers
    validation.validate_choice("values", values, ["cost"])
    from posse.theory import network_cost

    return network_cost(network).per_agent


def _draw_links(axes: Axes, network: Network, places: FloatArray) -> None:
    """Draw links as lines, the wider the larger their weight."""
    from matplotlib.collections import LineCollection

    try:
        weights = network.link_weights
    except ValueError:  # of a matrix that is not symmetric
        weights = np.ones(len(network.edges))
    widths = 0.4 + 1.6 * weights / max(weights.max(initial=0.0), 1e-300)
    colour = "0.6" if len(weights) < 20 * network.n_agents else "0.85"
    axes.add_collection(
        LineCollection(list(places[network.edges]), linewidths=widths, colors=colour, zorder=1)
    )


def _new_axes() -> Axes:
    import matplotlib.pyplot as plt

    return plt.figure(figsize=(6, 5), dpi=150, layout="constrained").add_subplot()
