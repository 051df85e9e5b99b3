"""The lab: simulate, compare, store and plot."""

from posse.lab.comparisons import Comparison
from posse.lab.compiled.plan import compiled_parts
from posse.lab.joining import concat
from posse.lab.results import Result
from posse.lab.simulation import compare, simulate
from posse.lab.statistics import mean_interval, paired_difference
from posse.lab.storage import load
from posse.lab.summaries import Summary
from posse.lab.work.executors import dask_cluster, processes

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
