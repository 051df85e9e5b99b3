"""`posse new`: write settings and certificates for agents on one machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from posse.cli.common import UserError, catch_user_errors, require_live_extra

EXAMPLES = """Examples:

posse new berlin paris rome

posse new north south --arms short,long --rate 0.03 --folder trial

posse new berlin paris --experiments checkout,banner"""

# ports of the first agent; the other agents use the next ones
HTTP = 8700
LISTEN = 7447
# Weight of the prior of --rate, in successes: one, so that the data soon outweigh it; its 95%
# interval still reaches from a fortieth of the rate to 3.7 times the rate.
SUCCESSES = 1.0


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
        typer.Option(help="Rough share of rewards that are 1, for example 0.03: sets the prior."),
    ] = None,
    folder: Annotated[Path, typer.Option(help="Where to write.")] = Path(),
) -> None:
    """Write an agent.toml and a certificate for every agent; all are neighbours on this machine.

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
        files = {name: folder / f"{name}.toml" for name in names}
        certs = folder / "certs"
        # Nothing is overwritten: an existing file may be that of a running agent.
        if existing := [path for path in (*files.values(), certs) if path.exists()]:
            raise UserError(f"{existing[0]} exists already: choose another --folder")
        folder.mkdir(parents=True, exist_ok=True)
        for name, file in files.items():
            file.write_text(
                _render_settings(name, names, _split_names(arms), tables, rate), encoding="utf-8"
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


def _print_next_steps(files: list[Path], tables: list[str]) -> None:
    route = f"/experiments/{tables[0]}" if len(tables) > 1 else ""
    url = f"http://127.0.0.1:{HTTP}"
    request = f"curl {url}/v1{route}/decisions -H 'Content-Type: application/json' -d '{{}}'"
    typer.echo(f"Start:  posse agent {' '.join(map(str, files))}", err=True)
    typer.echo(f"Try:    {request}", err=True)
    typer.echo(f"Watch:  posse status {url}    (and read docs/live.md)", err=True)


def _split_names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")] if text.strip() else []


def _render_family(rate: float | None) -> str:
    """Render the family of rewards 0 or 1 as TOML, with a prior that weighs one success."""
    if rate is None:
        return """family = "bernoulli"            # rewards are 0 or 1"""
    beta = round(SUCCESSES * (1 - rate) / rate, 3)
    return f"""# rewards are 0 or 1, some {rate * 100:g}% of them 1: a prior that weighs one success
family = {{name = "bernoulli", alpha = {SUCCESSES:g}, beta = {beta:g}}}"""


def _render_settings(
    name: str, names: list[str], arms: list[str], tables: list[str], rate: float | None
) -> str:
    """Render the agent.toml of one agent; all other agents are its neighbours."""
    import json

    place = names.index(name)
    neighbour_lines = "\n".join(
        f'{neighbour} = "127.0.0.1:{LISTEN + i}"'
        for i, neighbour in enumerate(names)
        if neighbour != name
    )
    options = f"arms = {json.dumps(arms, ensure_ascii=False)}"
    above = f"{options}\n" if not tables else "# these settings hold for every experiment below\n"
    below = "".join(
        f"\n[experiments.{table}]    # at /v1/experiments/{table}/decisions\n{options}\n"
        for table in tables
    )
    return f"""name = "{name}"
{above}{_render_family(rate)}
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
