"""Many schedules on all cores, with progress, and a report of each that fails."""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Iterator, Sequence

from simulation.fading import fading_plan_of
from simulation.schedule import Plan, plan_of
from simulation.shrink import shrink
from simulation.verdict import run

CHUNK = 50


def campaign(
    seeds: range,
    exchanges: Sequence[str],
    processes: int | None = None,
    most: int = 5,
    fading: bool = False,
) -> int:
    """Run every seed under every exchange; how many failed, at most so many."""
    began = time.monotonic()
    done = 0
    failed = 0
    made = fading_plan_of if fading else plan_of
    jobs = [(*chunk, fading) for chunk in chunks(seeds, exchanges)]
    total = len(seeds) * len(exchanges)
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes) as pool:
        for played, failures in pool.imap_unordered(_play, jobs):
            done += played
            for seed, exchange in failures:
                failed += 1
                print(report(made(seed, exchange)), flush=True)
                if failed >= most:
                    print(f"stopped after {failed} failures in {done} schedules")
                    return failed
            spent = time.monotonic() - began
            print(
                f"\r{done} of {total} schedules, {failed} failed, {spent:.0f} s ",
                end="", file=sys.stderr, flush=True,
            )  # fmt: skip
    print(file=sys.stderr)
    print(f"{done} schedules of {' and '.join(exchanges)}: {failed} failed")
    return failed


def chunks(seeds: range, exchanges: Sequence[str]) -> Iterator[tuple[range, str]]:
    """Parts of a campaign that one process does at a time."""
    for at in range(seeds.start, seeds.stop, CHUNK):
        for exchange in exchanges:
            yield range(at, min(at + CHUNK, seeds.stop)), exchange


def _play(job: tuple[range, str, bool]) -> tuple[int, list[tuple[int, str]]]:
    seeds, exchange, fading = job
    made = fading_plan_of if fading else plan_of
    failures = [(seed, exchange) for seed in seeds if verdict(made(seed, exchange)) is not None]
    return len(seeds), failures


def verdict(plan: Plan) -> str | None:
    """What was broken; an exception of ours counts as well."""
    try:
        return run(plan)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def report(plan: Plan) -> str:
    """The seed that repeats a failure, what was broken, and the shrunk schedule."""
    short = shrink(plan, lambda fewer: verdict(fewer) is not None)
    lines = [
        f"FAILED: python -m simulation --seed {plan.seed} --exchange {plan.exchange}"
        + " --fading" * (plan.half_life is not None),
        f"  {verdict(plan)}",
        f"  shrunk from {len(plan.steps)} to {len(short.steps)} steps: {verdict(short)}",
        f"  agents {' '.join(short.names)}, links {' '.join(a + b for a, b in short.links)}, "
        f"window {short.window}, default {short.default_reward}, remember {short.remember}, "
        f"eager {short.eager}, floors {short.floors}, "
        f"experiments {short.experiments}, silences {short.silences}",
        *(f"    {step}" for step in short.steps),
    ]
    return "\n".join(lines)
