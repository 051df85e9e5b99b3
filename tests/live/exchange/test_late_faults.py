"""Decisions that count from their start, under any faults: nothing twice, nothing saved is lost."""

from collections import defaultdict

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from posse.live.exchange.evidence_sums import PER_UNIT
from posse.live.exchange.replica import NOT_HERE_YET
from tests.live.exchange.test_any_faults import FlowsFaults, OriginsFaults
from tests.live.exchange.world import World

ONE = PER_UNIT


class LateWorld(World):
    """Of the decisions of a process some are corrected and closed, some of them soon.

    Those of the processes before it are closed as well, unless a disk went back.
    """

    bounds = (1.0, 1.0, 1.0, 1.0)
    shape = {"closed": 1}  # noqa: RUF012

    def __init__(self, exchange, n_agents, seed=0, **options):
        self.open = defaultdict(list)  # name -> (arm, made)
        super().__init__(exchange, n_agents, seed, **self.shape, **options)

    def restoring(self, name):
        return self.shape

    def observe(self, name, pulls=1, at=None):
        arm = f"{name}.{self.lives[name]}" if self.lives[name] else name
        for nth in range(pulls):
            made = self.add(name, arm, (0, 0, 0, ONE))
            self.open[name].append((arm, made))
            while nth % 3 and len(self.open[name]) > 4:
                which = self.random.randrange(len(self.open[name]))
                self.finish(name, *self.open[name].pop(which), self.random.random() < 0.5)

    def finish(self, name, arm, made, success):
        if success:
            self.add(name, arm, (ONE, 0, 0, 0), made)
        self.add(name, arm, (0, ONE * success, ONE, 0), made)

    def add(self, name, arm, row, made=0):
        added_in = self.agents[name].observe(arm, row, made=made)
        self.note(name, arm, row)
        return added_in

    def all_refusals(self):
        """Rewards that came before their decisions, and came again, are none."""
        refusals = super().all_refusals()
        del refusals[NOT_HERE_YET]
        return refusals

    def replace(self, name, state, clean=False):
        """What is open in a copy is not known here: its decisions are left alone."""
        forgot = state is None or state != self.saved(name)
        super().replace(name, state, clean)
        if forgot:
            self.open[name].clear()


class LateOrigins(OriginsFaults):
    world_of = LateWorld

    def settle_all(self):
        """0.1 does not understand open decisions, and holds what it held."""
        super().settle_all()


class LateFlows(FlowsFaults):
    world_of = LateWorld


@pytest.mark.parametrize("machine", [LateOrigins, LateFlows])
def test_open_decisions_survive_any_faults(machine):
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=30,
            stateful_step_count=50,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
