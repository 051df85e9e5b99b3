"""Measure how simulations grow, and write the table of docs/scaling.md.

    .venv/bin/python benchmarks/scaling.py           # ten minutes of one core
    .venv/bin/python benchmarks/scaling.py --show    # print, write nothing

Costs are processor time on one thread, without the compilation of kernels. Every row runs in a
process of its own, so that its peak of resident memory is its own.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "scaling.md"

# A process: build the network, load the kernels with a short simulation, measure the long one.
PROGRAM = """
import json, resource, sys, time
import numpy as np
import posse

agents, degree, arms, horizon, runs = map(int, sys.argv[1:])
start = time.process_time()
network = (
    posse.networks.random_regular(agents, degree, seed=1) if degree > 2
    else posse.networks.cycle(agents) if agents > 2 else posse.networks.complete(agents)
)
built = time.process_time() - start
means = np.full(arms, 0.1)
means[0] = 0.5
bandit = posse.Bandit.gaussian(means)
algorithm = posse.Decentralized(posse.ThompsonSampling())


def play(horizon, runs):
    posse.simulate(
        bandit, network, algorithm, horizon=horizon, runs=runs, record=10, threads=1, progress=False
    )


play(2, 1)
start = time.process_time()
play(horizon, runs)
seconds = time.process_time() - start
print(json.dumps({
    "built": built,
    "seconds": seconds,
    "cost": 1e9 * seconds / (agents * horizon * runs),
    "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
}))
"""

# what grows, then agents, degree (2: a cycle, 3: a random regular graph), arms, horizon, runs
CASES = [
    *[("agents", n, 3, 10, 100, max(1, 10**4 // n)) for n in (10**3, 10**4, 10**5, 10**6)],
    *[("arms", 100, 2, k, 1000, 1) for k in (10, 100, 1000, 10**4)],
    *[("rounds", 1, 0, 3, t, 1) for t in (10**4, 10**5, 10**6, 10**7)],
    *[("runs", 100, 2, 17, 200, r) for r in (10, 100, 1000)],
]


def measure_case(case: tuple) -> dict[str, float]:
    """Measure one case in a process of its own."""
    numbers = [str(number) for number in case[1:]]
    output = subprocess.run(
        [sys.executable, "-c", PROGRAM, *numbers], capture_output=True, text=True, check=True
    ).stdout
    return json.loads(output.splitlines()[-1])


def format_row(case: tuple, measured: dict[str, float]) -> str:
    """Format a line of the table."""
    what, agents, degree, arms, horizon, runs = case
    graph = f"random, degree {degree}" if degree > 2 else "cycle" if agents > 1 else "one agent"
    cells = [
        what, f"{agents:,}", graph, f"{arms:,}", f"{horizon:,}", f"{runs:,}",
        f"{measured['built']:.1f} s", f"{measured['seconds']:.1f} s",
        f"{measured['cost']:,.0f} ns", f"{measured['gigabytes']:.2f} GB",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Measure all cases and write the table between the marks of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", action="store_true", help="print the table, write nothing")
    options = parser.parse_args()
    lines = [
        "| what grows | agents | graph | arms | rounds | runs | to build the graph | to play |"
        " an agent-step | peak memory |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for case in CASES:
        lines.append(format_row(case, measure_case(case)))
        print(lines[-1], flush=True)
    if options.show:
        return
    marks = re.compile(r"(<!-- scaling -->\n).*?(<!-- end -->)", re.DOTALL)
    table = "\n".join(lines)
    PAGE.write_text(marks.sub(lambda found: f"{found[1]}\n{table}\n\n{found[2]}", PAGE.read_text()))


if __name__ == "__main__":
    main()
