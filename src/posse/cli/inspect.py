"""`posse inspect`: what a network is like, and what the theory says about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posse.cli.common import Mistake, mistakes

if TYPE_CHECKING:
    from posse.networks import Network

EXAMPLES = """Examples:

posse inspect cycle --agents 100

posse inspect grid --rows 10 --columns 10 --weights metropolis --failing 0.3

posse inspect regular_ring --agents 64 --k 3 --means 0.5,0.1,0.1"""

# The registry itself would import NumPy, for which --help need not wait; a test compares the two.
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
)

# for an option that an argument of a builder has under another name
OPTIONS = {"seed": "graph-seed"}


def inspect(
    graph: Annotated[str, typer.Argument(metavar="GRAPH", help=f"One of {', '.join(NAMES)}.")],
    agents: Annotated[int | None, typer.Option(help="Number of agents.")] = None,
    rows: Annotated[int | None, typer.Option(help="Rows of a grid or torus.")] = None,
    columns: Annotated[int | None, typer.Option(help="Columns of a grid or torus.")] = None,
    k: Annotated[int | None, typer.Option(help="Neighbours in a ring.")] = None,
    p: Annotated[float | None, typer.Option(help="Probability of a random link.")] = None,
    m: Annotated[int | None, typer.Option(help="Links of an agent that joins.")] = None,
    degree: Annotated[int | None, typer.Option(help="Links of every agent.")] = None,
    radius: Annotated[float | None, typer.Option(help="Reach in a geometric graph.")] = None,
    dimension: Annotated[int | None, typer.Option(help="Dimension of a hypercube.")] = None,
    graph_seed: Annotated[int | None, typer.Option(help="Seed of a random graph.")] = None,
    weights: Annotated[str, typer.Option(help="Weight rule.")] = "max-degree",
    gossip: Annotated[bool, typer.Option("--gossip", help="One random link a round.")] = False,
    failing: Annotated[float | None, typer.Option(help="Probability that a link fails.")] = None,
    means: Annotated[
        str | None, typer.Option(help="Bernoulli means for the theory, such as 0.5,0.1,0.1.")
    ] = None,
    horizon: Annotated[int, typer.Option(help="Rounds, with --means.")] = 1000,
    epsilon: Annotated[float, typer.Option(help="Theorem 1's epsilon, with --means.")] = 0.5,
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
    with mistakes():
        network = build(graph, arguments).weighted(weights)
        if gossip:
            network = network.gossip()
        if failing is not None:
            network = network.failing(failing)
        theory = _theory(network, _numbers(means), horizon, epsilon) if means is not None else ()
    _print(network, theory)


def build(name: str, arguments: Mapping[str, Any]) -> Network:
    """Build a network of a registered graph from the options given; those left out are None."""
    from inspect import signature

    from posse import networks, validation
    from posse.networks import GRAPHS

    name = name.replace("-", "_")
    takes = {graph: signature(builder).parameters for graph, builder in GRAPHS.items()}
    # the others take arrays, which no option holds
    named = [graph for graph, parameters in takes.items() if set(parameters) <= set(arguments)]
    parameters = takes[validation.validate_choice("graph", name, named)]
    given = {key: value for key, value in arguments.items() if value is not None}
    missing = [k for k, p in parameters.items() if p.default is p.empty and k not in given]
    if missing:
        raise Mistake(f"{name} needs {_listed(missing)}")
    if extra := [key for key in given if key not in parameters]:
        raise Mistake(f"{name} has no use for {_listed(extra)}: it takes {_listed(parameters)}")
    return networks.Network(name, tuple(given.items()))


def _listed(keys: Any) -> str:
    *most, last = [f"--{OPTIONS.get(key, key)}" for key in keys]
    return f"{', '.join(most)} and {last}" if most else last


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise Mistake(f"--means must be numbers with commas between them, got {text!r}") from None


def _theory(network: Network, means: list[float], horizon: int, epsilon: float) -> tuple[str, str]:
    """Put in words the Lai-Robbins constant, and Theorem 1 with its warning."""
    from posse.theory import lai_robbins_constant, theorem_1

    terms = theorem_1(means, network.n_agents, network.spectral_gap, horizon, epsilon)
    constant = lai_robbins_constant(means, network.n_agents)
    least = f"{constant:.4g} per agent, the least regret / log T for large T"
    return least, f"{terms.describe()}."


def _print(network: Network, theory: tuple[str, str] | tuple[()]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from posse.networks import describe as known

    facts = known.describe_size(network) | known.describe_mixing(network)
    if theory:
        facts |= {"Lai-Robbins constant": theory[0]}
    table = Table.grid(padding=(0, 2))
    for name, fact in facts.items():
        table.add_row(name, Text(fact))
    console = Console()
    console.print(table)
    if theory:
        console.print(Text(f"\n{theory[1]}"))
