"""`posse swarm`: real agents on this machine, visitors, kills, and a count at the end."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posse.cli.errors import live, mistakes

if TYPE_CHECKING:
    from posse.live.swarm import Swarm

EXAMPLES = """Examples:

posse swarm

posse swarm --agents 8 --graph cycle --seconds 30 --kill 5

posse swarm --exchange flows --agents 4 --graph complete"""


def swarm(
    agents: Annotated[int, typer.Option(help="Agent processes.")] = 8,
    graph: Annotated[str, typer.Option(help="cycle, complete, path or star.")] = "cycle",
    arms: Annotated[int, typer.Option(help="Options to choose from.")] = 5,
    seconds: Annotated[float, typer.Option(help="How long visitors come.")] = 30.0,
    exchange: Annotated[str, typer.Option(help="origins or flows.")] = "origins",
    kill: Annotated[int, typer.Option(help="Agents to kill and restart meanwhile.")] = 0,
    seed: Annotated[int, typer.Option(help="Of visitors and kills.")] = 0,
) -> None:
    """Run real agents with mTLS on loopback, and check that every reward is counted once.

    Exit code 1 if what was acknowledged is not what was counted.
    """
    with mistakes(), live():
        from posse import checks, networks
        from posse.live.swarm import Swarm

        checks.whole("--agents", agents, at_least=2, at_most=64)
        checks.whole("--arms", arms, at_least=2, at_most=20)
        checks.choice("--graph", graph, ("cycle", "complete", "path", "star"))
        checks.choice("--exchange", exchange, ("origins", "flows"))
        links = [(int(a), int(b)) for a, b in getattr(networks, graph)(agents).edges]
        means = {f"option-{k}": round(0.7 - 0.4 * k / (arms - 1), 3) for k in range(arms)}
        with tempfile.TemporaryDirectory(prefix="posse-swarm-") as folder:
            made = Swarm(Path(folder), links, agents, means, exchange=exchange, seed=seed)
            try:
                made.start()
                _visit(made, seconds, kill)
                made.end_visits()
                own, held = made.settle()
            finally:
                made.stop()
    _summarise(made, own, held, means)
    if own != made.acknowledged or any(abs(each - own) >= 0.5 for each in held):
        raise typer.Exit(1)


def _visit(made: Swarm, seconds: float, kills: int) -> None:
    """Visitors for some seconds, agents killed at even intervals, and a table of it all."""
    from rich.console import Console
    from rich.live import Live

    made.visit()
    start = time.monotonic()
    due = [start + seconds * (k + 1) / (kills + 1) for k in range(kills)]
    with Live(_table(made), console=Console(stderr=True), refresh_per_second=4) as shown:
        while time.monotonic() < start + seconds:
            if due and time.monotonic() >= due[0]:
                due.pop(0)
                made.kill_one()
            shown.update(_table(made))
            time.sleep(0.1)


def _table(made: Swarm) -> Any:
    from rich.table import Table

    table = Table(title="agents", title_justify="left")
    for column in ("agent", "rewards", "regret", "best arm", "restarts"):
        table.add_column(column, justify="right")
    best = max(made.means, key=lambda arm: made.means[arm])
    for site in made.sites:
        share = site.pulls.get(best, 0) / max(1, sum(site.pulls.values()))
        table.add_row(
            site.name, str(site.acknowledged), f"{site.regret:.1f}", f"{share:.0%}",
            str(site.restarts),
        )  # fmt: skip
    return table


def _summarise(made: Swarm, own: int, held: list[float], means: dict[str, float]) -> None:
    import posse

    rounds = max(1, made.acknowledged // len(made.sites))
    alone = posse.simulate(
        posse.Bandit.bernoulli(list(means.values())),
        posse.networks.complete(len(made.sites)),
        posse.Isolated(posse.ThompsonSampling()),
        horizon=rounds, runs=20, record=1, engine="reference",
    ).summary()  # fmt: skip
    regret = sum(site.regret for site in made.sites) / len(made.sites)
    equal = "=" if own == made.acknowledged else "IS NOT"
    typer.echo(f"{made.acknowledged} acknowledged {equal} {own} counted")
    typer.echo(f"each agent holds {min(held):.1f} to {max(held):.1f} of them")
    typer.echo(
        f"regret per agent {regret:.1f} over {rounds} visits; isolated agents lose {alone.mean:.1f}"
    )
