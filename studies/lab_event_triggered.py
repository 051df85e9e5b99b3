"""What event-triggered communication saves, and what it costs in regret."""

from __future__ import annotations

import posse

TS = posse.ThompsonSampling()
SEED = 2026
HORIZON = 500
THRESHOLDS = (0.1, 0.5, 2.0)
networks = posse.networks
INSTANCES = {
    "cycle of 25, Bernoulli .7, 3 x .5, .3": (
        posse.Bandit.bernoulli([0.7, 0.5, 0.5, 0.5, 0.3]),
        networks.cycle(25),
    ),
    "star of 16, Gaussian .5 and 9 x .1": (
        posse.Bandit.gaussian([0.5] + [0.1] * 9),
        networks.star(16),
    ),
    "grid of 4 x 5, each link fails in 30% of rounds, Bernoulli .05, 2 x .03": (
        posse.Bandit.bernoulli([0.05, 0.03, 0.03]),
        networks.grid(4, 5).failing(0.3),
    ),
    "complete graph of 10, counts 3, 2.5, 2, 1": (
        posse.Bandit.poisson([3.0, 2.5, 2.0, 1.0]),
        networks.complete(10),
    ),
}


def study(runs=100):
    """The table of docs/event-triggered.md, and what in it is not as that page says."""
    lines = [
        f"| T = {HORIZON}, {runs} runs | regret per agent | against dec-TS, paired, 95% "
        "| numbers sent per agent | share |",
        "|---|---|---|---|---|",
    ]
    wrong = []
    for title, (bandit, network) in INSTANCES.items():
        algorithms = {"dec-TS": posse.Decentralized(TS)} | {
            f"threshold {threshold:g}": posse.EventTriggered(TS, threshold=threshold)
            for threshold in THRESHOLDS
        }
        # one engine for all, so that pairs of runs share their rewards
        comparison = posse.compare(
            bandit,
            network,
            algorithms,
            horizon=HORIZON,
            runs=runs,
            seed=SEED,
            engine="reference",
            record=2,
            keep=("messages",),
        )
        lines.append(f"| **{title}** | | | | |")
        base = comparison["dec-TS"]
        all_sent = base.numbers_sent[:, -1].mean()
        shares = []
        for name, result in comparison.items():
            sent = result.numbers_sent[:, -1].mean()
            shares.append(sent / all_sent)
            against = "-"
            if name != "dec-TS":
                pair = posse.paired_difference(result, base)
                against = f"{pair.mean:+.2f} ({pair.low:+.2f} to {pair.high:+.2f})"
            lines.append(
                f"| {name} | {result.summary().format_mean()} | {against} | {sent:,.0f} "
                f"| {sent / all_sent:.0%} |"
            )
        if shares != sorted(shares, reverse=True):
            wrong.append(f"{title}: messages must fall with the threshold")
    return "\n".join(lines), wrong
