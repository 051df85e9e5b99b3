"""Contenders measured in turns, and the rows of the table that come of it."""

from __future__ import annotations

import time
from collections.abc import Callable

import posse

Row = dict[str, object]


def time_interleaved(
    contenders: dict[str, Callable[[], object]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """The best time of each contender, in seconds, all of them measured in turns."""
    best = dict.fromkeys(contenders, float("inf"))
    for round_ in range(rounds + 1):
        for name, run in contenders.items():
            start = clock()
            run()
            if round_ > 0:  # the first round warms caches up
                best[name] = min(best[name], clock() - start)
    return best


def build_simulation(
    bandit, network, algorithm, horizon, runs, threads=1, engine="auto", activity=None
):
    return lambda: posse.simulate(
        bandit, network, algorithm, horizon=horizon, runs=runs, threads=threads, engine=engine,
        activity=activity,
    )  # fmt: skip


def ratio(
    what: str, must: float, stretch: float | None, times: dict[str, tuple[float, float]]
) -> Row:
    """A row from the time and the agent-steps of two contenders, the yardstick first."""
    (slow, slow_steps), (fast, fast_steps) = times.values()
    return {
        "what": what,
        "ratio": (slow / slow_steps) / (fast / fast_steps),
        "must": must,
        "stretch": stretch,
        "ns_per_agent_step": {name: 1e9 * t / steps for name, (t, steps) in times.items()},
    }


def compare_with_plain(what, must, stretch, rounds, plain, ours, clock=time.perf_counter) -> Row:
    """A row from two contenders, each (function, agent-steps)."""
    best = time_interleaved({"plain": plain[0], "posse": ours[0]}, rounds, clock)
    return ratio(
        what,
        must,
        stretch,
        {"plain": (best["plain"], plain[1]), "posse": (best["posse"], ours[1])},
    )
