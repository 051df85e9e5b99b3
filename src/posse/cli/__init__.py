"""The command line: one file per command, and what heavy libraries they need imported inside."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

import posse
from posse.cli import agent, certs, export, inspect, new, paper, router, run, status, swarm
from posse.cli.errors import Mistake
from posse.cli.running import interruptible

INTERRUPTED = 130  # what shells report for Ctrl-C

app = typer.Typer(
    name="posse",
    help="A posse of bandits: many agents, one problem, no centre.",
    epilog="Start with: posse paper",
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command(epilog=run.EXAMPLES)(run.run)
app.command(epilog=paper.EXAMPLES)(paper.paper)
app.command(epilog=inspect.EXAMPLES)(inspect.inspect)
app.command(epilog=new.EXAMPLES)(new.new)
app.command(epilog=agent.EXAMPLES)(agent.agent)
app.command(epilog=status.EXAMPLES)(status.status)
app.command(epilog=export.EXAMPLES)(export.export)
app.command(epilog=router.EXAMPLES)(router.router)
app.command(epilog=swarm.EXAMPLES)(swarm.swarm)
app.add_typer(certs.app, name="certs")

# click's error, a base of typer's own; where it is imported from differs between versions of typer
_UsageError: Any = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "UsageError"
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"posse {posse.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Take the options that all commands share."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit: 0 done, 2 the user's mistake, 130 interrupted."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with interruptible():
            code = app(given or ["--help"], prog_name="posse", standalone_mode=False)
    except _UsageError as error:
        code = _refuse(error.format_message())
    except Mistake as error:
        code = _refuse(str(error))
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:
        print("posse: interrupted", file=sys.stderr)
    sys.exit(code)


def _refuse(message: str) -> int:
    print("posse:", " ".join(message.split()), file=sys.stderr)
    return 2
