"""Why slopes lie below Lai-Robbins on slow networks: honest beliefs, given from a round on.

From round 253 on, W(t) is replaced by 1/N, so that every belief is the exact pooled posterior. If
agents explored too little because merged beliefs are too sure, they would now explore more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import posse
from posse import networks

SEED = 1
BANDIT = posse.Bandit.gaussian([0.5] + [0.1] * 16)
HORIZON = 800
SWITCH = 253  # the first round of the window of slopes in `posse paper`
NETWORKS = {
    "complete": networks.complete(64),
    "cycle": networks.cycle(64),
    "gossip": networks.complete(64).gossip(),
}


@dataclass(frozen=True)
class ExactFrom:
    """The network's own W(t) before a round, 1/N from it on."""

    network: networks.Network
    first: int

    def sampler(self, network, n_runs):
        """Draw W(t) of the round, as an operator for all runs."""
        draw = self.network.sampler(n_runs)
        even = np.full((network.n_agents, network.n_agents), 1 / network.n_agents)

        def sample(randomness, t):
            # drawn in every round, so that both networks meet the same random numbers
            weights = draw(randomness, t)
            return even if t >= self.first else weights

        return sample


def play(network, runs):
    """Regret at the switch and at the horizon, and pulls of a bad arm by all until the switch."""
    result = posse.simulate(
        BANDIT, network, posse.Decentralized(posse.ThompsonSampling()),
        horizon=HORIZON, runs=runs, seed=SEED, record=[SWITCH, HORIZON],
    )  # fmt: skip
    return result.regret


def study(runs=400):
    """The table of docs/reproduction.md."""
    window = np.log(HORIZON / SWITCH)
    lines = [
        f"| | regret at round {SWITCH} | pulls of each bad arm | slope, as it is "
        "| slope, exact posteriors |",
        "|---|---|---|---|---|",
    ]
    for name, network in NETWORKS.items():
        cells = [name]
        static = networks.complete(64) if name == "gossip" else network
        for exact in (False, True):
            dynamics = ExactFrom(network, SWITCH if exact else HORIZON + 1)
            regret = play(static.varying(dynamics), runs)
            if not exact:
                pulls = regret[:, 0].mean() * 64 / (16 * 0.4)
                cells += [f"{regret[:, 0].mean():.2f}", f"{pulls:.0f}"]
            slopes = (regret[:, 1] - regret[:, 0]) / window
            error = slopes.std(ddof=1) / len(slopes) ** 0.5
            cells.append(f"{slopes.mean():.3f} ± {error:.3f}")
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", f"{runs} runs."]
    return "\n".join(lines), []
