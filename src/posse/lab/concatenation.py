"""Concatenation: runs 0 to 49 and runs 50 to 99 of one simulation equal its 100 runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, overload

import numpy as np

from posse import validation
from posse.lab import run_ranges as ranges
from posse.lab.comparisons import Comparison
from posse.lab.results import Result


@overload
def concat(parts: Iterable[Result]) -> Result: ...
@overload
def concat(parts: Iterable[Comparison]) -> Comparison: ...
def concat(parts: Any) -> Any:
    """Join results of one simulation that hold different runs, in any order, without a gap.

    Equal to one call with all the runs, settings included. Parts of different simulations are
    refused.

    >>> bandit, network = posse.Bandit.bernoulli([0.7, 0.5, 0.3]), posse.networks.cycle(5)
    >>> task = bandit, network, posse.Decentralized(posse.ThompsonSampling())
    >>> parts = [posse.simulate(*task, horizon=9, runs=range(n, n + 5)) for n in (0, 5)]
    >>> bool((posse.concat(parts).regret == posse.simulate(*task, horizon=9, runs=10).regret).all())
    True
    """
    items: list[Any] = list(parts) if isinstance(parts, Iterable) else []
    if not items or not all(isinstance(part, Result | Comparison) for part in items):
        raise ValueError(
            "parts must be results such as [first, second] of simulate(..., runs=range(...)), "
            f"got {validation.format_value(parts)}"
        )
    if len({type(part) for part in items}) > 1:
        raise ValueError("parts must be only results or only comparisons, got both")
    if isinstance(items[0], Result):
        return _join_results(items)
    names = list(items[0])
    for part in items:
        if list(part) != names:
            raise ValueError(
                "parts must compare the same algorithms in the same order, got "
                f"{', '.join(names)} and {', '.join(part)}"
            )
    results = {name: _join_results([part[name] for part in items], f"{name}: ") for name in names}
    return Comparison(results)


def select_runs(result: Result, runs: range) -> Result:
    """Select some runs of a result by their numbers: equal to one call with those runs."""
    if runs == result.run_numbers:
        return result
    first = result.run_numbers.start
    part = slice(runs.start - first, runs.stop - first)
    return Result(
        result.times,
        result.curves[part],
        result.pulls[part],
        result.engine,
        result.settings | {"runs": ranges.encode_runs(runs)},
        {name: array[part] for name, array in result.kept.items()},
    )


def _join_results(parts: Sequence[Result], prefix: str = "") -> Result:
    """Join results of one simulation, in the order of their runs."""
    ordered = sorted(parts, key=lambda part: part.run_numbers.start)
    first = ordered[0]
    for part in ordered[1:]:
        _check_same_simulation(first, part, prefix)
    # Run r is the same in every part, so that parts in order, without gap or overlap, are one call.
    for before, after in pairwise(part.run_numbers for part in ordered):
        if before.stop != after.start:
            both = f"{ranges.describe_runs(before)} and {ranges.describe_runs(after)}"
            why = "overlap" if after.start < before.stop else "leave a gap"
            raise ValueError(f"{prefix}{both} {why}: parts must hold each run once, without a gap")
    runs = range(first.run_numbers.start, ordered[-1].run_numbers.stop)
    kept = {name: np.concatenate([part.kept[name] for part in ordered]) for name in first.kept}
    return Result(
        first.times,
        np.concatenate([part.curves for part in ordered]),
        np.concatenate([part.pulls for part in ordered]),
        first.engine,
        first.settings | {"runs": ranges.encode_runs(runs)},
        kept,
    )


def _check_same_simulation(first: Result, part: Result, prefix: str) -> None:
    """Refuse results of different simulations."""
    keys = [key for key in {**first.settings, **part.settings} if key != "runs"]
    differing = [key for key in keys if first.settings.get(key) != part.settings.get(key)]
    if first.engine != part.engine and "engine" not in differing:
        differing.append("engine")
    if not np.array_equal(first.times, part.times):
        differing.append("recorded rounds")
    if list(first.kept) != list(part.kept) and "keep" not in differing:
        differing.append("keep")
    if first.pulls.shape[1:] != part.pulls.shape[1:] and not differing:
        differing.append("numbers of agents or arms")
    if differing:
        both = " and ".join(ranges.describe_runs(result.run_numbers) for result in (first, part))
        raise ValueError(
            f"{prefix}{both} are of different simulations: they differ in {', '.join(differing)}"
        )
