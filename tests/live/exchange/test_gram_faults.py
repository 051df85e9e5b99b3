"""Decisions at contexts under any faults: exact, and every Gram matrix that is held is one."""

from itertools import pairwise

import numpy as np

from posse.live.ledger.sums import PER_UNIT
from tests.live.exchange.machine import play
from tests.live.exchange.test_late_faults import LateOrigins, LateWorld

ONE, FEATURES = PER_UNIT, 3
ROWS, COLUMNS = np.triu_indices(FEATURES)
SUMS = FEATURES + len(ROWS)


def sums(features, reward):
    """What a reward adds at rounded features: shifts, and the upper triangle of q q'."""
    q = np.array(features)
    return (*(1024 * reward * q).tolist(), *(q[ROWS] * q[COLUMNS]).tolist())


class ContextWorld(LateWorld):
    """Decisions count from their start, and are linearised anew when they close."""

    bounds = (*[1.0] * (2 * SUMS), 1.0, 1.0)
    shape = {"closed": SUMS, "features": FEATURES}  # noqa: RUF012
    statistic = (*[0] * (2 * SUMS + 1), ONE)

    def met(self):
        return [1024, *(self.random.randint(-1024, 1024) for _ in range(FEATURES - 1))]

    def observe(self, name, pulls=1, at=None):
        arm = f"{name}.{self.lives[name]}" if self.lives[name] else name
        for nth in range(pulls):
            begun = self.met()
            made = self.agents[name].begin_decision(arm)
            self.add(name, arm, (*sums(begun, 0), *[0] * (SUMS + 1), ONE), made)
            self.open[name].append((arm, (made, begun)))
            while nth % 3 and len(self.open[name]) > 4:
                which = self.random.randrange(len(self.open[name]))
                self.finish(name, *self.open[name].pop(which), self.random.random() < 0.5)

    def incarnation_of(self, known):
        return known[0]

    def finish(self, name, arm, met, success):
        made, begun = met
        closed = [round(0.9 * each) for each in begun]  # by what is believed now
        if success:
            shifts = np.subtract(sums(begun, 1), sums(begun, 0)).tolist()
            self.add(name, arm, (*shifts, *[0] * (SUMS + 2)), made)
        final = sums(closed, int(success))
        moved = np.subtract(final, sums(begun, int(success))).tolist()
        self.add(name, arm, (*moved, *final, ONE, 0), made)


class ContextOrigins(LateOrigins):
    world_of = ContextWorld
    growing = slice(-2, None)  # the counts

    def check(self):
        world = self.world
        names = list(world.agents)
        for one, other in pairwise(names):
            world.link(one, other)
        self.settle_all()
        one, *others = [agent.evidence() for agent in world.agents.values()]
        assert all(evidence == one for evidence in others)
        if not (self.rolled_back or self.died):
            assert one == world.truth
        for agent in world.agents.values():
            for ledger in agent.by_origin().values():
                for row in ledger.values():
                    for end in (SUMS, 2 * SUMS):
                        self.check_gram(row[end - len(ROWS) : end])
        assert not world.all_refusals()

    def check_gram(self, triangle):
        matrix = np.zeros((FEATURES, FEATURES))
        matrix[ROWS, COLUMNS] = matrix[COLUMNS, ROWS] = triangle
        values = np.linalg.eigvalsh(matrix)
        assert values.min() >= -1e-9 * max(1.0, values.max())


def test_contexts_survive_any_faults():
    play(ContextOrigins, 15, 40)
