"""Values read off the authors' figures, to 0.05, and whether ours agree with them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from posse.lab.paper.data import PublishedValue
from posse.lab.paper.runs import PUBLISHED_ROUNDS, Outcome
from posse.lab.statistics import mean_interval

AGREES, DIFFERS, UNDECIDED = "agrees", "differs", "undecided"

# dec-TS on 17 Gaussian arms, regret per agent at PUBLISHED_ROUNDS, means over so many runs:
RUNS = 1000
VALUES = {
    "cycle 36": (7.8, 10.6, 11.7, 12.4, 13.1, 13.8),
    "cycle 64": (7.3, 9.4, 9.7, 9.9, 10.0, 10.2),
    "cycle 100": (7.3, 8.7, 8.9, 8.9, 8.9, 8.9),
    "complete 64": (4.2, 4.9, 5.6, 6.3, 7.0, 7.8),
    "grid 64, published matrix": (8.4, 13.0, 14.9, 15.0, 15.1, 15.1),
}
# Reading a curve adds this much; the time axis of the figures may be one round off, which counts
# while regret still rises steeply.
READING, READING_EARLY = 0.1, 0.3
# Intervals of three standard errors: of 30 values one in a dozen reports would differ by chance.
ERRORS = 3
# An interval that is wider to each side than this share of the value tells nothing.
WIDE = 0.1


def compare(outcome: Outcome) -> list[PublishedValue]:
    """Each published value beside ours; theirs has the error of ours at 1000 runs."""
    rows = []
    for name, values in VALUES.items():
        if name not in outcome.results:
            continue
        result = outcome.results[name]
        mean, error, _, _ = mean_interval(result.regret)
        for time, value in zip(PUBLISHED_ROUNDS, values, strict=True):
            (column,) = (result.times == time).nonzero()[0]
            ours, standard_error = float(mean[column]), float(error[column])
            both = standard_error * math.sqrt(1 + result.runs / RUNS)
            reading = READING_EARLY if time < PUBLISHED_ROUNDS[1] else READING
            rows.append(
                PublishedValue(
                    curve=name,
                    time=time,
                    published=value,
                    ours=ours,
                    standard_error=standard_error,
                    difference=ours - value,
                    in_errors=(ours - value) / both if both > 0 else None,
                    verdict=_verdict(ours - value, ERRORS * both, reading, WIDE * value),
                )
            )
    return rows


def sentence(rows: Sequence[PublishedValue], runs: int) -> str:
    """How many values agree at how many runs, and which do not."""
    agree = sum(row.verdict == AGREES for row in rows)
    text = f"{agree} of {len(rows)} published values agree with ours at {runs:,} runs"
    for verdict in (DIFFERS, UNDECIDED):
        found = [f"{row.curve} at t = {row.time}" for row in rows if row.verdict == verdict]
        if found:
            text += f"; {verdict}: {', '.join(found)}"
    return text


def _verdict(difference: float, margin: float, reading: float, wide: float) -> str:
    """Differs when the whole interval is farther off than reading explains."""
    if abs(difference) > reading + margin:
        return DIFFERS
    return AGREES if margin <= wide else UNDECIDED
