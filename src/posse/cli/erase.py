"""`posse erase`: delete decisions from the stores of running agents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posse.cli.common import UserError
from posse.cli.operators import By, Reason, Verify, call_agent

if TYPE_CHECKING:
    from posse.live.client import Client

EXAMPLES = """Examples:

posse erase http://127.0.0.1:8700 --decision visit-1

posse erase http://127.0.0.1:8700 http://127.0.0.1:8701 --visitor u-17 --by Ada --reason letter

posse erase http://127.0.0.1:8700 --visitor u-17 --experiment checkout"""

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
    experiment: Annotated[
        str | None,
        typer.Option(help="The only experiment to erase from (default: all that the agent runs)."),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the application's token or the operators': http_token or "
            "operator_token in agent.toml."
        ),
    ] = None,
    verify: Verify = None,
) -> None:
    """Delete decisions, with id, visitor and context, from the stores of the agents named.

    Without --experiment they are deleted from all experiments that an agent runs. If an agent
    refuses, the command prints the refusal and stops; what it printed before is done.

    Open decisions are cancelled first. Sums of closed decisions stay: they are aggregates.
    Backups, exports and logs of the application are not touched. The exit code is 1 if a store's
    log could not be emptied at once.
    """
    if (decision is None) == (visitor is None):
        raise UserError("name what to erase: --decision ID or --visitor VISITOR")
    erased = 0
    left = []
    for url in urls:
        access = (token_file, verify)
        names = [experiment]
        if experiment is None:
            names = list(call_agent(url, _list_experiments, None, *access))
        for name in names:
            answer = call_agent(
                url,
                lambda client: _try_erase(client, decision, visitor or "", by, reason),
                *(name, *access),
            )
            erased += answer["erased"]
            where = f" in {name}" if len(names) > 1 else ""
            typer.echo(f"{url}: {answer['erased']} erased{where}")
            if not answer["log_emptied"] and url not in left:
                left.append(url)
    for url in left:
        typer.echo(f"posse: {LOG_NOT_EMPTIED.format(url=url)}", err=True)
    if left:
        raise typer.Exit(1)
    if not erased:
        what = f"decision for {visitor!r}" if decision is None else f"decision {decision!r}"
        raise UserError(f"no agent named has a {what}: check the name, or its age")


def _list_experiments(client: Client) -> dict[str, Any]:
    """Return the experiments that an agent runs, by name."""
    with _name_agent(client):
        return dict(client.experiments()["experiments"])


def _try_erase(
    client: Client, decision: str | None, visitor: str, by: str, reason: str
) -> dict[str, Any]:
    """Erase a decision, or all for a visitor, from one experiment, which may have none."""
    from posse.live.store import Unknown

    with _name_agent(client):
        try:
            if decision is None:
                answer = client.erase_visitor(visitor, by=by, reason=reason)
            else:
                answer = client.erase(decision, by=by, reason=reason)
        except Unknown as error:
            # An unknown experiment is a 404, too: only the sentence tells the two apart.
            if not str(error).startswith("there is no decision"):
                raise
            answer = {"erased": 0, "log_emptied": True}
        return {"erased": int(answer["erased"]), "log_emptied": bool(answer["log_emptied"])}


@contextmanager
def _name_agent(client: Client) -> Iterator[None]:
    """Name the agent in its refusals, because several may be asked."""
    try:
        yield
    except (LookupError, TypeError):  # valid JSON, but not that of an agent
        raise ValueError(f"the server at {client.url} is not a Posse agent") from None
    except ValueError as error:
        raise ValueError(f"{client.url}: {error}") from None
