"""`posse erase`: delete decisions from the stores of running agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from posse.cli.common import UserError
from posse.cli.operators import By, Experiment, Reason, TokenFile, Verify, call_agent

if TYPE_CHECKING:
    from posse.live.client import Client

EXAMPLES = """Examples:

posse erase http://127.0.0.1:8700 --decision visit-1

posse erase http://127.0.0.1:8700 http://127.0.0.1:8701 --visitor u-17 --by Ada --reason letter"""

LOG_NOT_EMPTIED = (
    "{url}: erased from the store, but not yet from its log, because another program (an export?) "
    "reads the store: the agent removes the rest when that program has ended"
)


def erase(
    urls: Annotated[list[str], typer.Argument(metavar="URL...", help="Addresses of the agents.")],
    decision: Annotated[str | None, typer.Option(help="The id of one decision.")] = None,
    visitor: Annotated[str | None, typer.Option(help="The visitor: all decisions for it.")] = None,
    by: By = "",
    reason: Reason = "",
    experiment: Experiment = None,
    token_file: TokenFile = None,
    verify: Verify = None,
) -> None:
    """Delete decisions, with id, visitor and context, from the stores of the agents named.

    Open decisions are cancelled first. Sums of closed decisions stay: they are aggregates.
    Backups, exports and logs of the application are not touched. The exit code is 1 if a store's
    log could not be emptied at once.
    """
    if (decision is None) == (visitor is None):
        raise UserError("name what to erase: --decision ID or --visitor VISITOR")
    erased = 0
    left = []
    for url in urls:
        answer = call_agent(
            url,
            lambda client: _try_erase(client, decision, visitor or "", by, reason),
            *(experiment, token_file, verify),
        )
        erased += answer["erased"]
        typer.echo(f"{url}: {answer['erased']} erased")
        if not answer["log_emptied"]:
            left.append(url)
    for url in left:
        typer.echo(f"posse: {LOG_NOT_EMPTIED.format(url=url)}", err=True)
    if left:
        raise typer.Exit(1)
    if not erased:
        what = f"decision for {visitor!r}" if decision is None else f"decision {decision!r}"
        raise UserError(f"no agent named has a {what}: check the name, or its age")


def _try_erase(
    client: Client, decision: str | None, visitor: str, by: str, reason: str
) -> dict[str, Any]:
    """Erase a decision, or all for a visitor, at one agent, which may have none."""
    from posse.live.store import Unknown

    try:
        if decision is None:
            return client.erase_visitor(visitor, by=by, reason=reason)
        return client.erase(decision, by=by, reason=reason)
    except Unknown:
        return {"erased": 0, "log_emptied": True}
