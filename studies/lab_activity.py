"""What sleep and churn cost: dec-TS, Tree and flooding where agents sleep, join and leave.

All worlds of a table have the same number of plays of the average agent, and so the same number of
decisions to pay for: agents that sleep half of the time play twice as many rounds. What differs is
how well the agents inform each other.
"""

from __future__ import annotations

import posse
from posse import activity

TS = posse.ThompsonSampling()
ALGORITHMS = {
    "dec-TS": posse.Decentralized(TS),
    "Tree": posse.Tree(TS),
    "flooding": posse.Flooding(TS),
}
BANDIT = posse.Bandit.bernoulli([0.5, 0.4, 0.4, 0.3, 0.3])
PLAYS = 200  # of the average agent, in every world
SEED = 26
N = 16
NETWORKS = {"cycle": posse.networks.cycle(N), "star": posse.networks.star(N)}


def churn(copies=False):
    """Agent 0 stays, seven others leave, eight join 50 rounds before that.

    On the cycle, agents leave and join in pairs of neighbours. The average agent plays PLAYS times.
    """
    last = round(16 / 9 * PLAYS)
    late = [agent % 4 >= 2 for agent in range(N)]
    joins = [PLAYS - 49 if is_late else 1 for is_late in late]
    leaves = [last if is_late or agent == 0 else PLAYS for agent, is_late in enumerate(late)]
    return activity.Shifts(joins, leaves, relays=False, copies=copies), last


# Name: the activity, and the rounds in which the average agent plays PLAYS times.
WORLDS = {
    "all play": (None, PLAYS),
    "asleep half the time, relays": (activity.Asleep(0.5), 2 * PLAYS),
    "asleep half the time, cut off": (activity.Asleep(0.5, relays=False), 2 * PLAYS),
    "one agent in four plays, others relay": (activity.Rates([1, 0, 0, 0] * (N // 4)), 4 * PLAYS),
    "half leave, half join, cut off": churn(),
    "the same, joiners copy": churn(copies=True),
}


def measure(network, runs):
    """Results by world and algorithm."""
    results = {}
    for world, (who, horizon) in WORLDS.items():
        for name, algorithm in ALGORITHMS.items():
            copies = isinstance(who, activity.Shifts) and who.copies
            if copies and name != "dec-TS":
                continue  # they count every observation once
            results[world, name] = posse.simulate(
                BANDIT, network, algorithm, horizon=horizon, runs=runs, seed=SEED, record=10,
                activity=who, threads=1,
            )  # fmt: skip
    return results


def format_cell(result, baseline):
    """Regret with its error, and the paired difference to the world in which all play."""
    summary = result.summary()
    if result is baseline:
        return f"{summary.format_mean()}"
    apart = result.regret[:, -1] - baseline.regret[:, -1]
    half = 1.96 * apart.std(ddof=1) / len(apart) ** 0.5
    return f"{summary.format_mean()}, {apart.mean():+.2f} ± {half:.2f}"


def study(runs=200):
    """The tables of docs/activity.md, and what is not as that page says."""
    blocks = []
    wrong = []
    for graph, network in NETWORKS.items():
        results = measure(network, runs)
        lines = [
            f"| {graph} of {N} | plays | " + " | ".join(ALGORITHMS) + " |",
            "|---|---|---|---|---|",
        ]
        for world in WORLDS:
            cells = [
                format_cell(results[world, name], results["all play", name])
                if (world, name) in results
                else "-"
                for name in ALGORITHMS
            ]
            plays = results[world, "dec-TS"].plays[:, -1].mean()
            lines.append(f"| {world} | {plays:.0f} | {' | '.join(cells)} |")
        blocks.append("\n".join(lines))
        mean = {key: result.summary().mean for key, result in results.items()}
        if (
            mean["asleep half the time, cut off", "Tree"]
            < mean["asleep half the time, relays", "Tree"]
        ):
            wrong.append(f"{graph}: to be cut off should cost Tree more than to relay")
    return "\n\n".join(blocks), wrong
