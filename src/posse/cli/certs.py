"""`posse certs`: create a certificate authority and a certificate for every live agent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from posse.cli.common import catch_user_errors, require_live_extra

EXAMPLES = """Examples:

posse certs init

posse certs issue berlin --host berlin.example.org --host 192.0.2.7

posse certs issue berlin --days 30 --force"""

app = typer.Typer(epilog=EXAMPLES)

Folder = Annotated[Path, typer.Option(help="Folder of the certificates.")]
Force = Annotated[bool, typer.Option("--force", help="Replace existing files.")]
CERTS = Path("certs")


@app.callback(invoke_without_command=True)
def certs(context: typer.Context) -> None:
    """Create the certificates of live agents."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command(epilog=EXAMPLES)
def init(folder: Folder = CERTS, force: Force = False) -> None:
    """Create the authority that signs the agents' certificates.

    Keep ca.key where certificates are issued; agents need only ca.pem and their own
    two files. A replaced authority invalidates all certificates that the old one signed.
    """
    with catch_user_errors(), require_live_extra():
        from posse.live.security import create_authority

        files = create_authority(folder, force=force)
    typer.echo(files.authority)
    typer.echo(files.key)


@app.command(epilog=EXAMPLES)
def issue(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The agent's name.")],
    host: Annotated[
        list[str] | None,
        typer.Option(
            help="Host name or address; may be repeated. Default: as before, or localhost."
        ),
    ] = None,
    days: Annotated[int, typer.Option(help="Days for which it is valid.")] = 365,
    folder: Folder = CERTS,
    force: Force = False,
) -> None:
    """Issue an agent's certificate and private key."""
    with catch_user_errors(), require_live_extra():
        from posse.live.security import issue_certificate

        files = issue_certificate(folder, name, host, days=days, force=force)
    typer.echo(files.certificate)
    typer.echo(files.key)
