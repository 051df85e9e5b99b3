"""What `keep=` can keep of each run besides regret and pulls: the table of names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from posse import checks


class Kept(NamedTuple):
    """A kind of array that a result may hold: the property it is read by, and its axes."""

    attribute: str
    dims: tuple[str, ...]  # those of one simulation are told by their names, the others are free


KEEP: dict[str, Kept] = {
    "agents": Kept("agent_regret", ("run", "agent", "time")),
    "means": Kept("means", ("run", "arm")),
    "messages": Kept("numbers_sent", ("run", "time")),
    "beliefs": Kept("beliefs", ("run", "time", "coordinate", "agent", "arm")),
    "signs": Kept("signs", ("run", "time", "sketch", "agent", "arm")),
}


def checked(keep: Any) -> tuple[str, ...]:
    """Names of KEEP, each once and in its order; one name may be given as plain text."""
    if isinstance(keep, str):
        keep = (keep,)
    if not isinstance(keep, Iterable):
        raise ValueError(f'keep must be names such as ("agents", "means"), got {keep!r}')
    names = {checks.choice("keep", name, KEEP) for name in keep}
    return tuple(name for name in KEEP if name in names)


def coordinates_of(family: Any) -> int:
    """The number of coordinates of a belief; 2, as most have, for a family without beliefs."""
    return len(family.prior()) if hasattr(family, "prior") else 2


def numbers_a_run(name: str, sizes: dict[str, int]) -> int:
    """How many numbers one run keeps: sizes of the axes but that of runs, by name."""
    count = 1
    for axis in KEEP[name].dims[1:]:
        count *= sizes[axis]
    return count
