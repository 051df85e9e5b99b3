"""Results as notebooks show them: a small table of final regrets."""

from __future__ import annotations

from posse import markup
from posse.lab.comparisons import Comparison
from posse.lab.results import Result

_HEADERS = ("regret", "standard error", "95% interval")


def of_result(result: Result) -> str:
    """The final regret of one algorithm."""
    return markup.table(_size(result, result.engine), _HEADERS, [_numbers(result)])


def of_comparison(comparison: Comparison) -> str:
    """A row for each algorithm: its final regret, and its engine where they differ."""
    first = next(iter(comparison.values()))
    headers = ["algorithm", *_HEADERS, *(["engine"] if comparison.is_mixed else [])]
    rows = [
        [name, *_numbers(result), *([result.engine] if comparison.is_mixed else [])]
        for name, result in comparison.items()
    ]
    return markup.table(_size(first, comparison.engine), headers, rows)


def _numbers(result: Result) -> list[str]:
    """Mean, standard error and interval, in as many digits as the error allows."""
    summary = result.summary()
    mean, *error = summary.pair().split(" ± ")
    return [mean, error[0], summary.interval()] if error else [mean, "", ""]  # "" of one run


def _size(result: Result, engine: str) -> str:
    return (
        f"Regret per agent at round {result.horizon:,}: {result.runs:,} runs, "
        f"{result.n_agents:,} agents, {result.n_arms:,} arms, engine {engine}"
    )
