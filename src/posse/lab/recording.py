"""What is recorded of a simulation: the rounds, and whether memory can hold it all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posse import checks
from posse.bandits import AnyBandit
from posse.calibration import SIGNS
from posse.families.family import Model
from posse.lab import keep as keeping
from posse.networks.network import Network


def points(record: Any, horizon: int) -> int:
    """How many rounds are recorded at most, counted without listing them."""
    count = horizon if record is None else record if np.ndim(record) == 0 else np.size(record)
    return int(count) if isinstance(count, int | np.integer) and count < horizon else horizon


def axes(bandit: AnyBandit, network: Network, points: int, model: Model) -> dict[str, int]:
    """The sizes of the axes of what may be kept of a run, for an algorithm with this model."""
    return {
        "time": points,
        "agent": network.n_agents,
        "arm": bandit.n_arms,
        "coordinate": keeping.coordinates_of(model),
        "sketch": 1 + SIGNS,
    }


def check_size(
    bandit: AnyBandit,
    network: Network,
    runs: int,
    points: int,
    keep: tuple[str, ...] = (),
    models: Sequence[Model] = (),
) -> None:
    """Refuse at once what no memory could hold at the end.

    models: what each algorithm believes in; one that believes in the bandit's family if not given.
    """
    numbers = 0.0
    for model in models or [bandit.family]:
        sizes = axes(bandit, network, points, model)
        kept = sum(keeping.numbers_a_run(name, sizes, bandit) for name in keep)
        numbers += points + kept + sizes["agent"] * sizes["arm"] / 2  # pulls are half as long
    gigabytes, room = runs * 8 * numbers / 1e9, memory()
    if gigabytes > room:
        what = ", ".join(["curves", "pulls", *keep])
        raise ValueError(
            f"runs is {runs}, whose {what} take {gigabytes:.3g} GB of {room:.3g} GB of memory: "
            "take fewer runs, or keep fewer rounds with record="
        )


def memory() -> float:
    """The memory of this machine in GB; 100 where it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    except (AttributeError, ValueError, OSError):  # not on Windows
        return 100.0


def recorded_rounds(record: int | ArrayLike | None, horizon: int) -> NDArray[np.int64]:
    """The rounds to record, ascending and ending at the horizon."""
    if record is None:
        return np.arange(1, horizon + 1)
    if np.ndim(record) == 0:
        count = checks.whole("record", record, at_least=1)
        if count >= horizon:
            return np.arange(1, horizon + 1)
        if count == 1:
            return np.array([horizon])
        spaced = np.round(np.geomspace(1, horizon, count)).astype(np.int64)
        # early rounds coincide after rounding: push each past the one before it
        steps = np.arange(count)
        return np.maximum.accumulate(spaced - steps) + steps
    rounds = np.asarray(record)
    valid = rounds.ndim == 1 and rounds.size > 0 and np.issubdtype(rounds.dtype, np.integer)
    if isinstance(record, list | tuple):  # among numbers NumPy takes True for 1
        valid = valid and not any(isinstance(item, bool | np.bool_) for item in record)
    if not valid or np.any(np.diff(rounds) <= 0) or rounds[0] < 1 or rounds[-1] > horizon:
        raise ValueError(
            f"record must be a number of points, or increasing whole rounds from 1 to {horizon}"
        )
    ends = rounds if rounds[-1] == horizon else np.append(rounds, horizon)
    return ends.astype(np.int64)
