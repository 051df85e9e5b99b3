"""`posse new`: what some agents on one machine need, to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from posse.cli.errors import Mistake, live, mistakes

EXAMPLES = """Examples:

posse new berlin paris rome

posse new north south --arms short,long --folder trial"""

HTTP, LISTEN = 8700, 7447  # ports of the first agent; the others have the next ones


def new(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="The agents' names.")],
    arms: Annotated[
        str, typer.Option(help="Options to choose from, with commas between them.")
    ] = "red,green,blue",
    folder: Annotated[Path, typer.Option(help="Where to write.")] = Path(),
) -> None:
    """Write an agent.toml and a certificate for each of some neighbours on this machine.

    Then start them with posse agent; for agents on several machines, change the addresses.
    """
    with mistakes(), live():
        from posse.live import certificates
        from posse.live.settings import read_settings

        for name in names:
            certificates.checked_name(name)
        if len(set(names)) < len(names):
            raise Mistake(f"every agent needs a name of its own, got {' '.join(names)}")
        files = {name: folder / f"{name}.toml" for name in names}
        certs = folder / "certs"
        if taken := [path for path in (*files.values(), certs) if path.exists()]:
            raise Mistake(f"{taken[0]} exists: name another with --folder")
        folder.mkdir(parents=True, exist_ok=True)
        for name, file in files.items():
            file.write_text(_toml(name, names, arms.split(",")), encoding="utf-8")
            try:
                read_settings(file)
            except ValueError:
                file.unlink()
                raise
        certificates.create_authority(certs)
        for name in names:
            certificates.issue(certs, name)
    for file in files.values():
        typer.echo(file)
    typer.echo(certs)


def _toml(name: str, names: list[str], arms: list[str]) -> str:
    """The settings of one of some agents, all of them neighbours."""
    import json

    place = names.index(name)
    others = "\n".join(
        f'{other} = "127.0.0.1:{LISTEN + i}"' for i, other in enumerate(names) if other != name
    )
    return f"""name = "{name}"
arms = {json.dumps([arm.strip() for arm in arms], ensure_ascii=False)}
family = "bernoulli"            # rewards are 0 or 1
http = "127.0.0.1:{HTTP + place}"         # where the application asks
listen = "127.0.0.1:{LISTEN + place}"       # where neighbours call
store = "{name}.db"
certificates = "certs"
reward_window = 3600            # seconds to wait for a reward ...
default_reward = 0              # ... and what silence then means

[neighbours]                    # where they listen
{others}
"""
