"""The command line: one file per command, and what heavy libraries they need imported inside."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

import posse
from posse.cli import (
    agent,
    arena,
    certs,
    export,
    inspect,
    new,
    operators,
    paper,
    router,
    run,
    status,
    swarm,
    sweep,
)
from posse.cli.common import UserError, repeat_lost_interrupts

INTERRUPTED = 130  # what shells report for Ctrl-C

LAB = "The lab, for researchers"
LIVE = "Live agents, for operators"

app = typer.Typer(
    name="posse",
    help="""A posse of bandits: many agents, one problem, no centre.

Researchers simulate. First: [bold]posse paper fig3[/bold], then [bold]posse run FILE.toml[/bold].

Operators run agents that learn. First: [bold]posse new berlin paris[/bold], then
[bold]posse agent berlin.toml paris.toml[/bold]; docs/live.md goes on from there.""",
    epilog="posse COMMAND --help shows examples of each.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
# one line each, and in the order in which people need them
for _panel, _command, _examples, _line in (
    (LAB, paper.paper, paper.EXAMPLES, "Reproduce the paper's figures as a report."),
    (LAB, run.run, run.EXAMPLES, "Run an experiment file: a table, a result, a figure."),
    (LAB, sweep.sweep, sweep.EXAMPLES, "Run an experiment over a grid of its settings."),
    (LAB, arena.arena, arena.EXAMPLES, "Rank all algorithms, and yours, on a suite."),
    (LAB, inspect.inspect, inspect.EXAMPLES, "Show a network's size, degrees and spectral gap."),
    (LIVE, new.new, new.EXAMPLES, "Write what some agents need: settings and certificates."),
    (LIVE, agent.agent, agent.EXAMPLES, "Run a live agent, which answers over HTTP."),
    (LIVE, status.status, status.EXAMPLES, "Show an agent's arms and neighbours."),
    (LIVE, operators.pin, operators.PIN_EXAMPLES, "Let one arm alone be played."),
    (LIVE, operators.pause, operators.PAUSE_EXAMPLES, "Let an arm not be played."),
    (LIVE, operators.resume, operators.RESUME_EXAMPLES, "Lift what was pinned or paused."),
    (LIVE, operators.reload, operators.RELOAD_EXAMPLES, "Read agent.toml again, without restart."),
    (LIVE, export.export, export.EXAMPLES, "Write an agent's decisions and rewards as JSON."),
    (LIVE, router.router, router.EXAMPLES, "Pass messages between agents behind firewalls."),
    (LIVE, swarm.swarm, swarm.EXAMPLES, "Watch agents on this machine lose nothing when killed."),
):
    # paragraphs, which a terminal of any width fills: typer would keep the ends of our lines
    _help = "\n\n".join(" ".join(_part.split()) for _part in (_command.__doc__ or "").split("\n\n"))
    app.command(help=_help, epilog=_examples, short_help=_line, rich_help_panel=_panel)(_command)
app.add_typer(
    certs.app,
    name="certs",
    rich_help_panel=LIVE,
    short_help="Make an authority and the agents' certificates.",
)

# click's error, a base of typer's own; where it is imported from differs between versions of typer
_UsageError: Any = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "UsageError"
)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"posse {posse.__version__}")
        raise typer.Exit


@app.callback()
def _handle_common_options(
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
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with repeat_lost_interrupts():
            code = app(words or ["--help"], prog_name="posse", standalone_mode=False)
    except _UsageError as error:
        code = _print_refusal(error.format_message())
    except UserError as error:
        code = _print_refusal(str(error))
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:
        print("posse: interrupted", file=sys.stderr)
    sys.exit(code)


def _print_refusal(message: str) -> int:
    print("posse:", " ".join(message.split()), file=sys.stderr)
    return 2
