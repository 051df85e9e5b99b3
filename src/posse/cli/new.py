"""`posse new`: what some agents on one machine need, to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from posse.cli.common import UserError, catch_user_errors, require_live_extra

EXAMPLES = """Examples:

posse new berlin paris rome

posse new north south --arms short,long --rate 0.03 --folder trial

posse new berlin paris --experiments checkout,banner"""

# ports of the first agent; the others have the next ones
HTTP = 8700
LISTEN = 7447
# rewards that a prior of a rate is worth: of one success, so that the data soon outweigh it, and a
# 95% interval still reaches from a fortieth of the rate to 3.7 times it
SUCCESSES = 1.0


def new(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="The agents' names.")],
    arms: Annotated[
        str, typer.Option(help="Options to choose from, with commas between them.")
    ] = "red,green,blue",
    experiments: Annotated[
        str, typer.Option(help="Names of experiments, with commas: one table for each.")
    ] = "",
    rate: Annotated[
        float | None,
        typer.Option(help="How often rewards are 1, roughly, as 0.03: a prior that suits it."),
    ] = None,
    folder: Annotated[Path, typer.Option(help="Where to write.")] = Path(),
) -> None:
    """Write an agent.toml and a certificate for each of some neighbours on this machine.

    Then start them with posse agent; for agents on several machines, change the addresses
    (docs/live-three-machines.md). Where visitors differ, add what is known of them to each file, as
    a table named context, such as country = ["de", "fr"], and family = {name = "logistic", rate =
    0.03} (docs/contexts-live.md).
    """
    with catch_user_errors(), require_live_extra():
        from posse.live.config.agent_settings import read_settings
        from posse.live.security import certificates

        tables = _split_names(experiments)
        for name in (*names, *tables):
            certificates.checked_name(name)
        if len(set(names)) < len(names):
            raise UserError(f"every agent needs a name of its own, got {' '.join(names)}")
        if len(set(tables)) < len(tables):
            raise UserError(f"every experiment needs a name of its own, got {experiments}")
        if rate is not None and not 0.0001 <= rate <= 0.5:
            raise UserError(f"--rate must be 0.0001 to 0.5, got {rate}")
        files = {name: folder / f"{name}.toml" for name in names}
        certs = folder / "certs"
        if existing := [path for path in (*files.values(), certs) if path.exists()]:
            raise UserError(f"{existing[0]} exists: name another with --folder")
        folder.mkdir(parents=True, exist_ok=True)
        for name, file in files.items():
            file.write_text(
                _render_settings(name, names, _split_names(arms), tables, rate), encoding="utf-8"
            )
            try:
                read_settings(file)
            except ValueError:
                file.unlink()
                raise
        certificates.create_authority(certs)
        for name in names:
            certificates.issue(certs, name)
    for path in (*files.values(), certs):
        typer.echo(path)
    _print_next_steps(list(files.values()), tables)


def _print_next_steps(files: list[Path], tables: list[str]) -> None:
    route = f"/experiments/{tables[0]}" if len(tables) > 1 else ""
    url = f"http://127.0.0.1:{HTTP}"
    request = f"curl {url}/v1{route}/decisions -H 'Content-Type: application/json' -d '{{}}'"
    typer.echo(f"Start:  posse agent {' '.join(map(str, files))}", err=True)
    typer.echo(f"Ask:    {request}", err=True)
    typer.echo(f"Look:   posse status {url}    (and read docs/live.md)", err=True)


def _split_names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")] if text.strip() else []


def _render_family(rate: float | None) -> str:
    """The family of rewards 0 or 1, as TOML, with a prior of the weight of one success."""
    if rate is None:
        return """family = "bernoulli"            # rewards are 0 or 1"""
    beta = round(SUCCESSES * (1 - rate) / rate, 3)
    return f"""# rewards are 0 or 1, some {rate * 100:g}% of them 1: a prior that weighs one success
family = {{name = "bernoulli", alpha = {SUCCESSES:g}, beta = {beta:g}}}"""


def _render_settings(
    name: str, names: list[str], arms: list[str], tables: list[str], rate: float | None
) -> str:
    """The settings of one of some agents, all of them neighbours."""
    import json

    place = names.index(name)
    neighbour_lines = "\n".join(
        f'{neighbour} = "127.0.0.1:{LISTEN + i}"'
        for i, neighbour in enumerate(names)
        if neighbour != name
    )
    options = f"arms = {json.dumps(arms, ensure_ascii=False)}"
    above = f"{options}\n" if not tables else "# what follows holds for every experiment below\n"
    below = "".join(
        f"\n[experiments.{table}]    # at /v1/experiments/{table}/decisions\n{options}\n"
        for table in tables
    )
    return f"""name = "{name}"
{above}{_render_family(rate)}
http = "127.0.0.1:{HTTP + place}"         # where the application asks
listen = "127.0.0.1:{LISTEN + place}"       # where neighbours call
store = "{name}.db"
certificates = "certs"
reward_window = 3600            # seconds: longer than nearly every reward takes ...
default_reward = 0              # ... and what silence means: right if only successes are reported
remember = 7776000              # seconds for which decisions are kept: 90 days
# min_share = 0.02              # least share of every arm: logs by which to evaluate other policies
# new_arm_share = 0.1           # most for arms that are new, together; an equal share if not set
# visitors differ? family = {{name = "logistic", rate = 0.03}}, and below a table such as
# [context]
# country = ["de", "fr", "it"]  # see docs/contexts-live.md

[neighbours]                    # where they listen
{neighbour_lines}
{below}"""
