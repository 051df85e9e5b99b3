"""A small world in memory: agents, their disks, and a network that does its worst."""

from __future__ import annotations

import json
import random
from collections import Counter

from posse.live.exchange import Flows, Origins
from posse.live.ledger import PER_UNIT, total
from posse.live.ledger.sums import plus

BOUNDS = (1.0, 1.0)
FINGERPRINT = "bernoulli"


class World:
    """Each process of an agent observes an arm of its own, so that each is counted by itself."""

    bounds = BOUNDS
    statistic = (0, PER_UNIT)  # of one pull

    def __init__(self, exchange, n_agents, seed=0, **options):
        self.exchange, self.options = exchange, options
        self.random = random.Random(seed)
        self.agents = {}
        self.backups = {}
        self.lives = Counter()  # restarts, by name
        self.network = []  # (from, to, message)
        self.cut = set()  # names on one side of a partition
        self.disks = {}  # agent -> its parts
        self.truth = {}
        self.refusals = Counter()
        self.now = 0.0
        for _ in range(n_agents):
            self.join()
        names = list(self.agents)
        for one, other in zip(names, names[1:] + names[:1], strict=True):
            if one != other:
                self.link(one, other)

    def make(self, name):
        clocked = {"identity": name, "clock": lambda: self.now} if self.exchange is Origins else {}
        agent = self.exchange(
            fingerprint=FINGERPRINT,
            bounds=self.bounds,
            draw=self.random.getrandbits,
            **{**clocked, **self.options},
        )
        return self.tune(agent)

    def tune(self, agent):
        """Let old incarnations be folded soon."""
        agent.reward_window = 1e6
        if self.exchange is Origins:
            agent.grace_ticks, agent.longest_rest = 4, 40
            agent.compaction.every = 1
            agent.compaction.fold_above = 2
        return agent

    def join(self):
        name = f"agent{len(self.backups)}"
        self.agents[name] = self.make(name)
        self.backups[name] = []
        return name

    def link(self, one, other):
        self.agents[one].connect(other)
        self.agents[other].connect(one)

    def observe(self, name, pulls=1, at=None):
        arm = f"{name}.{self.lives[name]}" if self.lives[name] else name
        for nth in range(pulls):
            statistic = (PER_UNIT * (nth % 2), PER_UNIT)
            incarnation = self.agents[name].begin_decision(arm)
            self.agents[name].observe(arm, statistic, incarnation, at=at)
            self.note(name, arm, statistic)

    def note(self, name, arm, statistic):
        """What must be counted from now on."""
        self.truth = plus(self.truth, {arm: statistic})

    def truth_of(self, name):
        return {arm: v for arm, v in self.truth.items() if arm.split(".")[0] == name}

    def tick(self, name):
        self.now += 1.0
        agent = self.agents[name]
        outgoing = agent.tick(self.time_of(name))
        if agent.needs_compaction():
            agent.compact(self.open_incarnations(name))
        self.saved(name)
        self.send(name, outgoing)

    def open_incarnations(self, name):
        """Those in which decisions of this agent are open."""
        return ()

    def time_of(self, name):
        """What the clock of an agent says."""
        return self.now

    def send(self, name, outgoing):
        self.network += [(name, to, message) for to, message in outgoing]

    def deliver(self, index, repeat=False):
        if not self.network:
            return
        index %= len(self.network)
        source, to, message = self.network[index] if repeat else self.network.pop(index)
        if to in self.agents and (source in self.cut) == (to in self.cut):
            answers = self.agents[to].receive(source, message, self.time_of(to))
            self.saved(to)
            self.send(to, answers)

    def deliver_all(self, order="first"):
        for _ in range(20_000):
            if not self.network:
                return
            self.deliver(0 if order == "first" else self.random.randrange(len(self.network)))
        raise AssertionError("the network does not come to rest")

    def saved(self, name):
        """The disk of an agent, to which only its changes are written."""
        agent = self.agents[name]
        disk = self.disks.setdefault(agent, {})
        changes = agent.changes() if disk else agent.state()
        for part, value in changes.items():
            disk[part] = json.dumps(value)
            if value is None:
                del disk[part]
        agent.commit()
        return {part: json.loads(value) for part, value in disk.items()}

    def back_up(self, name):
        self.backups[name].append(self.saved(name))

    def restart(self, name, backup=None, keep_own=False):
        state = self.saved(name)
        if backup is not None:
            own = {part: v for part, v in state.items() if self.is_own(name, part)}
            state = self.backups[name][backup % len(self.backups[name])]
            if keep_own:
                others = {part: v for part, v in state.items() if not self.is_own(name, part)}
                state = {**others, **own}
        self.replace(name, state)

    @staticmethod
    def is_own(name, part):
        """Whether a part of the state is an agent's own evidence."""
        return part in ("own", "waiting") or part.startswith(f"entry {name} ")

    def restored(self, name):
        """What another process would make of its disk."""
        agent = self.exchange(fingerprint=FINGERPRINT, bounds=self.bounds, **self.restoring(name))
        agent.restore(self.saved(name))
        return agent

    def restoring(self, name):
        """Options that change how a disk is read."""
        return {}

    def lose_disk(self, name):
        self.replace(name, None)

    def replace(self, name, state):
        self.refusals += self.agents[name].refusals
        self.lives[name] += 1
        new = self.make(name)
        if state is None:
            for peer in self.agents[name].neighbours():  # the configuration is not on that disk
                new.connect(peer)
        else:
            new.restore(state)
            self.tune(new)
        self.agents[name] = new

    def depart(self, name):
        self.refusals += self.agents.pop(name).refusals

    def all_refusals(self):
        return self.refusals + sum((a.refusals for a in self.agents.values()), Counter())

    def settle(self, rounds=24):
        """Heal the partition, deliver what is late, and let time pass without faults."""
        self.cut = set()
        for _ in range(rounds):
            for name in list(self.agents):
                self.tick(name)
            self.deliver_all("any")

    def disconnect_all(self):
        for agent in self.agents.values():
            for peer in agent.neighbours():
                agent.disconnect(peer)

    def unequal_pairs(self):
        """Of flows: the pairs of survivors that do not hold the same record."""
        by_identity = {agent.identity: agent for agent in self.agents.values()}
        unequal = []
        for identity, agent in by_identity.items():
            for peer, (version, flow) in agent.records().items():
                if peer in by_identity:
                    theirs = by_identity[peer].records().get(identity, (0, {}))
                    if version != theirs[0] or plus(flow, theirs[1]):
                        unequal.append((identity, peer, version, theirs[0]))
        return unequal

    def level(self):
        return total(agent.level() for agent in self.agents.values())

    def own(self):
        return total(agent.own() for agent in self.agents.values())


def two(exchange, **options):
    """Two linked agents; of flows, the owner first."""
    world = World(exchange, 2, **options)
    names = sorted(world.agents, key=lambda name: world.agents[name].identity)
    return world, names[0], names[1]


def settled_pair():
    """Owner and mirror that have heard each other, with 30 pulls at the owner, none exchanged."""
    world, owner, mirror = two(Flows)
    world.settle(rounds=3)
    world.observe(owner, 30)
    return world, owner, mirror


__all__ = ["BOUNDS", "FINGERPRINT", "Flows", "World", "settled_pair", "two"]
