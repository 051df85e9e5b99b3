"""Many schedules on all cores, with progress, and a report of each that fails."""

from __future__ import annotations

import gc
import multiprocessing
import sys
import time
from collections.abc import Iterator, Sequence

from simulation.fading import fading_plan_of
from simulation.schedule import Plan, plan_of
from simulation.shrink import shrink_plan
from simulation.verdict import run_plan

CHUNK = 50
FADING = 10  # the last of so many seeds has a half-life


def run_campaign(
    seeds: range,
    exchanges: Sequence[str],
    processes: int | None = None,
    most: int = 5,
) -> int:
    """Run every seed under every exchange; return the number of failures, `most` at most."""
    began = time.monotonic()
    finished = 0
    failed = 0
    jobs = list(split_seeds(seeds, exchanges))
    total = len(seeds) * len(exchanges)
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes, prepare_worker) as pool:
        for n_played, failures in pool.imap_unordered(_run_chunk, jobs):
            finished += n_played
            for seed, exchange in failures:
                failed += 1
                print(describe_failure(make_plan(seed, exchange)), flush=True)
                if failed >= most:
                    print(f"stopped after {failed} failures in {finished} schedules")
                    return failed
            spent = time.monotonic() - began
            print(
                f"\r{finished} of {total} schedules, {failed} failed, {spent:.0f} s ",
                end="", file=sys.stderr, flush=True,
            )  # fmt: skip
    print(file=sys.stderr)
    print(f"{finished} schedules of {' and '.join(exchanges)}: {failed} failed")
    return failed


def prepare_worker() -> None:
    """Let a process collect garbage seldom, which took 9% of the time: a schedule leaves little."""
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)


def split_seeds(seeds: range, exchanges: Sequence[str]) -> Iterator[tuple[range, str]]:
    """Split a campaign into the parts that one process runs at a time."""
    for at in range(seeds.start, seeds.stop, CHUNK):
        for exchange in exchanges:
            yield range(at, min(at + CHUNK, seeds.stop)), exchange


def make_plan(seed: int, exchange: str) -> Plan:
    """The schedule of a seed; in one of ten evidence fades."""
    with_half_life = seed % FADING == FADING - 1
    return (fading_plan_of if with_half_life else plan_of)(seed, exchange)


def _run_chunk(job: tuple[range, str]) -> tuple[int, list[tuple[int, str]]]:
    seeds, exchange = job
    failures = [
        (seed, exchange) for seed in seeds if find_failure(make_plan(seed, exchange)) is not None
    ]
    return len(seeds), failures


def find_failure(plan: Plan) -> str | None:
    """Return the broken promise, or None; an exception of Posse counts as well."""
    try:
        return run_plan(plan)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def describe_failure(plan: Plan) -> str:
    """Describe the seed that repeats a failure, the broken promise, and the shrunk schedule."""
    short = shrink_plan(plan, lambda fewer: find_failure(fewer) is not None)
    lines = [
        f"FAILED: python -m simulation --seed {plan.seed} --exchange {plan.exchange}",
        f"  {find_failure(plan)}",
        f"  shrunk from {len(plan.steps)} to {len(short.steps)} steps: {find_failure(short)}",
        f"  agents {' '.join(short.names)}, links {' '.join(a + b for a, b in short.links)}, "
        f"window {short.window}, default {short.default_reward}, remember {short.remember}, "
        f"eager {short.eager}, contexts {short.contexts}, "
        f"experiments {short.experiments}, silences {short.silences}",
        *(f"    {step}" for step in short.steps),
    ]
    return "\n".join(lines)
