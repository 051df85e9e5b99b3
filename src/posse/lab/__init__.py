"""The lab: simulate, compare, store and plot."""

from posse.lab.comparisons import Comparison
from posse.lab.compiled.registry import compiled_parts
from posse.lab.concatenation import concat
from posse.lab.jobs import dask_cluster, processes
from posse.lab.results import Result, Summary
from posse.lab.simulator import compare, simulate
from posse.lab.statistics import mean_interval, paired_difference
from posse.lab.storage import load

__all__ = [
    "Comparison",
    "Result",
    "Summary",
    "compare",
    "compiled_parts",
    "concat",
    "dask_cluster",
    "load",
    "mean_interval",
    "paired_difference",
    "processes",
    "simulate",
]
