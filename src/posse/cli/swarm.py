"""How a swarm ended: whether what was acknowledged is what was counted."""

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

from posse.cli.common import live, mistakes, say, sigterm_interrupts

if TYPE_CHECKING:
    from posse.live.demo import Count, Site, Swarm
    from posse.live.demo.page import Show


def say_counts(made: Swarm, counts: list[Count], near: int) -> bool:
    """Say how it ended; whether it ended well."""
    from posse.live.demo import apart, pulls

    counted = sum(pulls(c.own) for c in counts)
    held = [pulls(c.held) for c in counts]
    exact = all(count.exact for count in counts)
    typer.echo(f"{made.acknowledged} acknowledged {'=' if exact else 'IS NOT'} {counted} counted")
    for count in counts:
        if not count.exact:
            typer.echo(f"{count.name}: {_difference(count)}")
    for mistake in made.mistakes:
        typer.echo(mistake)
    together = apart(counts) <= near
    typer.echo(
        "every agent holds the evidence of all of them"
        if together
        else f"the agents do not agree: they hold {min(held)} to {max(held)}"
    )
    return exact and together and not made.mistakes


def _difference(count: Count) -> str:
    if count.lost > 0:
        return f"{count.lost} acknowledged rewards are lost"
    if count.lost < 0:
        return f"{-count.lost} rewards were never acknowledged, or are counted twice"
    return "as many rewards as were acknowledged, but others"


# `posse swarm --page`: the swarm in a browser, until Ctrl-C.

LOOK = 0.2  # seconds between two looks at whether it is over


def run_page(show: Show, folder: Path, port: int, seconds: float | None) -> bool:
    """Serve the page until Ctrl-C, or for some seconds; then count. Whether it ended well."""
    from posse.live.demo.page.app import serve

    with _log_to(folder / "swarm.log"), serve(show, port) as server:
        try:
            say(f"the swarm is shown at {server.url}/ (Ctrl-C ends it and counts)")
            show.start()
            _wait(show, seconds)
            say("settling: the last rewards, and evidence on its way")
            counts = show.settle()
        finally:
            show.stop()
    well = say_counts(show.swarm, counts, near=0)
    standings = show.audience.standings().values()
    regret, alone = (
        sum(values) / len(standings)
        for values in zip(*((each.regret, each.alone) for each in standings), strict=True)
    )
    typer.echo(f"regret per agent {regret:.1f}; alone with the same visitors they lose {alone:.1f}")
    return well


@contextmanager
def _log_to(file: Path) -> Iterator[None]:
    """Let agents in this process say there, and not in between, what they have to say."""
    from posse.live import logs

    with file.open("w") as stream:
        handler = logs.set_up("swarm", stream=stream)
        try:
            yield
        finally:
            logging.getLogger().removeHandler(handler)


def _wait(show: Show, seconds: float | None) -> None:
    end = None if seconds is None else time.monotonic() + seconds
    try:
        while end is None or time.monotonic() < end:
            if show.failure is not None:
                raise RuntimeError("the swarm's loop ended") from show.failure
            time.sleep(LOOK)
    except KeyboardInterrupt:
        say("")  # after the ^C that a terminal shows


# `posse swarm`: many agents on this machine, visitors, kills, and a count at the end.

EXAMPLES = """Examples:

posse swarm

posse swarm --agents 8 --graph cycle --seconds 30 --kill 5

posse swarm --exchange flows --agents 4 --graph complete

posse swarm --in-memory --agents 16 --loss 0.5 --kill 10

posse swarm --page

posse swarm --page --in-memory --port 8800"""

SHOWN_ARMS = 5
WIDE = 100  # columns of the whole table
LOSS = 0.2
MEMORY = "/dev/shm"  # where the system has one
LATE_KILLS = 60.0  # seconds, for agents that take long to come back from the last one


