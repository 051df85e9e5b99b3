"""An agent that was started several times, and its neighbours: what compaction works on."""

from posse.live.ledger import PER_UNIT
from tests.live.exchange.origins import ONE, agent, bases, count, link, pump, save, start

WINDOW, DAY = 100.0, 86_400.0
CLOSED = {"bounds": (1.0, 1.0, 1.0, 1.0), "closed": 1}
START, WHOLE = (0, 0, 0, PER_UNIT), (PER_UNIT, PER_UNIT, PER_UNIT, PER_UNIT)


def tune(process, window=WINDOW, above=2):
    process.reward_window = window
    process.compaction.every, process.compaction.fold_above = 1, above
    process.tick_seconds = WINDOW / 2 / process.longest_rest
    return process


class Pair:
    """An agent that was started several times, with one decision in each, and its neighbour."""

    def __init__(self, starts=6, window=WINDOW, above=2, friends=("friend",), row=ONE, **options):
        self.window, self.above, self.now, self.options = window, above, 0.0, options
        mine = tune(agent("me", **options), window, above)
        self.agents = link(mine, *(agent(name, **options) for name in friends))
        self.incarnations = []
        for nth in range(starts):
            if nth:
                self.restart()
            self.incarnations.append(self.me.begin_decision("a"))
            self.me.observe("a", row, self.incarnations[-1])
            self.pump(3)

    @property
    def me(self):
        return self.agents["me"]

    def pump(self, rounds=1, seconds=1.0):
        self.now = pump(self.agents, self.now, rounds, seconds)

    def restart(self, disk=None):
        process = start(disk or save(self.me), **self.options)
        self.agents["me"] = tune(process, self.window, self.above)

    def compact(self, opened=()):
        """What the store does after a tick; returns whether something was folded."""
        before = self.base_version()
        if self.me.needs_compaction():
            self.me.compact(opened)
        save(self.me)
        return self.base_version() != before

    @property
    def base(self):
        """The only base of the agent."""
        (only,) = bases(self.me)
        return only

    def base_version(self):
        return [each.version for each in bases(self.me)]

    def held(self, name="friend"):
        return {e.incarnation for e in self.agents[name].replica.of_origin("me")}


def crash_loop(starts):
    """An agent that was started very often, with one decision in each start, and its neighbour."""
    mine, friend = tune(agent("me", **CLOSED)), agent("friend", **CLOSED)
    agents = link(mine, friend)
    for _ in range(starts):
        mine.incarnations.present = 0
        mine.observe("a", WHOLE, mine.begin_decision("a"))
    mine.incarnations.present = 0
    now = pump(agents, 0.0, starts // 200 + 12)
    assert count(friend) == count(mine) == starts
    return agents, now
