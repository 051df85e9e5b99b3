"""A comparison in words: title, headline, facts, and hints for the next report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posse.lab import run_ranges as ranges
from posse.lab.comparisons import Comparison
from posse.lab.report.charts import shorten_name
from posse.lab.report.scoreboard import UNDECIDED, Scoreboard, ScoreRow
from posse.lab.report.text import (
    count_things,
    format_interval,
    format_number,
    list_names,
    warn_few_runs,
)
from posse.lab.results import Result

_MOST_LETTERS = 60  # letters of a name in a sentence


def short_name(name: str) -> str:
    """Shorten a name for the middle of a sentence."""
    return shorten_name(name, _MOST_LETTERS)


def write_title(comparison: Comparison) -> str:
    """Write a title for a report that was given none."""
    first = next(iter(comparison.values()))
    names = list_names([shorten_name(name) for name in comparison])
    return f"{names}: {count_things(first.n_agents, 'agent')}, {count_things(first.n_arms, 'arm')}"


def name_of(result: Result) -> str:
    """Name a single result by its algorithm, where the settings tell it."""
    return _part_name(result.settings.get("algorithm"), "name") or "algorithm"


def write_headline(scoreboard: Scoreboard, horizon: int) -> str:
    """Say which algorithm loses least, and how sure that is."""
    lowest = scoreboard.reference_row
    assert lowest is not None
    name = short_name(lowest.algorithm)
    mean, _, low, high = lowest.regret
    runs = lowest.runs
    by = f"per agent by round {horizon:,}"
    others = [row for row in scoreboard.rows if row is not lowest]
    if all(row.regret.mean == 0 for row in scoreboard.rows):
        return f"Nothing is lost by round {horizon:,}: the regret of every run is 0."
    if not others and runs == 1:
        return f"{name} loses {format_number(mean)} {by}, in the only run."
    if not others:
        estimate = format_interval(mean, low, high)
        return f"{name} loses {estimate} {by}: the mean of {runs:,} runs and its 95% interval."
    # No claim without significance: the lowest mean alone decides nothing.
    doubtful = [row for row in others if row.verdict == UNDECIDED]
    lead = f"{name} has the lowest mean regret, {format_number(mean)} {by}"
    if too_few := warn_few_runs(runs):
        return f"{lead}; but {too_few[0].lower()}{too_few[1:]}"
    if doubtful:
        names = list_names([short_name(row.algorithm) for row in doubtful])
        return f"{lead}; but {runs:,} runs do not tell it from {names}."
    if len(others) == 1:
        second = f"{format_number(others[0].regret.mean)} of {short_name(others[0].algorithm)}"
        return f"{lead}: less than the {second}, beyond doubt."
    return f"{lead}: less than each of the other {len(others)}, beyond doubt."


def describe_worst_run(row: ScoreRow) -> str:
    """Say how bad single runs of an algorithm get."""
    tail = row.tail
    if row.runs == 1 or tail.worst_run == 0:
        return ""
    return (
        f"Of its runs, half lose {format_number(tail.median_run)} or less; the worst, "
        f"run {tail.worst_run_number:,}, loses {format_number(tail.worst_run)}."
    )


def list_facts(comparison: Comparison) -> list[str]:
    """List runs, rounds, agents, arms, seed, engine and versions, as far as they are known."""
    first = next(iter(comparison.values()))
    runs = first.run_numbers
    candidates = [
        count_things(first.runs, "run") if runs.start == 0 else ranges.describe_runs(runs),
        count_things(first.horizon, "round"),
        f"{count_things(first.n_agents, 'agent')}{_common_text(comparison, _describe_graph)}",
        f"{count_things(first.n_arms, 'arm')}{_common_text(comparison, _describe_rewards)}",
        _common_text(comparison, _describe_seed),
        f"engine {comparison.engine}",
        _common_text(comparison, _describe_versions),
    ]
    return [fact for fact in candidates if fact]


def hint_at_keep(first: Result) -> str:
    """Hint at `keep=` for the arrays that this report could have shown, in one sentence."""
    meanings = {"agents": "regrets of single agents", "messages": "numbers sent"}
    # One agent sends nothing, and is the average of itself: there is nothing to keep.
    names = [name for name in meanings if name not in first.kept]
    if not names or first.n_agents == 1:
        return ""
    what = " and ".join(meanings[name] for name in names)
    quoted = ", ".join(map(_quote_name, names))
    comma = "," if len(names) == 1 else ""
    return (
        f"{what[0].upper()}{what[1:]} were not kept: keep=({quoted}{comma}) of posse.compare, or "
        f"keep = [{quoted}] in a file, keeps them for the next report."
    )


def explain_engines(comparison: Comparison) -> str:
    """Explain what mixed engines mean for paired differences; empty for one engine."""
    if not comparison.is_mixed:
        return ""
    by: dict[str, list[str]] = {}
    for name, result in comparison.items():
        by.setdefault(result.engine, []).append(short_name(name))
    groups = "; ".join(
        f"{list_names(names)} on the engine {engine}" for engine, names in by.items()
    )
    return (
        f"Engines differ ({groups}): pairs across them share means and graphs but not rewards, so "
        'their differences are as true but less sharp; engine="reference" for all makes them sharp.'
    )


def _common_text(comparison: Comparison, read: Any) -> str:
    """Give the text that all settings agree on, else nothing."""
    # A comparison may hold results of several networks or versions: then no fact is shared.
    texts = {read(result.settings) for result in comparison.values()}
    return texts.pop() if len(texts) == 1 else ""


def _describe_graph(settings: Mapping[str, Any]) -> str:
    name = _part_name(settings.get("network"), "graph")
    return f" on {name}" if name else ""


def _describe_rewards(settings: Mapping[str, Any]) -> str:
    bandit = settings.get("bandit")
    if not isinstance(bandit, Mapping):
        return ""
    family = bandit.get("family")
    name = family if isinstance(family, str) else _part_name(family, "name")
    worlds = {"drift": "means drift", "site_sd": "sites differ", "delay": "rewards come late"}
    properties = [f"{name} rewards"] if name else []
    properties += [word for key, word in worlds.items() if key in bandit]
    return "".join(f", {text}" for text in properties)


def _describe_seed(settings: Mapping[str, Any]) -> str:
    return f"seed {settings['seed']}" if "seed" in settings else ""


def _describe_versions(settings: Mapping[str, Any]) -> str:
    versions = settings.get("versions")
    if not isinstance(versions, Mapping):
        return ""
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _part_name(data: Any, key: str) -> str:
    """Give the short name of a part: "Mine" of "module:Mine"."""
    name = data.get(key) if isinstance(data, Mapping) else None
    return shorten_name(name.rpartition(":")[2]) if isinstance(name, str) else ""


def _quote_name(name: str) -> str:
    return f'"{name}"'
