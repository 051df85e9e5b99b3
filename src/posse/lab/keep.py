"""What `keep=` can keep of each run besides regret and pulls: the table of names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from posse import checks
from posse.bandits import AnyBandit, ContextualBandit


class Kept(NamedTuple):
    """A kind of array that a result may hold: the property it is read by, and its axes."""

    attribute: str
    dims: tuple[str, ...]  # those of one simulation are told by their names, the others are free


KEEP: dict[str, Kept] = {
    "agents": Kept("agent_regret", ("run", "agent", "time")),
    # without agents where all have the same, without time where nothing drifts
    "means": Kept("means", ("run", "time", "agent", "arm")),
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


def dims_of(name: str, drifts: bool, per_agent: bool) -> tuple[str, ...]:
    """The axes of what is kept, given whether the true means drift and differ by agent."""
    absent = {"time": not drifts, "agent": not per_agent} if name == "means" else {}
    return tuple(dim for dim in KEEP[name].dims if not absent.get(dim))


def dims_in(name: str, n_axes: int, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The axes of an array of a result, told by its settings; three of means are of either kind."""
    bandit = settings.get("bandit")
    drifts = isinstance(bandit, Mapping) and ("drift" in bandit or "contexts" in bandit)
    return dims_of(name, drifts, per_agent=n_axes > 2 + drifts)


def numbers_a_run(name: str, sizes: Mapping[str, int], bandit: AnyBandit) -> int:
    """How many numbers one run keeps: sizes of the axes but that of runs, by name."""
    changes = bandit.drift is not None or isinstance(bandit, ContextualBandit)
    dims = dims_of(name, changes, bandit.per_agent)
    return math.prod(sizes[dim] for dim in dims[1:])
