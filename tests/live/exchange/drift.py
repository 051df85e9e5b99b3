"""A world whose evidence fades, and what must be left of it: an independent account of epochs."""

from __future__ import annotations

import math

from posse.live.exchange import Flows
from posse.live.ledger.sums import plus
from tests.live.exchange.world import World

HALF_LIFE = 64.0  # ticks; a power of two, so that times come back exactly


def later(value, epochs):
    """Halved toward zero, one epoch after the other."""
    for _ in range(epochs):
        value = math.trunc(value / 2) if abs(value) < 2**50 else int(value // 2)
    return value


class DriftingWorld(World):
    """Keeps of every arm what was counted, in the epoch of the agent that counts it."""

    def __init__(self, exchange, n_agents, seed=0, half_life=HALF_LIFE, skew=0.25, **options):
        self.half_life = half_life
        self.skew = skew  # half-lives by which clocks differ at most: far more than they may
        self.epochs = {}  # arm -> the epoch its truth is of
        self.observed = []  # arm, time in half-lives, statistic
        super().__init__(exchange, n_agents, seed, half_life=half_life, **options)

    def make(self, name):
        self.options["clock"] = lambda: self.time_of(name)
        return super().make(name)

    def time_of(self, name):
        nth = int(name.removeprefix("agent"))
        return self.now + self.skew * self.half_life * (nth % 3) / 2

    def restoring(self, name):
        position = self.agents[name]._epochs.position
        return {"half_life": self.half_life, "clock": lambda: position * self.half_life}

    def note(self, name, arm, statistic):
        """Weighed by the time of the last tick, in the epoch in which its agent keeps it."""
        agent = self.agents[name]
        self.observed.append((arm, agent._epochs.position, statistic))
        if not isinstance(agent, Flows):
            return
        epoch = agent._records.epoch
        weight = 2.0 ** (agent._epochs.position - epoch)
        self.truth = plus(
            {**self.truth, **self.truth_in(epoch, [arm])},
            {arm: tuple(math.trunc(weight * value) for value in statistic)},
        )
        self.epochs[arm] = epoch

    def truth_in(self, epoch, arms=None):
        """What was counted, in an epoch; what has come to nothing is left out."""
        truth = {
            arm: tuple(later(value, epoch - self.epochs[arm]) for value in self.truth[arm])
            for arm in (self.truth if arms is None else arms)
            if arm in self.truth
        }
        return {arm: values for arm, values in truth.items() if any(values)}

    def read(self, position):
        """What was observed, for what it is worth: each by its own time, in floats."""
        worth = {}
        for arm, at, statistic in self.observed:
            row = worth.setdefault(arm, [0.0] * len(statistic))
            for nth, value in enumerate(statistic):
                row[nth] += value * 2.0 ** (at - position)
        return worth

    def pass_epoch(self):
        self.now += self.half_life

    def meet_in_one_epoch(self):
        """Exchange without faults until all are in the same epoch, soon after its beginning."""
        self.now = (math.floor(self.now / self.half_life) + 1) * self.half_life
        self.settle(rounds=3)
        assert len({agent._records.epoch for agent in self.agents.values()}) == 1
        return next(iter(self.agents.values()))._records.epoch
