"""`posse inspect`: print the properties of a network and what the theory says about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posse.cli.common import UserError, catch_user_errors

if TYPE_CHECKING:
    from posse.networks import Network

EXAMPLES = """Examples:

posse inspect cycle --agents 100

posse inspect grid --rows 10 --columns 10 --weights metropolis --failing 0.3

posse inspect regular_ring --agents 64 --k 3 --means 0.5,0.1,0.1"""

# A copy of the registry's names: importing the registry would import NumPy, and --help should not
# wait for it. A test compares the two.
NAMES = (
    "complete",
    "cycle",
    "path",
    "star",
    "grid",
    "torus",
    "regular_ring",
    "hypercube",
    "erdos_renyi",
    "watts_strogatz",
    "barabasi_albert",
    "random_regular",
    "random_geometric",
    "random_directed",
)

# options whose name differs from the builder's argument
OPTIONS = {"seed": "graph-seed"}


def inspect(
    graph: Annotated[str, typer.Argument(metavar="GRAPH", help=f"One of {', '.join(NAMES)}.")],
    agents: Annotated[int | None, typer.Option(help="Number of agents.")] = None,
    rows: Annotated[int | None, typer.Option(help="Rows of a grid or torus.")] = None,
    columns: Annotated[int | None, typer.Option(help="Columns of a grid or torus.")] = None,
    k: Annotated[int | None, typer.Option(help="Neighbours in a ring.")] = None,
    p: Annotated[float | None, typer.Option(help="Probability of a random link.")] = None,
    m: Annotated[
        int | None, typer.Option(help="Links of every new agent (barabasi_albert).")
    ] = None,
    degree: Annotated[int | None, typer.Option(help="Links of every agent.")] = None,
    radius: Annotated[float | None, typer.Option(help="Reach in a geometric graph.")] = None,
    dimension: Annotated[int | None, typer.Option(help="Dimension of a hypercube.")] = None,
    graph_seed: Annotated[int | None, typer.Option(help="Seed of a random graph.")] = None,
    weights: Annotated[str, typer.Option(help="Weight rule.")] = "max-degree",
    gossip: Annotated[bool, typer.Option("--gossip", help="One random link per round.")] = False,
    failing: Annotated[float | None, typer.Option(help="Probability that a link fails.")] = None,
    means: Annotated[
        str | None, typer.Option(help="Bernoulli means for the theory, for example 0.5,0.1,0.1.")
    ] = None,
    horizon: Annotated[int, typer.Option(help="Horizon in rounds; used only with --means.")] = 1000,
    epsilon: Annotated[
        float, typer.Option(help="Epsilon of Theorem 1; used only with --means.")
    ] = 0.5,
) -> None:
    """Show a network's size, degrees and spectral gap and, given means, the theory's terms."""
    arguments = {
        "agents": agents,
        "rows": rows,
        "columns": columns,
        "k": k,
        "p": p,
        "m": m,
        "degree": degree,
        "radius": radius,
        "dimension": dimension,
        "seed": graph_seed,
    }
    with catch_user_errors():
        network = build_network(graph, arguments).weighted(weights)
        if gossip:
            network = network.gossip()
        if failing is not None:
            network = network.failing(failing)
        theory = (
            _describe_theory(network, _parse_means(means), horizon, epsilon)
            if means is not None
            else ()
        )
    _print_network(network, theory)


def build_network(name: str, arguments: Mapping[str, Any]) -> Network:
    """Build a network of a registered graph from options, of which None are left out."""
    from inspect import signature

    from posse import networks, validation
    from posse.networks import GRAPHS

    name = name.replace("-", "_")
    parameters_by_graph = {
        graph: signature(builder).parameters for graph, builder in GRAPHS.items()
    }
    # the other builders take arrays, which cannot be given as options
    graph_names = [
        graph
        for graph, parameters in parameters_by_graph.items()
        if set(parameters) <= set(arguments)
    ]
    parameters = parameters_by_graph[validation.validate_choice("graph", name, graph_names)]
    settings = {key: value for key, value in arguments.items() if value is not None}
    missing = [k for k, p in parameters.items() if p.default is p.empty and k not in settings]
    if missing:
        raise UserError(f"{name} needs {_join_options(missing)}")
    if extra := [key for key in settings if key not in parameters]:
        raise UserError(
            f"{name} does not take {_join_options(extra)}: it takes {_join_options(parameters)}"
        )
    return networks.Network(name, tuple(settings.items()))


def _join_options(keys: Any) -> str:
    *most, last = [f"--{OPTIONS.get(key, key)}" for key in keys]
    return f"{', '.join(most)} and {last}" if most else last


def _parse_means(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"--means must be numbers separated by commas, got {text!r}") from None


def _describe_theory(
    network: Network, means: list[float], horizon: int, epsilon: float
) -> tuple[str, str]:
    """Describe the Lai-Robbins constant, and Theorem 1 with its warning."""
    from posse.theory import lai_robbins_constant, theorem_1

    terms = theorem_1(means, network.n_agents, network.spectral_gap, horizon, epsilon)
    constant = lai_robbins_constant(means, network.n_agents)
    least = f"{constant:.4g} per agent, the least regret / log T for large T"
    return least, f"{terms.describe()}."


def _print_network(network: Network, theory: tuple[str, str] | tuple[()]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from posse.networks import describe_mixing, describe_size

    facts = describe_size(network)
    if not network.is_directed:
        facts |= describe_mixing(network)
    if theory:
        facts |= {"Lai-Robbins constant": theory[0]}
    table = Table.grid(padding=(0, 2))
    for name, fact in facts.items():
        table.add_row(name, Text(fact))
    console = Console()
    console.print(table)
    if theory:
        console.print(Text(f"\n{theory[1]}"))
