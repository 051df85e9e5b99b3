"""The arena's report in words: who wins, how sure that is, and what these runs cannot show."""

from __future__ import annotations

from posse.lab.arena.data import YOURS, ArenaReport, Standing
from posse.lab.arena.page.marks import plain
from posse.lab.pages.formats import counted, interval
from posse.lab.pages.words import listed


def headline(report: ArenaReport) -> str:
    """Who wins over all instances, and how sure that is."""
    ranked = [each for each in report.standings if each.rank is not None]
    if not report.instances or not ranked:
        return "Nothing was played, so there is nothing to rank."
    if len(ranked) == 1:
        return f"{_name(ranked[0])} played alone: there is nobody to compare it with."
    first = [each for each in ranked if each.rank == 1] or ranked[:1]
    on = f"{counted(len(report.instances), 'instance')}"
    if len(first) == 1:
        played = first[0].instances
        but = "" if played == len(report.instances) else f" (it plays {played:,} of them)"
        return (
            f"{_name(first[0])} ranks first in mean regret over {on}{but}: nobody is better beyond "
            "doubt, and everybody else is beaten by somebody."
        )
    names = listed([_name(each) for each in first])
    return (
        f"{names} share the first place in mean regret over {on}: nobody is better than any of "
        "them beyond doubt."
    )


def details(report: ArenaReport) -> list[str]:
    """What the first and the reader's own have done, a sentence each."""
    ranked = [each for each in report.standings if each.rank is not None]
    if len(ranked) < 2:
        return []
    first = ranked[0]
    own = [each for each in ranked if each.source == YOURS and each is not first]
    return [_standing(each, report, len(ranked)) for each in [first, *own]]


def caution(report: ArenaReport) -> str:
    """What stands against reading more into the result, in a sentence, if anything does."""
    found = []
    shorter = sum(each.horizon < each.full_horizon for each in report.instances)
    if shorter:
        found.append(f"{shorter} of {counted(len(report.instances), 'instance')} stopped early")
    if any(score.percentile_99 is None for each in report.instances for score in each.scores):
        found.append(f"the tails do not show in {counted(report.made.runs, 'run')}")
    if not found:
        return ""
    form = f"{report.made.mode.capitalize()} form: {', and '.join(found)}."
    return f"{form} What else these runs cannot show stands below the ranks."


def _standing(standing: Standing, report: ArenaReport, ranked: int) -> str:
    who = f"{_name(standing)} (yours)" if standing.source == YOURS else _name(standing)
    ahead = {1: "nobody is", 2: "one is"}.get(standing.rank or 1, f"{(standing.rank or 1) - 1} are")
    rank = f"{who} has rank {standing.rank} of {ranked} ({ahead} better beyond doubt)"
    if standing.algorithm == report.reference or standing.ratio is None:
        return f"{rank}; it is what the others are compared with." if standing.ratio else f"{rank}."
    ratio = interval(standing.ratio, standing.ratio_low, standing.ratio_high, 3)
    where = f"on {standing.instances} of {counted(len(report.instances), 'instance')}"
    return (
        f"{rank}: {ratio} times the regret of {report.reference} (geometric mean, 95% interval) "
        f"{where}; after Holm's correction better than {report.reference} on {standing.better}, "
        f"worse on {standing.worse}, undecided on {standing.undecided}."
    )


def _name(standing: Standing) -> str:
    return plain(standing.algorithm, standing.source)
