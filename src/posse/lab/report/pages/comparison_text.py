"""A comparison in words: its title, who loses least and how sure that is, and what was not kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from posse.lab import run_ranges as ranges
from posse.lab.comparisons import Comparison
from posse.lab.report.charts import shortened
from posse.lab.report.scoreboard import LOWEST, UNDECIDED, Final, Tail
from posse.lab.report.text import counted, interval, listed, number, undecided
from posse.lab.results import Result

_LONGEST = 60  # letters of a name in a sentence


def short(name: str) -> str:
    """A name for the middle of a sentence."""
    return shortened(name, _LONGEST)


def title_of(comparison: Comparison) -> str:
    """What a report is called that nobody gave a title."""
    first = next(iter(comparison.values()))
    names = listed([shortened(name) for name in comparison])
    return f"{names}: {counted(first.n_agents, 'agent')}, {counted(first.n_arms, 'arm')}"


def name_of(result: Result) -> str:
    """What a result is called that stands alone: by its algorithm, where the settings tell it."""
    return _name(result.settings.get("algorithm"), "name") or "algorithm"


def headline(rows: Sequence[Final]) -> str:
    """Who loses least, and how sure that is."""
    (lowest,) = [row for row in rows if row.verdict == LOWEST]
    name = short(lowest.name)
    s = lowest.summary
    by = f"per agent by round {s.horizon:,}"
    others = [row for row in rows if row is not lowest]
    if all(row.summary.mean == 0 for row in rows):
        return f"Nothing is lost by round {s.horizon:,}: the regret of every run is 0."
    if not others and s.runs == 1:
        return f"{name} loses {number(s.mean)} {by}, in the only run."
    if not others:
        mean = interval(s.mean, s.low, s.high)
        return f"{name} loses {mean} {by}: the mean of {s.runs:,} runs and its 95% interval."
    doubtful = [row for row in others if row.verdict == UNDECIDED]
    lead = f"{name} has the lowest mean regret, {number(s.mean)} {by}"
    if few := undecided(s.runs):
        return f"{lead}; but {few[0].lower()}{few[1:]}"
    if doubtful:
        names = listed([short(row.name) for row in doubtful])
        return f"{lead}; but {s.runs:,} runs do not tell it from {names}."
    if len(others) == 1:
        other = f"{number(others[0].summary.mean)} of {short(others[0].name)}"
        return f"{lead}: less than the {other}, beyond doubt."
    return f"{lead}: less than each of the other {len(others)}, beyond doubt."


def worst_run(row: Tail) -> str:
    """How bad it gets for the one that the headline names."""
    if len(row.runs) == 1 or row.worst == 0:
        return ""
    return (
        f"Of its runs, half lose {number(row.median)} or less; the worst, run {row.worst_run:,}, "
        f"loses {number(row.worst)}."
    )


def facts(comparison: Comparison) -> list[str]:
    """What was played, how often and by what, as far as the settings tell."""
    first = next(iter(comparison.values()))
    runs = first.run_numbers
    told = [
        counted(first.runs, "run") if runs.start == 0 else ranges.describe_runs(runs),
        counted(first.horizon, "round"),
        f"{counted(first.n_agents, 'agent')}{_shared(comparison, _graph)}",
        f"{counted(first.n_arms, 'arm')}{_shared(comparison, _rewards)}",
        _shared(comparison, _seed),
        f"engine {comparison.engine}",
        _shared(comparison, _versions),
    ]
    return [fact for fact in told if fact]


def not_kept(first: Result) -> str:
    """How to keep what this report could have shown, in one sentence."""
    shown = {"agents": "regrets of single agents", "messages": "numbers sent"}
    names = [name for name in shown if name not in first.kept]
    if not names or first.n_agents == 1:
        return ""
    what = " and ".join(shown[name] for name in names)
    quoted = ", ".join(map(_quoted, names))
    comma = "," if len(names) == 1 else ""
    return (
        f"{what[0].upper()}{what[1:]} were not kept: keep=({quoted}{comma}) of posse.compare, or "
        f"keep = [{quoted}] in a file, keeps them for the next report."
    )


def across_engines(comparison: Comparison) -> str:
    """What mixed engines mean for differences."""
    if not comparison.is_mixed:
        return ""
    by: dict[str, list[str]] = {}
    for name, result in comparison.items():
        by.setdefault(result.engine, []).append(short(name))
    who = "; ".join(f"{listed(names)} on the engine {engine}" for engine, names in by.items())
    return (
        f"Engines differ ({who}): pairs across them share means and graphs but not rewards, so "
        'their differences are as true but less sharp; engine="reference" for all makes them sharp.'
    )


def _shared(comparison: Comparison, read: Any) -> str:
    """What the settings of all say, where it is the same."""
    said = {read(result.settings) for result in comparison.values()}
    return said.pop() if len(said) == 1 else ""


def _graph(settings: Mapping[str, Any]) -> str:
    name = _name(settings.get("network"), "graph")
    return f" on {name}" if name else ""


def _rewards(settings: Mapping[str, Any]) -> str:
    bandit = settings.get("bandit")
    if not isinstance(bandit, Mapping):
        return ""
    family = bandit.get("family")
    name = family if isinstance(family, str) else _name(family, "name")
    worlds = {"drift": "means drift", "site_sd": "sites differ", "delay": "rewards come late"}
    said = [f"{name} rewards"] if name else []
    said += [word for key, word in worlds.items() if key in bandit]
    return "".join(f", {each}" for each in said)


def _seed(settings: Mapping[str, Any]) -> str:
    return f"seed {settings['seed']}" if "seed" in settings else ""


def _versions(settings: Mapping[str, Any]) -> str:
    told = settings.get("versions")
    if not isinstance(told, Mapping):
        return ""
    return ", ".join(f"{name} {version}" for name, version in told.items())


def _name(data: Any, key: str) -> str:
    """The short name of a part: "Mine" of "module:Mine"."""
    name = data.get(key) if isinstance(data, Mapping) else None
    return shortened(name.rpartition(":")[2]) if isinstance(name, str) else ""


def _quoted(name: str) -> str:
    return f'"{name}"'
