"""Run schedules: `python -m simulation --schedules 1000`, or one by its seed."""

from __future__ import annotations

import argparse
import sys

from simulation.campaign import describe_failure, make_plan, run_campaign
from simulation.schedule import plan_of
from simulation.verdict import run_plan


def schedule_fails(seed: int, exchange: str) -> bool:
    """Whether a schedule breaks a promise; a rule that is taken away wrongly raises."""
    try:
        return run_plan(plan_of(seed, exchange)) is not None
    except (AttributeError, TypeError):
        raise
    except Exception:
        return True


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--schedules", type=int, default=1000, help="how many, of each exchange")
    parser.add_argument(
        "--from", dest="first", type=int, default=0, help="the first seed: ranges add up"
    )
    parser.add_argument("--seed", type=int, help="only this one, with its steps if it fails")
    parser.add_argument("--exchange", choices=("origins", "flows"), help="only this one")
    parser.add_argument("--processes", type=int, help="how many; all cores if not given")
    parser.add_argument("--failures", type=int, default=5, help="stop after so many")
    parser.add_argument("--mutations", type=int, help="so many schedules without each rule")
    arguments = parser.parse_args()
    exchanges = (arguments.exchange,) if arguments.exchange else ("origins", "flows")
    if arguments.mutations is not None:
        from simulation.mutations import count_failures

        for rule, failures in count_failures(arguments.mutations, schedule_fails):
            counts = ", ".join(f"{exchange} {count}" for exchange, count in failures.items())
            print(f"{rule:70} {counts}", flush=True)
        return 0
    if arguments.seed is not None:
        failed = 0
        for exchange in exchanges:
            plan = make_plan(arguments.seed, exchange)
            if run_plan(plan) is None:
                print(
                    f"seed {arguments.seed}, {exchange}: {len(plan.steps)} steps, all promises kept"
                )
            else:
                print(describe_failure(plan))
                failed += 1
        return min(1, failed)
    seeds = range(arguments.first, arguments.first + arguments.schedules)
    return min(1, run_campaign(seeds, exchanges, arguments.processes, arguments.failures))


if __name__ == "__main__":
    sys.exit(main())
