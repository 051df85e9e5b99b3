"""`posse new`: write settings and certificates for agents on one machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from posse.cli.common import UserError, catch_user_errors, require_live_extra

EXAMPLES = """Examples:

posse new berlin paris rome

posse new north south --arms short,long --rate 0.03 --folder trial

posse new berlin paris --experiments checkout,banner

posse new berlin paris --revenue 40 --rate 0.03

posse new shop-1 shop-2 shop-3 shop-4 shop-5 shop-6 shop-7 shop-8 --degree 3"""

# ports of the first agent; the other agents use the next ones
HTTP = 8700
LISTEN = 7447
MOST_AGENTS = 1000  # ports of neighbours must stay below those of applications
FEW_AGENTS = 6  # up to which all are neighbours of each other
DEGREE = 4  # of larger networks: news crosses 200 agents in 5 to 6 steps
# Weight of the prior of --rate, in successes: one, so that the data soon outweigh it; its 95%
# interval still reaches from a fortieth of the rate to 3.7 times the rate.
SUCCESSES = 1.0
# The prior of --revenue weighs one sale, and sales up to so many times the average are accepted: of
# exponential amounts, one in 500 million is larger.
SALE_SHAPE = 2.0
LARGEST_SALE = 20.0


def new(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="The agents' names.")],
    arms: Annotated[
        str, typer.Option(help="Options to choose from, separated by commas.")
    ] = "red,green,blue",
    experiments: Annotated[
        str, typer.Option(help="Names of experiments, separated by commas; one table for each.")
    ] = "",
    rate: Annotated[
        float | None,
        typer.Option(help="Rough share of visits that succeed, for example 0.03: sets the prior."),
    ] = None,
    revenue: Annotated[
        float | None,
        typer.Option(
            help="Rough amount of a sale, for example 40: rewards are amounts, 0 without a sale."
        ),
    ] = None,
    degree: Annotated[
        int | None,
        typer.Option(help="Neighbours of every agent; if not given: all up to 6 agents, else 4."),
    ] = None,
    folder: Annotated[Path, typer.Option(help="Where to write.")] = Path(),
) -> None:
    """Write an agent.toml and a certificate for every agent, all on this machine.

    Up to six agents are neighbours of each other. More agents get four neighbours each, in a
    connected random graph that depends only on their names.

    Then start them with posse agent; for agents on several machines, change the addresses
    (docs/live-three-machines.md). If visitors differ, add their attributes to each file as a table
    named context, for example country = ["de", "fr"], and family = {name = "logistic", rate = 0.03}
    (docs/contexts-live.md).
    """
    with catch_user_errors(), require_live_extra():
        from posse.live.config import read_settings
        from posse.live.security import create_authority, issue_certificate, validate_name

        tables = _split_names(experiments)
        for name in (*names, *tables):
            validate_name(name)
        if len(set(names)) < len(names):
            raise UserError(f"the names of agents must differ, got {' '.join(names)}")
        if len(set(tables)) < len(tables):
            raise UserError(f"the names of experiments must differ, got {experiments}")
        if rate is not None and not 0.0001 <= rate <= 0.5:
            raise UserError(f"--rate must be 0.0001 to 0.5, got {rate}")
        if revenue is not None and not 1e-6 <= revenue <= 1e12:
            raise UserError(f"--revenue must be 0.000001 to 1e12, got {revenue}")
        if len(names) > MOST_AGENTS:
            raise UserError(f"at most {MOST_AGENTS} agents fit on one machine, got {len(names)}")
        neighbours = choose_neighbours(names, degree)
        files = {name: folder / f"{name}.toml" for name in names}
        certs = folder / "certs"
        # Nothing is overwritten: an existing file may be that of a running agent.
        if existing := [path for path in (*files.values(), certs) if path.exists()]:
            raise UserError(f"{existing[0]} exists already: choose another --folder")
        folder.mkdir(parents=True, exist_ok=True)
        for name, file in files.items():
            file.write_text(
                _render_settings(
                    name,
                    names,
                    neighbours[name],
                    _split_names(arms),
                    tables,
                    _render_family(rate, revenue),
                ),
                encoding="utf-8",
            )
            # Read it as the agent will: a bad arm is refused now, not at the start of the agent.
            try:
                read_settings(file)
            except ValueError:
                file.unlink()
                raise
        create_authority(certs)
        for name in names:
            issue_certificate(certs, name)
    for path in (*files.values(), certs):
        typer.echo(path)
    _print_next_steps(list(files.values()), tables)


def choose_neighbours(names: list[str], degree: int | None) -> dict[str, list[str]]:
    """Return the neighbours of every agent: all, or a connected regular graph seeded by names."""
    if degree is None:
        degree = len(names) - 1 if len(names) <= FEW_AGENTS else DEGREE
    elif not min(2, len(names) - 1) <= degree < max(len(names), 1):
        raise UserError(
            f"--degree must be from 2 to {max(2, len(names) - 1)} for {len(names)} agents, "
            f"got {degree}"
        )
    if degree >= len(names) - 1:
        return {name: [other for other in names if other != name] for name in names}
    if degree * len(names) % 2:
        raise UserError(
            f"--degree {degree} is not possible for {len(names)} agents, because one of the two "
            f"numbers must be even: choose {degree + 1}"
        )
    import zlib

    import networkx as nx

    # the same names give the same network, in whatever order
    places = sorted(names)
    seed = zlib.crc32("\n".join(places).encode())
    while not nx.is_connected(graph := nx.random_regular_graph(degree, len(names), seed=seed)):
        seed += 1
    return {name: sorted(places[i] for i in graph[places.index(name)]) for name in names}


def _print_next_steps(files: list[Path], tables: list[str]) -> None:
    route = f"/experiments/{tables[0]}" if len(tables) > 1 else ""
    url = f"http://127.0.0.1:{HTTP}"
    request = f"curl {url}/v1{route}/decisions -H 'Content-Type: application/json' -d '{{}}'"
    typer.echo(f"Start:  posse agent {' '.join(map(str, files))}", err=True)
    typer.echo(f"Try:    {request}", err=True)
    typer.echo(f"Watch:  posse status {url}    (and read docs/live.md)", err=True)


def _split_names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")] if text.strip() else []


def _render_family(rate: float | None, revenue: float | None = None) -> str:
    """Render the family as TOML, with a prior that weighs one success, or one sale."""
    beta = 1.0 if rate is None else round(SUCCESSES * (1 - rate) / rate, 3)
    if revenue is not None:
        often = "" if rate is None else f" {rate * 100:g}% of visits buy,"
        prior = {
            "alpha": SUCCESSES,
            "beta": beta,
            "sale_shape": SALE_SHAPE,
            "sale_scale": (SALE_SHAPE - 1) * revenue,
        }
        fields = ", ".join(f"{name} = {value:g}" for name, value in prior.items())
        return f"""# rewards are amounts, 0 without a sale:{often} some {revenue:g} a sale
