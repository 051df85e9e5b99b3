"""`posse swarm`: a demonstration of many agents on this machine, with visitors and kills."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posse.cli.common import (
    catch_user_errors,
    print_line,
    require_live_extra,
    treat_sigterm_as_interrupt,
)

if TYPE_CHECKING:
    from posse.live.demo import AgentSite, Count, Swarm
    from posse.live.demo.page import Demonstration


def print_counts(running: Swarm, counts: list[Count], near: int) -> bool:
    """Print whether every acknowledged reward was counted once; return whether all is well."""
    from posse.live.demo import count_pulls, largest_gap

    in_stores = sum(count_pulls(c.own) for c in counts)
    in_network = [count_pulls(c.network) for c in counts]
    exact = all(count.is_exact for count in counts)
    typer.echo(
        f"{running.acknowledged} acknowledged {'=' if exact else 'IS NOT'} {in_stores} counted"
    )
    for count in counts:
        if not count.is_exact:
            typer.echo(f"{count.name}: {_describe_difference(count)}")
    for mistake in running.failures:
        typer.echo(mistake)
    together = largest_gap(counts) <= near
    typer.echo(
        "every agent holds the evidence of all agents"
        if together
        else f"the agents do not agree: they hold {min(in_network)} to {max(in_network)}"
    )
    return exact and together and not running.failures


def _describe_difference(count: Count) -> str:
    if count.lost > 0:
        return f"{count.lost} acknowledged rewards are lost"
    if count.lost < 0:
        return f"{-count.lost} rewards were never acknowledged, or are counted twice"
    return "the number of rewards is right, but they are not the acknowledged ones"


# The option --page: the demonstration in a browser.

CHECK_SECONDS = 0.2  # seconds between two checks of whether it is over


def run_page(show: Demonstration, folder: Path, port: int, seconds: float | None) -> bool:
    """Serve the page until Ctrl-C or for some seconds, then count; return whether all is well."""
    from posse.live.demo.page.app import serve_page

    with _log_to(folder / "swarm.log"), serve_page(show, port) as server:
        try:
            print_line(f"open {server.url}/ in a browser (Ctrl-C ends the swarm and counts)")
            show.start()
            _wait_for_end(show, seconds)
            print_line("waiting for the last rewards and messages")
            counts = show.finish_and_count()
        finally:
            show.stop()
    # The page uses the exchange `origins`, where agents agree exactly once all messages arrived.
    well = print_counts(show.swarm, counts, near=0)
    standings = show.audience.collect_totals().values()
    regret, alone = (
        sum(values) / len(standings)
        for values in zip(*((site.regret, site.isolated_regret) for site in standings), strict=True)
    )
    typer.echo(f"regret per agent {regret:.1f}; alone with the same visitors they lose {alone:.1f}")
    return well


@contextmanager
def _log_to(file: Path) -> Iterator[None]:
    """Write the logs of agents in this process to a file, not between the lines of output."""
    from posse.live import logs

    with file.open("w") as stream:
        handler = logs.set_up_logging("swarm", stream=stream)
        try:
            yield
        finally:
            logging.getLogger().removeHandler(handler)


def _wait_for_end(show: Demonstration, seconds: float | None) -> None:
    end = None if seconds is None else time.monotonic() + seconds
    try:
        while end is None or time.monotonic() < end:
            if show.failure is not None:
                raise RuntimeError("the swarm's loop ended") from show.failure
            time.sleep(CHECK_SECONDS)
    except KeyboardInterrupt:
        print_line("")  # a new line after the ^C of the terminal


# The command.

EXAMPLES = """Examples:

posse swarm

posse swarm --agents 8 --graph cycle --seconds 30 --kill 5

posse swarm --exchange flows --agents 4 --graph complete

posse swarm --in-memory --agents 16 --loss 0.5 --kill 10

posse swarm --page

