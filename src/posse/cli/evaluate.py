"""`posse evaluate`: estimate from a log what other policies would have earned."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posse.cli.common import UserError, catch_user_errors, require_live_extra

if TYPE_CHECKING:
    from posse.offline import Estimate, Evaluation, Log

EXAMPLES = """Examples:

posse evaluate decisions.jsonl

posse evaluate berlin.parquet paris.parquet --policy arm=red --policy greedy

posse evaluate berlin.db --experiment checkout --policy uniform --json"""

SQLITE = b"SQLite format 3\x00"


def evaluate(
    logs: Annotated[
        list[Path],
        typer.Argument(metavar="LOG", help="Exports (jsonl, csv, parquet) or stores of agents."),
    ],
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="greedy, uniform or arm=NAME; several are allowed. If not given: every arm, "
            "greedy and uniform."
        ),
    ] = None,
    experiment: Annotated[
        str | None, typer.Option(help="The experiment, if the logs have several.")
    ] = None,
    window: Annotated[
        float | None,
        typer.Option(
            help="Leave out decisions younger than this many seconds, your reward_window; if not "
            "given, what the log shows of it."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Estimate what a policy would have earned per decision, with 95% intervals.

    IPS, SNIPS and doubly robust estimates weigh each decision by the policy's probability of its
    arm over the probability with which it was played. A line that begins with ! says where the log
    does not know (docs/howto/offline.md).
    """
    with catch_user_errors():
        from posse import offline

        if window is not None and not (math.isfinite(window) and window >= 0):
            raise UserError(f"--window must be seconds, 0 or more, got {window}")
        rows = (row for path in logs for row in _read_rows(path))
        log = offline.build_log(rows, experiment, window)
        names = policy or ["greedy", "uniform", *(f"arm={arm}" for arm in log.arms)]
        evaluations = [offline.evaluate(log, name) for name in dict.fromkeys(names)]
        logged = offline.evaluate_logged(log)
    if json:
        _print_json(log, logged, evaluations)
    else:
        _print_table(log, logged, evaluations)


def _read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the decisions of an export or of a store."""
    from posse import offline

    if _is_store(path):
        with require_live_extra():
            from posse.live.store import read_snapshot
        with read_snapshot(path) as snapshot:
            yield from snapshot.decisions
        return
    yield from offline.read_rows(path)


def _is_store(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(SQLITE)) == SQLITE


def _print_json(log: Log, logged: Estimate, evaluations: list[Evaluation]) -> None:
    import json
    from dataclasses import asdict

    answer = {
        "decisions": len(log.played),
        "left_out": dict(log.left_out),
        "logged": asdict(logged),
        "policies": [asdict(evaluation) for evaluation in evaluations],
    }
    typer.echo(json.dumps(_replace_nan(answer), ensure_ascii=False, indent=2))


def _replace_nan(value: Any) -> Any:
    """Replace numbers that JSON does not have by null."""
    if isinstance(value, dict):
        return {key: _replace_nan(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_nan(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print_table(log: Log, logged: Estimate, evaluations: list[Evaluation]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("policy", overflow="fold")  # with a long name only this column gets narrower
    table.add_column("estimator", no_wrap=True)
    for title in ("value", "95% interval", "weight", "effective\ndecisions"):
        table.add_column(title, justify="right", no_wrap=True)
    _add_row(table, "as logged", "mean", logged)
    for evaluation in evaluations:
        for name, estimate in evaluation.estimates.items():
            _add_row(table, evaluation.policy, name, estimate)
    typer.echo(f"{len(log.played):,} decisions")
    for reason, number in log.left_out.items():
        if number:
            typer.echo(f"left out: {number:,} {reason}")
    typer.echo()
    Console(soft_wrap=True, highlight=False).print(table)
    for evaluation in evaluations:
        for warning in evaluation.warnings:
            typer.echo(f"! {evaluation.policy}: {warning}")


def _add_row(table: Any, policy: str, name: str, estimate: Estimate) -> None:
    from rich.markup import escape

    table.add_row(
        escape(policy),
        name,
        f"{estimate.value:.4g}",
        f"{estimate.low:.4g} to {estimate.high:.4g}",
        f"{estimate.weight:.2f}",
        f"{estimate.effective_samples:,.0f}",
    )
