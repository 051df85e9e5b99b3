"""How regret grows at the end of a panel: like ln t, faster, or slower than anything can for long.

A slope is taken over one window everywhere, the later half of ln t from a tenth of the horizon on.
"""

from __future__ import annotations

from posse.lab.results import Result
from posse.lab.statistics import Growth, growth

LOGARITHMIC, FASTER, UNDECIDED = "logarithmic", "faster than logarithmic", "undecided"
BELOW = "below the Lai-Robbins line"
WHY_BELOW = (
    "A slope below the Lai-Robbins line cannot last: in the long run no algorithm that learns on "
    "every problem stays below it. These rounds are too few to show that; and where beliefs are "
    "surer than their evidence allows, as merged ones are, agents explore less than they must."
)

# Slopes of the two halves that differ by less than this share count as one slope. Regret like
# t^0.25 would show 0.28, like the square root of t 0.57.
SAME_SLOPE = 0.25


def rate(fit: Growth, least: float) -> str:
    """The word for a curve, each decided by 95% intervals.

    least: the slope of Lai and Robbins. Significantly below it no rate can be told; a slope that
    significantly rises is faster than ln t; one whose rise is surely less than SAME_SLOPE is
    logarithmic; between these the runs do not decide.
    """
    if fit.late.high < least:
        return BELOW
    if not fit.is_logarithmic(least):
        return FASTER
    if fit.acceleration.high <= SAME_SLOPE * fit.slope.mean:
        return LOGARITHMIC
    return UNDECIDED


def window(result: Result) -> tuple[int, int]:
    """The first and last round of the window of slopes."""
    return growth(result).late_rounds
