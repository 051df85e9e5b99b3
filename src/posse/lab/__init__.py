"""The lab: simulate, compare, store and plot."""

from posse.lab.compiled.plan import compiled_parts
from posse.lab.results import Comparison, Result, Summary
from posse.lab.simulation import compare, simulate
from posse.lab.statistics import mean_interval, paired_difference
from posse.lab.storage import load

__all__ = [
    "Comparison",
    "Result",
    "Summary",
    "compare",
    "compiled_parts",
    "load",
    "mean_interval",
    "paired_difference",
    "simulate",
]
