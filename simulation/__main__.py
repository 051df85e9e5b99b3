"""Run schedules: `python -m simulation --schedules 1000`, or one by its seed."""

from __future__ import annotations

import argparse
import sys

from simulation.campaign import campaign, report, verdict
from simulation.fading import fading_plan_of
from simulation.mutations import table
from simulation.schedule import plan_of
from simulation.verdict import run


def fails(seed: int, exchange: str) -> bool:
    """Whether a schedule fails."""
    return verdict(plan_of(seed, exchange)) is not None


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--schedules", type=int, default=1000, help="how many, of each exchange")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="only this one, with its steps if it fails")
    parser.add_argument("--exchange", choices=("origins", "flows"), help="only this one")
    parser.add_argument("--processes", type=int, help="how many; all cores if not given")
    parser.add_argument("--failures", type=int, default=5, help="stop after so many")
    parser.add_argument(
        "--memories", action="store_true", help="of one seed: with memory snapshots put back"
    )
    parser.add_argument("--fading", action="store_true", help="with a half-life, and epochs")
    parser.add_argument("--mutations", type=int, help="so many schedules without each rule")
    asked = parser.parse_args()
    exchanges = (asked.exchange,) if asked.exchange else ("origins", "flows")
    if asked.mutations is not None:
        for rule, found in table(asked.mutations, fails):
            said = ", ".join(f"{exchange} {count}" for exchange, count in found.items())
            print(f"{rule:70} {said}", flush=True)
        return 0
    if asked.seed is not None:
        failed = 0
        for exchange in exchanges:
            plan = plan_of(asked.seed, exchange, asked.memories)
            if asked.fading:
                plan = fading_plan_of(asked.seed, exchange)
            if run(plan) is None:
                print(f"seed {asked.seed}, {exchange}: {len(plan.steps)} steps, all promises kept")
            else:
                print(report(plan))
                failed += 1
        return min(1, failed)
    seeds = range(asked.first, asked.first + asked.schedules)
    options = asked.processes, asked.failures, asked.fading
    return min(1, campaign(seeds, exchanges, *options))


if __name__ == "__main__":
    sys.exit(main())
