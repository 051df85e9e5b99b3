"""`posse inspect`: print the properties of a network and what the theory says about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posse.cli.common import UserError, catch_user_errors

if TYPE_CHECKING:
    from rich.table import Table

    from posse.bandits import Bandit
    from posse.networks import Network

EXAMPLES = """Examples:

posse inspect cycle --agents 100

posse inspect grid --rows 10 --columns 10 --weights metropolis --failing 0.3

posse inspect regular_ring --agents 64 --k 3 --means 0.5,0.1,0.1

posse inspect star --agents 36 --means 0.5,0.1,0.1 --sigma 1 --horizon 500 --simulate 200"""

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
        str | None, typer.Option(help="Means of arms for the theory, for example 0.5,0.1,0.1.")
    ] = None,
    sigma: Annotated[
        float | None,
        typer.Option(help="Gaussian rewards of this standard deviation (default: Bernoulli)."),
    ] = None,
    horizon: Annotated[int, typer.Option(help="Horizon in rounds; used only with --means.")] = 1000,
    epsilon: Annotated[
        float, typer.Option(help="Epsilon of Theorem 1; used only with --means.")
    ] = 0.5,
    simulate: Annotated[
        int | None,
        typer.Option(metavar="RUNS", help="Simulate so many runs beside the bounds."),
    ] = None,
) -> None:
    """Show a network's size, spectral gap and cost and, given means, bounds on the regret."""
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
        bandit = _build_bandit(means, sigma, simulate)
        theory = None if bandit is None else Theory(bandit, network, horizon, epsilon, simulate)
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


def _build_bandit(means: str | None, sigma: float | None, runs: int | None) -> Bandit | None:
    """Build the bandit of the options; None without means."""
    from posse.bandits import Bandit

    if means is None:
        if sigma is not None or runs is not None:
            option = "--sigma" if sigma is not None else "--simulate"
            raise UserError(f"{option} needs --means, for example --means 0.5,0.1,0.1")
        return None
    try:
        values = [float(part) for part in means.split(",")]
    except ValueError:
        raise UserError(f"--means must be numbers separated by commas, got {means!r}") from None
    return Bandit.bernoulli(values) if sigma is None else Bandit.gaussian(values, sigma=sigma)


class Theory:
    """What the theory says of a bandit on a network: two sentences and a table."""

    def __init__(
        self, bandit: Bandit, network: Network, horizon: int, epsilon: float, runs: int | None
    ) -> None:
        from posse.theory import bounds, lai_robbins, theorem_1

        constant = lai_robbins(bandit, network.n_agents)
        self.least = f"{constant:.4g} per agent, the least regret / log T for large T"
        self.warning = ""
        if bandit.family.name == "bernoulli":
            gap = network.spectral_gap
            terms = theorem_1(bandit.means, network.n_agents, gap, horizon, epsilon)
            self.warning = f"{terms.describe()}."
        simulated = None if runs is None else _simulate(bandit, network, horizon, runs)
        self.table = bounds(bandit, network, horizon, simulated, epsilon=epsilon)
        self.horizon = horizon


def _simulate(bandit: Bandit, network: Network, horizon: int, runs: int) -> Any:
    """Return the summary of a simulation of dec-TS, with a progress bar."""
    import posse

    dec_ts = posse.Decentralized(posse.ThompsonSampling())
    result = posse.simulate(
        bandit, network, dec_ts, horizon=horizon, runs=runs, seed=0, record=2, progress=True
    )
    return result.summary()


def _print_network(network: Network, theory: Theory | None) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from posse.networks import describe_cost, describe_mixing, describe_size

    facts = describe_size(network)
    if not network.is_directed:
        facts |= describe_mixing(network) | describe_cost(network)
    if theory is not None:
        facts |= {"Lai-Robbins constant": theory.least}
    table = Table.grid(padding=(0, 2))
    for name, fact in facts.items():
        table.add_row(name, Text(fact))
    console = Console()
    console.print(table)
    if theory is not None:
        console.print(_format_bounds(theory))
        if theory.warning:
            console.print(Text(f"\n{theory.warning}"))


def _format_bounds(theory: Theory) -> Table:
    """Format the bounds as a table for the terminal."""
    from rich.table import Table

    table = Table(title=f"regret per agent at round {theory.horizon:,}", title_justify="left")
    for column in ("", "regret", "interval", "kind", "source"):
        table.add_column(column, justify="right" if column in ("regret", "interval") else "left")
    for name, row in theory.table.iterrows():
        interval = "" if row.low != row.low else f"{row.low:.3g} to {row.high:.3g}"
        regret = f"{row.regret:.3g}" if row.regret < 1000 else f"{row.regret:,.0f}"
        table.add_row(str(name), regret, interval, row.kind, row.source)
    return table