posse swarm --page --in-memory --port 8800"""

SHOWN_ARMS = 5
WIDE = 100  # columns of the full table
LOSS = 0.2
MEMORY = "/dev/shm"  # a file system in memory, if there is one
LATE_KILLS = 60.0  # extra seconds for agents that restart slowly


def swarm(
    agents: Annotated[int, typer.Option(help="Number of agents.")] = 8,
    graph: Annotated[
        str | None,
        typer.Option(help="cycle (with --page: with chords), complete, path or star."),
    ] = None,
    arms: Annotated[
        int | None, typer.Option(help="Number of arms (default: 5, with --page 4).")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(help="Seconds with visitors (default: 30, with --page until Ctrl-C)."),
    ] = None,
    exchange: Annotated[str, typer.Option(help="origins or flows.")] = "origins",
    kill: Annotated[int, typer.Option(help="Number of kills and restarts meanwhile.")] = 0,
    in_memory: Annotated[
        bool,
        typer.Option(
            "--in-memory", help="All agents in this process, on a simulated network with faults."
        ),
    ] = False,
    loss: Annotated[
        float | None,
        typer.Option(
            help=f"Share of lost messages (default: {LOSS} with --in-memory, 0 with --page)."
        ),
    ] = None,
    page: Annotated[
        bool,
        typer.Option("--page", help="Show the agents in a browser, with buttons to break things."),
    ] = False,
    port: Annotated[int, typer.Option(help="Port of the page; 0 for a free one.")] = 0,
    folder: Annotated[
        Path | None, typer.Option(help="New folder for stores and logs (default: a temporary one).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of visitors and kills.")] = 0,
) -> None:
    """Run real agents with mutual TLS on loopback, and check that every reward is counted once.

    With --page you kill agents, cut links and add arms in a browser; Ctrl-C then repairs everything
    and counts. The exit code is 1 if the acknowledged rewards are not the counted ones.
    """
    with catch_user_errors(), require_live_extra():
        from posse import networks, validation
        from posse.live import demo as swarms

        validation.validate_choice("--exchange", exchange, ("origins", "flows"))
        if page and (kill or exchange != "origins"):
            raise ValueError("--page needs --exchange origins, and has a button in place of --kill")
        if port and not page:
            raise ValueError("--port needs --page")
        if loss is not None and not (in_memory or page):
            raise ValueError("--loss needs --in-memory or --page: processes have a real network")
        # The page draws every agent and every arm, so it takes fewer of both.
        most_agents, most_arms, usual = (12, 6, 4) if page else (64, 20, 5)
        arms = usual if arms is None else arms
        validation.validate_integer("--agents", agents, at_least=2, at_most=most_agents)
        validation.validate_integer("--arms", arms, at_least=2, at_most=most_arms)
        validation.validate_integer("--kill", kill, at_least=0)
        validation.validate_integer("--port", port, at_least=0, at_most=65535)
        if seconds is not None:
            validation.validate_number("--seconds", seconds, above=0)
        validation.validate_choice(
            "--graph", graph or "cycle", ("cycle", "complete", "path", "star")
        )
        default = LOSS if in_memory and not page else 0.0
        lost = validation.validate_number(
            "--loss", default if loss is None else loss, at_least=0, at_most=0.95
        )
        edges = getattr(networks, graph or "cycle")(agents).edges
        links = [(int(a), int(b)) for a, b in edges]
        with (
            treat_sigterm_as_interrupt(),
            _open_folder(folder, in_memory=page and in_memory) as place,
        ):
            if page:
                from posse.live.demo.page import Demonstration, default_scenario

                scenario = default_scenario(agents, arms, None if graph is None else links)
                show = Demonstration(place, scenario, in_memory=in_memory, loss=lost, seed=seed)
                well = run_page(show, place, port, seconds)
            else:
                # From 0.7 down to 0.3 in equal steps: agents find the best arm within a short
                # demonstration, but not at once.
                means = {f"option-{k}": round(0.7 - 0.4 * k / (arms - 1), 3) for k in range(arms)}
                settings = swarms.agent_settings(agents, list(means), exchange)
                sites = (
                    swarms.create_memory_sites(place, links, settings, lost, seed)
                    if in_memory
                    else swarms.create_process_sites(place, links, settings)
                )
                running = swarms.Swarm(sites, means, seed=seed)
                # Flows approach the sum by averaging, hence a tolerance; origins agree exactly.
                near = swarms.HALF_A_PULL if exchange == "flows" else 0
                counts = _run_swarm(running, 30.0 if seconds is None else seconds, kill, near)
                well = print_counts(running, counts, near)
                _print_regret(running)
            if not well:
                raise typer.Exit(1)


@contextmanager
def _open_folder(folder: Path | None, in_memory: bool = False) -> Iterator[Path]:
    """Create the user's folder, or a temporary one that is removed unless the swarm fails.

    in_memory: prefer a file system in memory; a disk may be too slow for accelerated time.
    """
    keep = folder is not None
    if folder is None:
        memory = MEMORY if in_memory and os.access(MEMORY, os.W_OK) else None
        place = Path(tempfile.mkdtemp(prefix="posse-swarm-", dir=memory))
    elif folder.exists():
        raise ValueError(f"{folder} exists already: choose another --folder")
    else:
        folder.mkdir(parents=True)
        place = folder
    try:
        yield place
    # A failed audit needs its evidence: the stores and logs are not removed.
    except (typer.Exit, ValueError):
        keep = True
        typer.echo(f"stores and logs are in {place}")
        raise
    finally:
        if not keep:
            shutil.rmtree(place, ignore_errors=True)


def _run_swarm(running: Swarm, seconds: float, kills: int, near: int) -> list[Count]:
    """Start the agents, send visitors and count; stop all agents whatever happens."""
    from rich.console import Console

    console = Console(stderr=True)
    try:
        with console.status(f"starting {len(running.sites)} agents"):
            running.start()
        _show_visits(running, seconds, kills, console)
        with console.status("waiting for the last rewards and messages"):
            running.end_visits()
            return running.wait_for_agreement(near)
    finally:
        with console.status("stopping the agents"):
            running.stop()


def _show_visits(running: Swarm, seconds: float, kills: int, console: Any) -> None:
    """Show a table while visitors come for some seconds and agents are killed at even intervals."""
    from rich.live import Live

    running.send_visitors()
    start = time.monotonic()
    # At even intervals, none at the start or the end: an agent needs time to restart and catch up.
    due = [start + seconds * (k + 1) / (kills + 1) for k in range(kills)]
    with Live(
        _build_table(running, console.width), console=console, refresh_per_second=4
    ) as screen:
        while (now := time.monotonic()) < start + seconds + (LATE_KILLS if due else 0.0):
            if due and now >= due[0] and running.kill_random_agent() is not None:
                due.pop(0)
            screen.update(_build_table(running, console.width))
            time.sleep(0.1)
    if not console.is_terminal:
        console.print()


def _build_table(running: Swarm, width: int) -> Any:
    """Build a table of all agents; on a narrow screen, of the most important columns."""
    from rich.table import Table

    narrow = width < WIDE
    n_arms = min(len(running.means), 2 if narrow else SHOWN_ARMS)
    arms = sorted(running.means, key=lambda arm: -running.means[arm])[:n_arms]
    order = "best first" if len(arms) == len(running.means) else f"{n_arms} best ones"
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("\nagent", no_wrap=True)
    headings = [
        f"% of visits\nby arm, {order}",
        "\nregret",
        "visits\nhere",
        "visits\nknown",
        "neigh-\nbours",
        "re-\nstarts",
        *([] if narrow else ["messages\nsent", "\nreceived", "\nrefused"]),
    ]
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for site in running.sites:
        cells = _build_row(site, arms)[: 1 + len(headings)]
        table.add_row(*cells, style=None if site.answers else "dim")
    return table


def _build_row(site: AgentSite, arms: list[str]) -> list[str]:
    visits = max(1, site.visits.total())
    sample = site.sample
    return [
        site.name,
        "".join(f"{100 * site.visits[arm] / visits:4.0f}" for arm in arms),
        f"{site.regret:.1f}",
        f"{sample.here:,.0f}",
        f"{sample.in_network:,.0f}",
        f"{sample.connected}/{sample.neighbours}" if site.answers else "down",
        str(site.restarts),
        f"{sample.sent:,}",
        f"{sample.received:,}",
        f"{sample.refused:,}",
    ]


def _print_regret(running: Swarm) -> None:
    """Print the mean regret of an agent beside that of isolated agents."""
    import posse

    rounds = max(1, running.acknowledged // len(running.sites))
    # The same number of rounds for isolated agents; 20 runs suffice for one line of text.
    alone = posse.simulate(
        posse.Bandit.bernoulli(list(running.means.values())),
        posse.networks.complete(len(running.sites)),
        posse.Isolated(posse.ThompsonSampling()),
        horizon=rounds, runs=20, record=1, engine="reference",
    ).summary()  # fmt: skip
    lost = sum(site.regret for site in running.sites) / len(running.sites)
    typer.echo(
        f"regret per agent {lost:.1f} over {rounds} visits; isolated agents lose {alone.mean:.1f}"
    )
