"""Values read off the authors' figures, to 0.05, and whether ours agree with them."""

from __future__ import annotations

import math
from typing import Any

from posse.lab.paper.runs import PUBLISHED_ROUNDS, Outcome
from posse.lab.statistics import mean_interval

# dec-TS on 17 Gaussian arms, 1000 runs, regret per agent at PUBLISHED_ROUNDS.
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


def compare(outcome: Outcome) -> list[dict[str, Any]]:
    """Each published value beside ours; theirs has an error like ours."""
    rows = []
    for name, values in VALUES.items():
        if name not in outcome.results:
            continue
        result = outcome.results[name]
        mean, error, _, _ = mean_interval(result.regret)
        for time, value in zip(PUBLISHED_ROUNDS, values, strict=True):
            (column,) = (result.times == time).nonzero()[0]
            ours, standard_error = float(mean[column]), float(error[column])
            difference = ours - value
            early = time < PUBLISHED_ROUNDS[1]
            allowed = READING_EARLY if early else 3 * math.sqrt(2) * standard_error + READING
            rows.append(
                {
                    "curve": name,
                    "time": time,
                    "published": value,
                    "ours": ours,
                    "standard_error": standard_error,
                    "difference": difference,
                    "in_errors": difference / (math.sqrt(2) * standard_error),
                    "agrees": abs(difference) <= allowed,
                }
            )
    return rows
