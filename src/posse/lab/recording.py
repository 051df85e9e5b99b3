"""What is recorded of a simulation: the rounds, and whether memory can hold it all."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.algorithms import ALGORITHMS, CONTEXTUAL, Centralized, Decentralized
from posse.algorithms.bayesian import BayesianAlgorithm
from posse.bandits import AnyBandit, ContextualBandit
from posse.effective_samples import SIGNS
from posse.families.family import Model, is_contextual
from posse.lab import simulation as keeping
from posse.networks.network import Network
from posse.validation import detect_memory, format_gigabytes


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
    """Refuse results that memory cannot hold, with the settings that would make them fit.

    models: what each algorithm believes in; one that believes in the bandit's family if not given.
    """
    models = models or [bandit.family]

    def count_bytes(runs: int, points: int, keep: tuple[str, ...]) -> float:
        sizes_of_results = []
        for model in models:
            sizes = axes(bandit, network, points, model)
            kept = sum(keeping.numbers_a_run(name, sizes, bandit) for name in keep)
            pulls = sizes["agent"] * sizes["arm"] / 2  # a pull is half as long as a float
            sizes_of_results.append(8.0 * runs * (points + pulls + kept))
        # Runs are played in blocks, and joining those of one algorithm copies them.
        joined = max(sizes_of_results) if runs > 1 else 0.0
        return 8 * points + sum(sizes_of_results) + joined

    room = detect_memory() * 1e9
    needed = count_bytes(runs, points, keep)
    if needed <= room:
        return
    levers = []
    if most_runs := _largest(runs, lambda value: count_bytes(value, points, keep) <= room):
        levers.append(f"take at most {most_runs} runs")
    if most_points := _largest(points, lambda value: count_bytes(runs, value, keep) <= room):
        levers.append(f"keep fewer rounds with record={min(most_points, 1000)}")
    if keep and count_bytes(runs, points, ()) <= room:
        levers.append("keep less with keep=")
    if not levers:
        smallest = count_bytes(1, 1, ()) <= room
        levers = [
            "take fewer runs and keep fewer rounds with record="
            if smallest
            else f"take fewer than {bandit.n_arms} arms or {network.n_agents} agents"
        ]
    what = ", ".join(["curves", "pulls", *keep])
    raise ValueError(
        f"runs is {runs}, whose {what} take {format_gigabytes(needed / 1e9)} of "
        f"{format_gigabytes(room / 1e9)} of memory: {', or '.join(levers)}"
    )


def check_run(
    bandit: AnyBandit, network: Network, algorithm: Any = None, model: Any = None
) -> None:
    """Refuse a problem of which memory cannot hold one run while it is played.

    Counts what every engine holds at the same time, and no more: the true means, their gaps and
    the order of the arms; the contexts of a round; pulls; the beliefs (or ridge regressions) of one
    of our algorithms.

    algorithm, model: whose beliefs count, and what it believes in; None counts the problem alone.
    """
    n_agents = network.n_agents
    n_arms = bandit.n_arms
    n_features = 0
    numbers = 3.0 * n_arms * (n_agents if bandit.per_agent else 1) + n_agents * n_arms / 2
    if isinstance(bandit, ContextualBandit):
        n_features = bandit.shape[-1]
        numbers += n_agents * math.prod(bandit.shape)
    bayesian = isinstance(algorithm, BayesianAlgorithm)
    if type(algorithm) in CONTEXTUAL.values() or (
        bayesian and type(algorithm) in ALGORITHMS.values()
    ):
        contextual = is_contextual(model)
        n_beliefs = 1 if contextual and model.shared else n_arms
        # The kernels of Centralized hold one belief for all agents; contexts have no kernels.
        n_believers = 1 if isinstance(algorithm, Centralized) and not contextual else n_agents
        # A merge reads the old beliefs while it writes the new ones.
        copies = 2 if isinstance(algorithm, Decentralized) else 1
        numbers += copies * keeping.coordinates_of(model) * float(n_believers) * n_beliefs
    needed = 8 * numbers / 1e9
    room = detect_memory()
    if needed > room:
        sizes = {"agents": n_agents, "arms": n_arms, "features": n_features}
        counted = {name: size for name, size in sizes.items() if size > 1}
        shown = ", ".join(f"{size} {name}" for name, size in counted.items())
        raise ValueError(
            f"one run of {shown} takes {format_gigabytes(needed)} of {format_gigabytes(room)} of "
            f"memory: take fewer {' or '.join(counted)}"
        )


def _largest(below: int, fits: Callable[[int], bool]) -> int:
    """The largest whole number from 1 to below - 1 that fits, or 0; larger ones take more."""
    return bisect.bisect_left(range(1, below), True, key=lambda value: not fits(value))


def check_record(record: Any, horizon: int) -> None:
    """Refuse what names no rounds; listing them is left to `recorded_rounds`."""
    if record is None:
        return
    if np.ndim(record) == 0:
        validation.validate_integer("record", record, at_least=1)
        return
    rounds = np.asarray(record)
    valid = rounds.ndim == 1 and rounds.size > 0 and np.issubdtype(rounds.dtype, np.integer)
    if isinstance(record, list | tuple):  # among numbers NumPy takes True for 1
        valid = valid and not any(isinstance(item, bool | np.bool_) for item in record)
    if not valid or np.any(np.diff(rounds) <= 0) or rounds[0] < 1 or rounds[-1] > horizon:
        raise ValueError(
            f"record must be a number of points, or increasing whole rounds from 1 to {horizon}"
        )


def recorded_rounds(record: Any, horizon: int) -> NDArray[np.int64]:
    """The rounds to record, ascending and ending at the horizon."""
    check_record(record, horizon)
    if record is None:
        return np.arange(1, horizon + 1)
    if np.ndim(record) == 0:
        count = int(record)
        if count >= horizon:
            return np.arange(1, horizon + 1)
        if count == 1:
            return np.array([horizon])
        spaced = np.round(np.geomspace(1, horizon, count)).astype(np.int64)
        # early rounds coincide after rounding: push each past the one before it
        steps = np.arange(count)
        return np.maximum.accumulate(spaced - steps) + steps
    rounds = np.asarray(record)
    ends = rounds if rounds[-1] == horizon else np.append(rounds, horizon)
    return ends.astype(np.int64)