def swarm(
    agents: Annotated[int, typer.Option(help="How many agents.")] = 8,
    graph: Annotated[
        str | None,
        typer.Option(help="cycle (with --page, one with chords), complete, path or star."),
    ] = None,
    arms: Annotated[
        int | None, typer.Option(help="How many options to choose from: 5, with --page 4.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="How long visitors come: 30, with --page until Ctrl-C.")
    ] = None,
    exchange: Annotated[str, typer.Option(help="origins or flows.")] = "origins",
    kill: Annotated[int, typer.Option(help="Agents to kill and restart meanwhile.")] = 0,
    in_memory: Annotated[
        bool, typer.Option("--in-memory", help="All in this process, on a network with faults.")
    ] = False,
    loss: Annotated[
        float | None,
        typer.Option(help=f"Share of messages lost: with --in-memory {LOSS}, with --page 0."),
    ] = None,
    page: Annotated[
        bool, typer.Option("--page", help="Show it in a browser, with buttons to break it.")
    ] = False,
    port: Annotated[int, typer.Option(help="Of the page; 0: one that is free.")] = 0,
    folder: Annotated[
        Path | None, typer.Option(help="A new folder for stores and logs, which is kept.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of visitors and kills.")] = 0,
) -> None:
    """Run real agents with mTLS on loopback, and check that every reward is counted once.

    With --page you kill agents, cut links and add arms in a browser, and see what becomes of it;
    Ctrl-C then mends all and counts. Exit code 1 if what was acknowledged is not what was counted.
    """
    with mistakes(), live():
        from posse import networks, validation
        from posse.live import demo as swarms

        validation.validate_choice("--exchange", exchange, ("origins", "flows"))
        if page and (kill or exchange != "origins"):
            raise ValueError("--page has a button in place of --kill, and needs --exchange origins")
        if port and not page:
            raise ValueError("--port is that of --page, which is not given")
        if loss is not None and not (in_memory or page):
            raise ValueError("--loss needs --in-memory or --page: processes have a real network")
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
        with sigterm_interrupts(), _place(folder, in_memory=page and in_memory) as place:
            if page:
                from posse.live.demo.page import Show, default_story

                told = default_story(agents, arms, None if graph is None else links)
                show = Show(place, told, in_memory=in_memory, loss=lost, seed=seed)
                well = run_page(show, place, port, seconds)
            else:
                means = {f"option-{k}": round(0.7 - 0.4 * k / (arms - 1), 3) for k in range(arms)}
                settings = swarms.agent_settings(agents, list(means), exchange)
                sites = (
                    swarms.in_memory(place, links, settings, lost, seed)
                    if in_memory
                    else swarms.in_processes(place, links, settings)
                )
                made = swarms.Swarm(sites, means, seed=seed)
                near = swarms.HALF_A_PULL if exchange == "flows" else 0
                counts = _run(made, 30.0 if seconds is None else seconds, kill, near)
                well = say_counts(made, counts, near)
                _say_regret(made)
            if not well:
                raise typer.Exit(1)


@contextmanager
def _place(folder: Path | None, in_memory: bool = False) -> Iterator[Path]:
    """The user's folder, made; or one that is removed at the end, unless that is a bad one.

    in_memory: rather not on a disk, which may be too slow for time that goes fast.
    """
    keep = folder is not None
    if folder is None:
        memory = MEMORY if in_memory and os.access(MEMORY, os.W_OK) else None
        place = Path(tempfile.mkdtemp(prefix="posse-swarm-", dir=memory))
    elif folder.exists():
        raise ValueError(f"{folder} is there already: name a new folder")
    else:
        folder.mkdir(parents=True)
        place = folder
    try:
        yield place
    except (typer.Exit, ValueError):
        keep = True
        typer.echo(f"stores and logs are in {place}")
        raise
    finally:
        if not keep:
            shutil.rmtree(place, ignore_errors=True)


def _run(made: Swarm, seconds: float, kills: int, near: int) -> list[Count]:
    """Start, let visitors come, settle and count; whatever happens, everything ends."""
    from rich.console import Console

    console = Console(stderr=True)
    try:
        with console.status(f"starting {len(made.sites)} agents"):
            made.start()
        _visit(made, seconds, kills, console)
        with console.status("settling: the last rewards, and evidence on its way"):
            made.end_visits()
            return made.settle(near)
    finally:
        with console.status("ending the agents"):
            made.stop()


def _visit(made: Swarm, seconds: float, kills: int, console: Any) -> None:
    """Visitors for some seconds, agents killed at even intervals, and a table of it all."""
    from rich.live import Live

    made.visit()
    start = time.monotonic()
    due = [start + seconds * (k + 1) / (kills + 1) for k in range(kills)]
    with Live(_table(made, console.width), console=console, refresh_per_second=4) as shown:
        while (now := time.monotonic()) < start + seconds + (LATE_KILLS if due else 0.0):
            if due and now >= due[0] and made.kill_one() is not None:
                due.pop(0)
            shown.update(_table(made, console.width))
            time.sleep(0.1)
    if not console.is_terminal:
        console.print()


def _table(made: Swarm, width: int) -> Any:
    """All that is known of the agents, or on a narrow screen the most important of it."""
    from rich.table import Table

    narrow = width < WIDE
    n_arms = min(len(made.means), 2 if narrow else SHOWN_ARMS)
    arms = sorted(made.means, key=lambda arm: -made.means[arm])[:n_arms]
    which = "best first" if len(arms) == len(made.means) else f"{n_arms} best ones"
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("\nagent", no_wrap=True)
    headings = [
        f"% of visits\nby arm, {which}",
        "\nregret",
        "pulls\nhere",
        "pulls\nheld",
        "neigh-\nbours",
        "re-\nstarts",
        *([] if narrow else ["messages\nsent", "\nreceived", "\nrefused"]),
    ]
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for site in made.sites:
        cells = _row(site, arms)[: 1 + len(headings)]
        table.add_row(*cells, style=None if site.answers else "dim")
    return table


def _row(site: Site, arms: list[str]) -> list[str]:
    visits = max(1, site.visits.total())
    seen = site.sample
    return [
        site.name,
        "".join(f"{100 * site.visits[arm] / visits:4.0f}" for arm in arms),
        f"{site.regret:.1f}",
        f"{seen.here:,.0f}",
        f"{seen.held:,.0f}",
        f"{seen.connected}/{seen.neighbours}" if site.answers else "down",
        str(site.restarts),
        f"{seen.sent:,}",
        f"{seen.received:,}",
        f"{seen.refused:,}",
    ]


def _say_regret(made: Swarm) -> None:
    """What an agent lost, beside what one loses that is alone."""
    import posse

    rounds = max(1, made.acknowledged // len(made.sites))
    alone = posse.simulate(
        posse.Bandit.bernoulli(list(made.means.values())),
        posse.networks.complete(len(made.sites)),
        posse.Isolated(posse.ThompsonSampling()),
        horizon=rounds, runs=20, record=1, engine="reference",
    ).summary()  # fmt: skip
    lost = sum(site.regret for site in made.sites) / len(made.sites)
    typer.echo(
        f"regret per agent {lost:.1f} over {rounds} visits; isolated agents lose {alone.mean:.1f}"
    )
