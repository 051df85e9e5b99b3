"""The mean regret of a result in a sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    """The mean regret per agent at the horizon, its standard error and its 95% interval."""

    mean: float
    standard_error: float
    low: float
    high: float
    runs: int
    horizon: int

    def __str__(self) -> str:
        where = f"regret per agent at round {self.horizon}: {self.pair()}"
        if self.runs == 1:
            return f"{where} (1 run, no interval)"
        return f"{where} (95% interval {self.interval()}, {self.runs} runs)"

    def interval(self) -> str:
        """Write the ends of the 95% interval, in as many digits as the error allows."""
        low, high = (_rounded(end, self.standard_error) for end in (self.low, self.high))
        return f"{low} to {high}"

    def pair(self) -> str:
        """Write the mean ± the standard error, in as many digits as the error allows."""
        mean = _rounded(self.mean, self.standard_error)
        if self.runs == 1:
            return mean
        return f"{mean} ± {_rounded(self.standard_error, self.standard_error)}"


def _rounded(value: float, error: float) -> str:
    """Write a number in as many decimals as give its error two digits."""
    if not error > 0:  # none or unknown
        return f"{value:.6g}"
    return f"{value:.{max(0, 1 - math.floor(math.log10(error)))}f}"
