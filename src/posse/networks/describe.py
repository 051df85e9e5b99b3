"""Descriptions of a network in words and numbers, for `posse inspect` and notebooks."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from posse import notebook_tables
from posse.networks.graphs import IntArray
from posse.networks.spectrum import DENSE_LIMIT, LAPLACIANS
from posse.networks.static import STATIC
from posse.networks.weights import DEFAULT_RULE

VARYING_LIMIT = 400  # agents up to which the cost of a time-varying network is exact

if TYPE_CHECKING:
    from posse.networks.network import Network


def describe_size(network: Network) -> dict[str, str]:
    """Describe the graph, the number of agents and, unless random in every run, the links."""
    facts = {"network": repr(network), "agents": f"{network.n_agents:,}"}
    if network.is_recipe:
        return facts | {"graph": "a fresh one in every run: network.of_run(seed, run)"}
    facts["edges"] = f"{network.n_links:,}"
    if not network.is_directed:
        return facts | {"degree": _describe_spread(network.degrees)}
    in_degrees = np.bincount(network.edges[:, 1], minlength=network.n_agents)
    return facts | {
        "out-degree": _describe_spread(network.degrees),
        "in-degree": _describe_spread(in_degrees),
    }


def _describe_spread(degrees: IntArray) -> str:
    return f"{degrees.min()} to {degrees.max()}, {degrees.mean():.4g} on average"


def describe_mixing(network: Network) -> dict[str, str]:
    """Describe how fast beliefs mix."""
    from posse.theory import mixing_time

    rounds = mixing_time(network.n_agents, network.second_eigenvalue)
    return {
        "second eigenvalue": f"{network.second_eigenvalue:.10g}",
        "spectral gap": f"{network.spectral_gap:.6g}",
        "mixing time": f"{rounds:,} rounds to spread a reward evenly, to within 1%",
    }


def describe_cost(network: Network) -> dict[str, str]:
    """Describe what the network costs dec-TS, beside a static cycle of as many agents.

    Nothing where it would take long: in large networks whose eigenvalues are not known.
    """
    from posse.networks import cycle
    from posse.theory import network_cost

    static = network.dynamics == STATIC
    known = static and network.graph in LAPLACIANS and network.rule in (DEFAULT_RULE, "lazy")
    if network.n_agents > (DENSE_LIMIT if static else VARYING_LIMIT) and not known:
        return {}
    cost = network_cost(network)
    error = f" ± {cost.standard_error:.2g}" if cost.standard_error else ""
    text = f"about {_format_pulls(cost.total)}{error} pulls per agent"
    ring = cycle(network.n_agents)
    if network.n_agents > 2 and network != ring:
        other = _format_pulls(network_cost(ring).total)
        text += f"; a cycle of {network.n_agents:,} would cost {other}"
    return {"cost": text}


def _format_pulls(pulls: float) -> str:
    """Format a cost with two digits, or as a whole number."""
    if pulls < 1e-9:  # rounding of a cost of 0
        return "0"
    return f"{pulls:.2g}" if pulls < 10 else f"{pulls:,.0f}"


def render_html(network: Network) -> str:
    """Render a small table for notebooks, without a spectrum that is slow or unknown."""
    facts = describe_size(network)
    in_closed_form = network.graph in LAPLACIANS and network.rule == DEFAULT_RULE
    if network.n_agents <= DENSE_LIMIT or in_closed_form:
        # Random graphs have no spectrum before a run, directed ones none at all, and user-defined
        # dynamics may have none.
        with suppress(ValueError):
            facts |= describe_mixing(network) | describe_cost(network)
    return notebook_tables.render_table(facts.pop("network"), (), facts.items())
