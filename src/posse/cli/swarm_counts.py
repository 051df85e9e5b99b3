"""How a swarm ended: whether what was acknowledged is what was counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from posse.live.swarm import Count, Swarm


def say_counts(made: Swarm, counts: list[Count], near: int) -> bool:
    """Say how it ended; whether it ended well."""
    from posse.live.swarm import apart, pulls

    counted, held = sum(pulls(c.own) for c in counts), [pulls(c.held) for c in counts]
    exact = all(count.exact for count in counts)
    typer.echo(f"{made.acknowledged} acknowledged {'=' if exact else 'IS NOT'} {counted} counted")
    for count in counts:
        if not count.exact:
            typer.echo(f"{count.name}: {_difference(count)}")
    for mistake in made.mistakes:
        typer.echo(mistake)
    together = apart(counts) <= near
    typer.echo(
        "every agent holds the evidence of all of them"
        if together
        else f"the agents do not agree: they hold {min(held)} to {max(held)}"
    )
    return exact and together and not made.mistakes


def _difference(count: Count) -> str:
    if count.lost > 0:
        return f"{count.lost} acknowledged rewards are lost"
    if count.lost < 0:
        return f"{-count.lost} rewards were never acknowledged, or are counted twice"
    return "as many rewards as were acknowledged, but others"
