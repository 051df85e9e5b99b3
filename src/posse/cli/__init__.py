"""The command line `posse`: one file per command, for experiment files and for live agents.

Commands import heavy libraries inside their functions, so that `posse --help` answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import posse
from posse.cli import (
    agent,
    arena,
    certs,
    erase,
    evaluate,
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

INTERRUPTED = 130  # the exit code that shells use for Ctrl-C

LAB = "The lab, for researchers"
LIVE = "Live agents, for operators"

app = typer.Typer(
    name="posse",
    help="""A posse of bandits: many agents, one problem, no centre.

Researchers simulate. First: [bold]posse paper fig3[/bold], then [bold]posse run FILE.toml[/bold].

Operators run agents that learn. First: [bold]posse new berlin paris[/bold], then
[bold]posse agent berlin.toml paris.toml[/bold]; docs/live.md goes on from there.""",
    epilog="posse COMMAND --help shows examples.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
# The order of the help text: the order in which people need the commands.
for _panel, _command, _examples, _line in (
    (LAB, paper.paper, paper.EXAMPLES, "Reproduce the paper's figures as a report."),
    (LAB, run.run, run.EXAMPLES, "Run an experiment file: a table, a result, a figure."),
    (LAB, sweep.sweep, sweep.EXAMPLES, "Run an experiment over a grid of its settings."),
    (LAB, arena.arena, arena.EXAMPLES, "Rank all algorithms, and yours, on a suite."),
    (LAB, inspect.inspect, inspect.EXAMPLES, "Show a network's size, degrees and spectral gap."),
    (LIVE, new.new, new.EXAMPLES, "Write settings and certificates for new agents."),
    (LIVE, agent.agent, agent.EXAMPLES, "Run a live agent that answers over HTTP."),
    (LIVE, status.status, status.EXAMPLES, "Show an agent's arms and neighbours."),
    (LIVE, operators.pin, operators.PIN_EXAMPLES, "Play only this arm."),
    (LIVE, operators.pause, operators.PAUSE_EXAMPLES, "Stop playing an arm."),
    (LIVE, operators.resume, operators.RESUME_EXAMPLES, "Undo pin and pause."),
    (LIVE, operators.forget, operators.FORGET_EXAMPLES, "Leave out an agent that left for good."),
    (LIVE, operators.reload, operators.RELOAD_EXAMPLES, "Read agent.toml again without a restart."),
    (LIVE, export.export, export.EXAMPLES, "Write an agent's decisions and rewards."),
    (LIVE, evaluate.evaluate, evaluate.EXAMPLES, "Estimate from a log what a policy would earn."),
    (LIVE, erase.erase, erase.EXAMPLES, "Delete decisions from agents' stores."),
    (LIVE, router.router, router.EXAMPLES, "Pass messages between agents behind firewalls."),
    (LIVE, swarm.swarm, swarm.EXAMPLES, "Run a demonstration: agents are killed, nothing is lost."),
):
    # Typer keeps line ends; one line per paragraph lets a terminal of any width fill it.
    _help = "\n\n".join(" ".join(_part.split()) for _part in (_command.__doc__ or "").split("\n\n"))
    app.command(help=_help, epilog=_examples, short_help=_line, rich_help_panel=_panel)(_command)
app.add_typer(
    certs.app,
    name="certs",
    rich_help_panel=LIVE,
    short_help="Create an authority and the agents' certificates.",
)

# Click's UsageError is a base class of Typer's errors; its module differs between versions.
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
    """Handle the options that all commands share."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit: 0 success, 2 user error, 130 interrupted."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with repeat_lost_interrupts():
            code = _run_command(words or ["--help"])
    except _UsageError as error:
        code = _print_refusal(error.format_message())
    except UserError as error:
        code = _print_refusal(str(error))
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:
        print("posse: interrupted", file=sys.stderr)
    sys.exit(code)


def _run_command(words: list[str]) -> Any:
    # An agent runs for months. Typer reads even one file name with pydantic, which would stay in
    # its memory (12 MB), so the plain form of this command is read here.
    if len(words) == 2 and words[0] == "agent" and not words[1].startswith("-"):
        return agent.agent([Path(words[1])])
    return app(words, prog_name="posse", standalone_mode=False)


def _print_refusal(message: str) -> int:
    # One line whatever the message contains, as scripts and logs read it line by line.
    print("posse:", " ".join(message.split()), file=sys.stderr)
    return 2