family = {{name = "revenue", {fields}}}
reward_range = [0, {LARGEST_SALE * revenue:g}]         # report larger amounts as the largest"""
    if rate is None:
        return """family = "bernoulli"            # rewards are 0 or 1
# stop = {error = 0.05}         # names a winner: see docs/stopping.md"""
    return f"""# rewards are 0 or 1, some {rate * 100:g}% of them 1: a prior that weighs one success
family = {{name = "bernoulli", alpha = {SUCCESSES:g}, beta = {beta:g}}}
stop = {{error = 0.05, tolerance = "10%"}}  # a verdict; 10% of the best rate does not matter"""


def _render_settings(
    name: str,
    names: list[str],
    neighbours: list[str],
    arms: list[str],
    tables: list[str],
    family: str,
) -> str:
    """Render the agent.toml of one agent."""
    import json

    place = names.index(name)
    neighbour_lines = "\n".join(
        f'{neighbour} = "127.0.0.1:{LISTEN + names.index(neighbour)}"' for neighbour in neighbours
    )
    options = f"arms = {json.dumps(arms, ensure_ascii=False)}"
    above = f"{options}\n" if not tables else "# these settings hold for every experiment below\n"
    below = "".join(
        f"\n[experiments.{table}]    # at /v1/experiments/{table}/decisions\n{options}\n"
        for table in tables
    )
    return f"""name = "{name}"
{above}{family}
http = "127.0.0.1:{HTTP + place}"         # where the application connects
listen = "127.0.0.1:{LISTEN + place}"       # where neighbours connect
store = "{name}.db"
certificates = "certs"
reward_window = 3600            # seconds: longer than nearly all rewards take ...
default_reward = 0              # ... and the reward if none comes: 0 if only successes are reported
remember = 7776000              # seconds for which decisions are stored: 90 days
# min_share = 0.02              # least share of every arm: propensities for off-policy evaluation
# new_arm_share = 0.1           # largest share of all new arms together; an equal share if not set
# visitors differ? family = {{name = "logistic", rate = 0.03}}, and below a table like
# [context]
# country = ["de", "fr", "it"]  # see docs/contexts-live.md

[neighbours]                    # where they listen
{neighbour_lines}
{below}"""
