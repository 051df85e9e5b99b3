"""Decisions that count from their start, under any faults: nothing twice, nothing saved is lost."""

from collections import defaultdict

import pytest

from posse.live.ledger.sums import PER_UNIT
from tests.live.exchange.machine import play
from tests.live.exchange.test_any_faults import FlowsFaults, OriginsFaults
from tests.live.exchange.world import World

ONE = PER_UNIT


class LateWorld(World):
    """Of the decisions of a process some are corrected and closed, some of them soon.

    Those of the processes before it are closed as well, unless a disk went back.
    """

    bounds = (1.0, 1.0, 1.0, 1.0)
    statistic = (0, 0, 0, ONE)
    shape = {"closed": 1}  # noqa: RUF012

    def __init__(self, exchange, n_agents, seed=0, **options):
        self.open = defaultdict(list)  # name -> (arm, what is known of the decision)
        super().__init__(exchange, n_agents, seed, **self.shape, **options)

    def restoring(self, name):
        return self.shape

    def observe(self, name, pulls=1, at=None):
        arm = f"{name}.{self.lives[name]}" if self.lives[name] else name
        for nth in range(pulls):
            made = self.agents[name].begin_decision(arm)
            self.add(name, arm, (0, 0, 0, ONE), made)
            self.open[name].append((arm, made))
            while nth % 3 and len(self.open[name]) > 4:
                which = self.random.randrange(len(self.open[name]))
                self.finish(name, *self.open[name].pop(which), self.random.random() < 0.5)

    def finish(self, name, arm, made, success):
        if success:
            self.add(name, arm, (ONE, 0, 0, 0), made)
        self.add(name, arm, (0, ONE * success, ONE, 0), made)

    def add(self, name, arm, row, made):
        assert not self.agents[name].is_superseded(made)
        self.agents[name].observe(arm, row, made)
        self.note(name, arm, row)

    def open_incarnations(self, name):
        return {self.incarnation_of(known) for _, known in self.open[name]}

    def incarnation_of(self, known):
        return known

    def replace(self, name, state):
        """What is open in a copy is not known here: its decisions are left alone."""
        forgot = state is None or state != self.saved(name)
        super().replace(name, state)
        if forgot:
            self.open[name].clear()


class LateOrigins(OriginsFaults):
    world_of = LateWorld


class LateFlows(FlowsFaults):
    world_of = LateWorld


@pytest.mark.parametrize("machine", [LateOrigins, LateFlows])
def test_open_decisions_survive_any_faults(machine):
    play(machine, 30)
