"""`posse pin`, `pause`, `resume`, `forget` and `reload`: operator commands to a running agent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posse.cli.common import UserError, catch_user_errors, read_token, require_live_extra

if TYPE_CHECKING:
    from posse.live.client import Client

PIN_EXAMPLES = """Examples:

posse pin green http://127.0.0.1:8700 --token-file operator.token

posse pin green http://127.0.0.1:8700 --experiment checkout --token-file operator.token

posse pin green http://127.0.0.1:8700 --token-file operator.token --by Ada --reason winner"""
PAUSE_EXAMPLES = """Examples:

posse pause red http://127.0.0.1:8700 --token-file operator.token

posse pause red http://127.0.0.1:8700 --experiment checkout --token-file operator.token

posse pause red http://127.0.0.1:8700 --token-file operator.token --by Ada --reason broken"""
RESUME_EXAMPLES = """Examples:

posse resume red http://127.0.0.1:8700 --token-file operator.token

posse resume http://127.0.0.1:8700 --token-file operator.token"""
FORGET_EXAMPLES = """Examples:

posse forget paris http://127.0.0.1:8700 --token-file operator.token

posse forget paris http://127.0.0.1:8700 --token-file operator.token --by Ada --reason closed"""
RELOAD_EXAMPLES = """Examples:

posse reload http://127.0.0.1:8700 --token-file operator.token"""

Arm = Annotated[str, typer.Argument(metavar="ARM", help="The arm's name.")]
Url = Annotated[str, typer.Argument(metavar="URL", help="Address of the agent.")]
Experiment = Annotated[
    str | None, typer.Option("--experiment", help="The experiment, if the agent has several.")
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file", help="File with the token; agent.toml names it as operator_token."
    ),
]
By = Annotated[str, typer.Option("--by", help="Who gives the command; events keep it.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; events keep it.")]
Verify = Annotated[
    Path | None,
    typer.Option(
        "--verify", help="For https: file of trusted authorities, for example certs/ca.pem."
    ),
]


def pin(
    arm: Arm,
    url: Url,
    experiment: Experiment = None,
    by: By = "",
    reason: Reason = "",
    token_file: TokenFile = None,
    verify: Verify = None,
) -> None:
    """Play only this arm until posse resume.

    This holds in the whole network if the agent is one of its operators, otherwise at this agent.
    """
    _send_order(
        url,
        lambda client: client.pin(arm, by=by, reason=reason),
        experiment,
        token_file,
        verify,
    )


def pause(
    arm: Arm,
    url: Url,
    experiment: Experiment = None,
    by: By = "",
    reason: Reason = "",
    token_file: TokenFile = None,
    verify: Verify = None,
) -> None:
    """Stop playing an arm until posse resume.

    This holds in the whole network if the agent is one of its operators, otherwise at this agent.
    """
    _send_order(
        url,
        lambda client: client.pause(arm, by=by, reason=reason),
        experiment,
        token_file,
        verify,
    )


def resume(
    arm_and_url: Annotated[
        list[str],
        typer.Argument(metavar="[ARM] URL", help="The arm (default: all arms)."),
    ],
    experiment: Experiment = None,
    by: By = "",
    reason: Reason = "",
    token_file: TokenFile = None,
    verify: Verify = None,
) -> None:
    """Undo pin and pause for one arm, or for all."""
    if len(arm_and_url) > 2:
        raise UserError(f"resume takes an arm and a URL, got {' '.join(arm_and_url)!r}")
    # The optional argument comes first, as in `posse pin ARM URL`; Typer cannot express this.
    *arms, url = arm_and_url
    arm = arms[0] if arms else None
    _send_order(
        url,
        lambda client: client.resume(arm, by=by, reason=reason),
        experiment,
        token_file,
        verify,
    )


def forget(
    agent: Annotated[str, typer.Argument(metavar="NAME", help="The agent that left.")],
    url: Url,
    by: By = "",
    reason: Reason = "",
    token_file: TokenFile = None,
    verify: Verify = None,
) -> None:
    """Leave an agent that left for good out of headlines, drawings and counts of agents.

    This holds in the whole network if the agent that is asked is one of its operators. The evidence
    of the agent that left stays. If it comes back, it is there again.
    """
    answer = call_agent(
        url, lambda client: client.forget(agent, by=by, reason=reason), None, token_file, verify
    )
    names = sorted(answer.get("agents", ()))
    typer.echo(f"{agent} is forgotten; agents: {', '.join(names)}")


def reload(url: Url, token_file: TokenFile = None, verify: Verify = None) -> None:
    """Read the agent.toml of a running agent again, without a restart.

    A file with an error changes nothing, and the answer says what is wrong.
    """
    answer = call_agent(url, lambda client: client.reload(), None, token_file, verify)
    typer.echo(str(answer.get("changed", "")) or "no setting has changed")


def _send_order(
    url: str,
    ask: Callable[[Client], dict[str, Any]],
    experiment: str | None,
    token_file: Path | None,
    verify: Path | None,
) -> None:
    answer = call_agent(url, ask, experiment, token_file, verify)
    try:
        for line in _describe_controls(answer):
            typer.echo(line)
    except (LookupError, TypeError, AttributeError):
        # The answer is valid JSON, but not that of an agent.
        raise UserError(f"the server at {url} is not a Posse agent") from None


def call_agent(
    url: str,
    ask: Callable[[Client], dict[str, Any]],
    experiment: str | None,
    token_file: Path | None,
    verify: Path | None,
) -> dict[str, Any]:
    """Send a request to a running agent and return its answer."""
    with catch_user_errors(), require_live_extra():
        from posse.live.client import Client

        token = None if token_file is None else read_token(token_file)
        # A second attempt covers an agent that is restarting; more would keep the user waiting.
        options: Any = {"experiment": experiment, "token": token, "verify": verify}
        with Client(url, attempts=2, **options) as client:
            try:
                return ask(client)
            except RuntimeError as error:  # another kind of server, or a store that fails
                raise UserError(str(error)[:500]) from None


def _describe_controls(status: dict[str, Any]) -> list[str]:
    """Describe which arms are pinned and paused, and where this was ordered."""
    lines = []
    for whose, where in (("here", "at this agent"), ("network", "in the whole network")):
        record = status[whose]
        if record is None:
            continue
        by = f" (version {record['version']}, by {record['signer']})" if whose == "network" else ""
        if stated := ": ".join(text for text in (record.get("by"), record.get("reason")) if text):
            by += f" ({stated})"
        if record["pinned"]:
            lines.append(f"{record['pinned']} is pinned {where}{by}")
        lines += [f"{arm} is paused {where}{by}" for arm in record["paused"]]
    if not lines:
        lines.append("no arm is pinned or paused")
    if status["unknown"]:
        lines.append(f"unknown at this agent, without effect here: {', '.join(status['unknown'])}")
    return lines
