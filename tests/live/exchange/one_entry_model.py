"""Random schedules of faults for the model of the origins exchange, and the checks of its promises.

After every step no agent counts a decision twice. In the end all agents agree and nothing stays
open. Without lost or restored disks exactly all decisions count, and nothing was refused. With
them every lost reward was on no disk when a disk was put back, or was reported as superseded, or
was in an entry that two copies of a disk wrote before one heard of the other; and what a neighbour
held is never overruled by an agent that could ask it.

`python -m tests.live.exchange.one_entry_model RUNS [--kind KIND]` prints a table of RUNS schedules.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any

from tests.live.exchange.one_entry_rules import (
    WEIGHT,
    Disk,
    Key,
    Message,
    ModelAgent,
    ModelEntry,
    Rules,
    Violation,
)


@dataclass(frozen=True)
class Kind:
    """Which faults a schedule may contain, beside restarts and bad links."""

    copies: bool = False  # old copies of disks are put back, disks are lost
    memories: bool = False  # machines are put back with their memory
    twins: bool = False  # two processes of one name, on different disks from the start
    clones: bool = False  # two processes of one name, one on a copy of the other's disk
    rules: Rules = field(default_factory=Rules)

    @property
    def is_strict(self) -> bool:
        """Whether nothing may be lost or refused."""
        return not (self.copies or self.memories or self.clones)


KINDS = {
    "faults": Kind(),
    "fading": Kind(rules=Rules(half_life=7)),
    "twins": Kind(twins=True, rules=Rules(day=60)),
    "copies": Kind(copies=True),
    "fading copies": Kind(copies=True, rules=Rules(half_life=7)),
    "memories": Kind(copies=True, memories=True),
    "clones": Kind(copies=True, memories=True, clones=True, twins=True),
    "no window": Kind(copies=True, rules=Rules(window=None)),
    "few names": Kind(copies=True, rules=Rules(most_names=2, fold_above=1)),
}


class ModelWorld:
    """Agents, links, messages on their way, a clock, and what the checks remember."""

    def __init__(self, seed: int, kind: Kind) -> None:
        self.random = random.Random(seed)
        self.kind = kind
        self.rules = kind.rules
        modes = ["heard"] if self.rules.window is None else ["heard", "count", "wait"]
        self.mode = self.random.choice(modes)
        self.now = 0
        self.serials = 0
        self.wire: list[Message] = []
        self.cuts: set[frozenset[str]] = set()
        self.copies: dict[str, list[Disk]] = {}
        self.memories: dict[str, list[dict[str, Any]]] = {}
        self.keys: dict[int, Key] = {}  # of every decision
        self.acknowledged: list[tuple[int, int]] = []  # (decision, reward)
        self.cancelled: set[int] = set()
        self.refused = 0
        self.unknown: set[tuple[int, int]] = set()  # on no disk when a disk was put back
        self.superseded: set[tuple[int, int]] = set()  # dropped, counted and reported
        self.conflicts: dict[Key, str] = {}  # entries that two copies wrote, and how
        self.open_remainders = 0
        self.agents: list[ModelAgent] = []
        names = ["a", "b", "c", "d"][: self.random.choice((2, 3, 3, 4))]
        self.links = {frozenset(pair) for pair in pairwise(names)}
        pairs = {frozenset((x, y)) for x in names for y in names if x < y}
        self.links |= {pair for pair in sorted(pairs, key=sorted) if self.random.random() < 0.4}
        self.all_links = set(self.links)
        for name in names:
            self.agents.append(ModelAgent(self, name, self.list_neighbours(name)))

    # ---- What agents ask for

    def draw_number(self) -> int:
        """A random number that is never drawn again, whatever is put back."""
        return self.random.getrandbits(60) + 1

    def draw_serial(self) -> int:
        """The next number of a version, for the checks."""
        self.serials += 1
        return self.serials

    @property
    def epoch(self) -> int:
        """The present epoch of half-lives."""
        return self.find_epoch(self.now)

    def find_epoch(self, time: int) -> int:
        """The epoch of a time."""
        return time // self.rules.half_life if self.rules.half_life else 0

    def list_neighbours(self, name: str) -> set[str]:
        """The agents that a link connects with this one."""
        return {other for link in self.links if name in link for other in link - {name}}

    # ---- What the checks remember

    def find_versions(self, agent: ModelAgent) -> Iterator[tuple[str, Key, ModelEntry]]:
        """All entries of an agent on other disks and in messages, with their places."""
        others = [other for other in self.agents if other is not agent]
        near = agent.neighbours
        places = [("neighbour" if o.name in near else "far", o.disk.entries) for o in others]
        places += [("message", message.entries) for message in self.wire]
        for place, entries in places:
            for key, entry in entries.items():
                if key[0] == agent.name:
                    yield place, key, entry

    def find_near_serials(self, agent: ModelAgent) -> frozenset[tuple[str, int]]:
        """Versions of an agent's own entries on the disks of its neighbours."""
        return frozenset(
            (other.name, entry.serial)
            for other in self.agents
            if other.name in agent.neighbours
            for key, entry in other.disk.entries.items()
            if key[0] == agent.name
        )

    def note_write(self, agent: ModelAgent, incarnation: int, entry: ModelEntry) -> None:
        """Remember a conflict if another version is in use that this one was not built on."""
        for place, key, other in self.find_versions(agent):
            names = {*entry.list_names(incarnation), *other.list_names(key[1])}
            apart = len(names) == len(entry.covers) + len(other.covers) + 2
            if apart or other.serial in entry.ancestors:
                continue
            alone = sum(process.name == agent.name for process in self.agents) == 1
            if alone and any(other.serial == serial for _, serial in agent.promised):
                raise Violation(f"{agent.name} asked and overruled what a neighbour held: {key}")
            cause = f"rest ended: {agent.rest_end or 'not yet'}, other version at: {place}"
            self.note_conflict(agent.name, names, cause)

    def note_branches(self, agent: ModelAgent) -> None:
        """Remember conflicts of a disk that was put back with versions that others hold."""
        for other in self.agents:
            if other.resting:  # a neighbour that was put back meanwhile need not know any more
                other.promised = frozenset(pair for pair in other.promised if pair[0] != agent.name)
        stores = [other.disk.entries for other in self.agents if other is not agent]
        stores += [message.entries for message in self.wire]
        theirs = [item for entries in stores for item in entries.items()]
        for key, mine in agent.disk.entries.items():
            for (origin, incarnation), entry in theirs:
                names = {*mine.list_names(key[1]), *entry.list_names(incarnation)}
                apart = len(names) == len(mine.covers) + len(entry.covers) + 2
                related = mine.serial in entry.ancestors or entry.serial in mine.ancestors
                if origin == key[0] and not (apart or related or mine.serial == entry.serial):
                    self.note_conflict(origin, names, "a copy of another branch was put back")

    def note_conflict(self, origin: str, names: Iterable[int], cause: str) -> None:
        """Remember that of two entries with these incarnations one version is kept."""
        for name in names:
            self.conflicts.setdefault((origin, name), cause)

    def note_superseded(self, rewards: Iterable[tuple[int, int]]) -> None:
        """Remember rewards that an agent reported as superseded."""
        self.superseded.update(rewards)

    def note_put_back(self) -> None:
        """Remember acknowledged rewards that no disk holds any more."""
        known = set().union(*(agent.disk.rewards() for agent in self.agents))
        self.unknown.update(set(self.acknowledged) - known)

    # ---- Steps of a schedule

    def play(self) -> None:
        """Play a random schedule, heal everything, and check the end."""
        actions = self.list_actions()
        for _ in range(self.random.randint(30, 160)):
            agent = self.random.choice(self.agents)
            (action,) = self.random.choices(list(actions), list(actions.values()))
            action(agent)
            self.check_agents()
        self.heal()
        self.check_end()

    def list_actions(self) -> dict[Any, float]:
        """All actions with their relative frequencies."""
        actions = {
            self.act_decide: 16.0,
            self.act_reward: 18.0,
            self.act_on_row: 5.0,
            self.act_tick: 16.0,
            self.act_exchange: 26.0,
            self.act_cut: 3.0,
            self.act_link: 1.0,
            self.act_leap: 2.0,
            self.act_restart: 5.0,
        }
        if self.kind.copies:
            actions |= {self.act_copy: 5.0, self.act_put_back: 4.0, self.act_lose_disk: 0.7}
        if self.kind.memories:
            actions |= {self.act_copy_memory: 5.0, self.act_put_memory_back: 4.0}
        if self.kind.twins:
            actions |= {self.act_start_twin: 2.0}
        if self.kind.clones:
            actions |= {self.act_start_clone: 2.0}
        return actions

    def act_decide(self, agent: ModelAgent) -> None:
        """Make a decision; sometimes the commit fails."""
        before = agent.copy_memory() if self.random.random() < 0.05 else None
        decision = len(self.keys) + 1
        agent.decide(decision, inactive=self.random.random() < 0.15)
        if before is not None:
            agent.__dict__.update(before)  # rule 8
        else:
            self.keys[decision] = (agent.name, agent.disk.rows[decision].incarnation)

    def act_reward(self, agent: ModelAgent) -> None:
        """Report a reward."""
        if not agent.disk.rows:
            return
        pending = [d for d, row in agent.disk.rows.items() if row.status == "open"]
        decision = self.random.choice(pending or list(agent.disk.rows))
        before = agent.copy_memory() if self.random.random() < 0.05 else None
        reward = self.draw_serial()
        answer = agent.reward(decision, reward)
        if before is not None:
            agent.__dict__.update(before)
        elif answer == "stored":
            self.acknowledged.append((decision, reward))
        elif answer == "superseded":
            self.refused += 1

    def act_on_row(self, agent: ModelAgent) -> None:
        """Activate or cancel a decision."""
        rows = agent.disk.rows
        inactive = [d for d, row in rows.items() if row.status == "inactive"]
        pending = [d for d, row in rows.items() if row.status == "open" and row.reward is None]
        if inactive and self.random.random() < 0.7:
            self.refused += not agent.activate(self.random.choice(inactive))
        elif pending or inactive:
            decision = self.random.choice(pending + inactive)
            agent.cancel(decision)
            self.cancelled.add(decision)

    def act_tick(self, agent: ModelAgent) -> None:
        """Let an agent tick, and time pass."""
        self.now += self.random.random() < 0.5
        agent.tick()

    def act_exchange(self, agent: ModelAgent) -> None:
        """Send a message, and deliver some of those on their way, in any order, with loss."""
        if agent.neighbours:
            receiver = self.random.choice(sorted(agent.neighbours))
            message = agent.send(receiver, self.random.random() < 0.5, self.random.randint(0, 4))
            if frozenset((agent.name, receiver)) not in self.cuts:
                self.wire.append(message)
        for _ in range(self.random.randint(0, 3)):
            if self.wire:
                message = self.random.choice(self.wire)
                if self.random.random() < 0.85:  # else it is repeated later
                    self.wire.remove(message)
                if self.random.random() < 0.8:
                    self.deliver(message)

    def deliver(self, message: Message, reliable: bool = False) -> None:
        """Hand a message to its receiver, and to its twin; replies follow at once, or later."""
        if frozenset((message.sender, message.receiver)) in self.cuts:
            return
        for agent in self.agents:
            reply = agent.receive(message) if agent.name == message.receiver else None
            if reply is not None and reliable:
                self.deliver(reply, reliable)
            elif reply is not None:
                self.wire.append(reply)

    def act_cut(self, agent: ModelAgent) -> None:
        """Heal all links, cut some, or isolate one agent."""
        links = sorted(self.all_links, key=sorted)
        if self.cuts:
            self.cuts = set()
        elif self.random.random() < 0.5:
            self.cuts = {link for link in links if agent.name in link}
        else:
            self.cuts = {link for link in links if self.random.random() < 0.5}

    def act_link(self, agent: ModelAgent) -> None:
        """Remove a link, or add it again."""
        link = self.random.choice(sorted(self.all_links, key=sorted))
        self.links ^= {link}
        for other in self.agents:
            other.neighbours = self.list_neighbours(other.name)

    def act_leap(self, agent: ModelAgent) -> None:
        """Let a longer time pass."""
        if self.kind.twins and self.kind.is_strict:
            self.heal_links()  # a twin that is cut off for longer than two windows loses evidence
        for _ in range(self.random.randint(5, 25)):
            self.pass_time(1, lossy=not self.kind.is_strict)

    def act_restart(self, agent: ModelAgent) -> None:
        """Kill a process and start it again."""
        agent.start()

    def act_copy(self, agent: ModelAgent) -> None:
        """Back up a disk."""
        self.copies.setdefault(agent.name, []).append(agent.disk.copy())

    def act_put_back(self, agent: ModelAgent) -> None:
        """Put a copy back, sometimes of several agents at once."""
        for other in self.agents:
            copies = self.copies.get(other.name)
            if copies and (other is agent or self.random.random() < 0.15):
                self.replace_disk(other, self.random.choice(copies).copy())

    def act_lose_disk(self, agent: ModelAgent) -> None:
        """Replace a disk by an empty one."""
        self.replace_disk(agent, Disk())

    def replace_disk(self, agent: ModelAgent, disk: Disk) -> None:
        """Start an agent on another disk."""
        agent.disk = disk
        agent.start()
        self.note_put_back()
        self.note_branches(agent)

    def act_copy_memory(self, agent: ModelAgent) -> None:
        """Take a snapshot of a running machine."""
        self.memories.setdefault(agent.name, []).append(agent.copy_memory())

    def act_put_memory_back(self, agent: ModelAgent) -> None:
        """Put a snapshot of a running machine back: its process goes on."""
        memories = self.memories.pop(agent.name, [])
        if memories:
            agent.__dict__.update(self.random.choice(memories))
            agent.neighbours = self.list_neighbours(agent.name)
            agent.promised = frozenset()
            agent.rest_end = "rewound"
            self.note_put_back()
            self.note_branches(agent)

    def act_start_twin(self, agent: ModelAgent) -> None:
        """Start a second process of one name on an empty disk."""
        if sum(other.name == agent.name for other in self.agents) == 1:
            self.agents.append(ModelAgent(self, agent.name, agent.neighbours))

    def act_start_clone(self, agent: ModelAgent) -> None:
        """Start a second process of one name on a copy of the disk, or of the machine."""
        if sum(other.name == agent.name for other in self.agents) > 1:
            return
        clone = ModelAgent(self, agent.name, agent.neighbours)
        if self.random.random() < 0.5:
            clone.__dict__.update(agent.copy_memory())
        else:
            clone.disk = agent.disk.copy()
            clone.start()
        for twin in (agent, clone):
            twin.promised = frozenset()
        self.agents.append(clone)

    def pass_time(self, steps: int, lossy: bool) -> None:
        """All agents tick and talk to all neighbours."""
        self.now += steps
        for agent in self.agents:
            agent.tick()
        for agent in self.agents:
            for receiver in sorted(agent.neighbours):
                message = agent.send(receiver, complete=True, most=1000)
                if not lossy or self.random.random() < 0.7:
                    self.deliver(message, reliable=True)

    def heal_links(self) -> None:
        """Repair all links."""
        self.cuts = set()
        self.links = set(self.all_links)
        for agent in self.agents:
            agent.neighbours = self.list_neighbours(agent.name)

    def heal(self) -> None:
        """Repair all links, and let agents talk until windows and quiet times are over."""
        self.heal_links()
        self.wire = []
        window = self.rules.window or 0
        begin = self.now
        end = begin + self.rules.day + 4 * window
        while self.now < end or any(agent.resting for agent in self.agents):
            self.pass_time(1 if self.now < begin + 6 else 6, lossy=False)
            self.check_agents()
        for _ in range(5):
            self.pass_time(0, lossy=False)

    # ---- Checks

    def check_agents(self) -> None:
        """No decision is in two entries of one agent."""
        for agent in self.agents:
            entries = agent.disk.entries.values()
            counts = Counter(chain.from_iterable(entry.states for entry in entries))
            for decision in [decision for decision, count in counts.items() if count > 1]:
                raise Violation(f"{agent.name} counts decision {decision} twice")

    def check_end(self) -> None:
        """All agree, nothing stays open, and every lost reward has an allowed cause."""
        agent = self.agents[0]
        for other in self.agents:
            if other.disk.entries != agent.disk.entries:
                raise Violation(f"{agent.name} and {other.name} disagree")
        states: dict[int, tuple[str, int]] = {}
        for key, entry in agent.disk.entries.items():
            states.update(entry.states)
            if self.rules.window is not None and entry.open_decisions():
                raise Violation(f"stays open: {key} {entry.open_decisions()}")
        if self.kind.is_strict:
            self.check_exact(states)
            self.check_sums(agent)
        self.losses: Counter[str] = Counter()
        for decision, reward in self.acknowledged:
            if states.get(decision) != ("closed", reward):
                self.losses[self.find_cause(decision, reward)] += 1

    def check_exact(self, states: Mapping[int, tuple[str, int]]) -> None:
        """Without losses of disks exactly the decisions that count are counted."""
        expected: dict[int, tuple[str, int]] = {}
        for agent in self.agents:
            for decision, row in agent.disk.rows.items():
                shown = row.status in ("open", "done")
                never = not shown or decision in self.cancelled
                if not never and (self.mode != "heard" or row.reward is not None):
                    expected[decision] = ("closed", row.reward or 0)
        if states != expected:
            raise Violation(f"counted {set(states.items()) ^ set(expected.items())}")
        if self.refused or self.superseded:
            raise Violation(f"refused without cause: {self.refused}, {self.superseded}")

    def check_sums(self, agent: ModelAgent) -> None:
        """Sums that were halved toward zero are those of their decisions, up to rounding."""
        rows = [item for other in self.agents for item in other.disk.rows.items()]
        epochs = {decision: self.find_epoch(row.time) for decision, row in rows}
        for key, entry in agent.disk.entries.items():
            exact = sum(WEIGHT * 0.5 ** (entry.epoch - epochs[d]) for d in entry.states)
            # moving a decision and halving a sum each lose less than one; older errors halve
            if not exact - len(entry.states) - 2 < entry.closed_sum <= exact:
                raise Violation(f"sum of {key}: {entry.closed_sum} for {exact}")
            if not 0 <= entry.open_sum <= entry.made:
                raise Violation(f"open sum of {key}: {entry.open_sum}")
            self.open_remainders += entry.open_sum

    def find_cause(self, decision: int, reward: int) -> str:
        """Why an acknowledged reward does not count in the end."""
        key = self.keys[decision]
        if (decision, reward) in self.unknown:
            return "on no disk"
        if (decision, reward) in self.superseded:
            return "superseded"
        if key in self.conflicts:
            return "overruled: " + self.conflicts[key]
        raise Violation(f"lost without cause: decision {decision} of {key}")


def play_runs(kind: Kind, seeds: Iterable[int]) -> Counter[str]:
    """Play schedules; the number of acknowledged and of lost rewards by cause."""
    total: Counter[str] = Counter()
    for seed in seeds:
        world = ModelWorld(seed, kind)
        try:
            world.play()
        except Violation as violation:
            total["violations"] += 1
            total[f"violation in {world.mode}, seed {seed}: {violation}"] += 1
            continue
        total += world.losses
        total["acknowledged"] += len(world.acknowledged)
        total["refused"] += world.refused
        total["open remainders of halved sums"] += world.open_remainders
    return total


def main() -> None:
    """Print a table of every kind."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=int)
    parser.add_argument("--kind", choices=list(KINDS))
    parser.add_argument("--first-seed", type=int, default=0)
    arguments = parser.parse_args()
    for name in [arguments.kind] if arguments.kind else KINDS:
        seeds = range(arguments.first_seed, arguments.first_seed + arguments.runs)
        total = play_runs(KINDS[name], seeds)
        print(f"{name}: {arguments.runs} runs")
        for cause, number in total.most_common(14):
            print(f"  {number:9,d} {cause}")


if __name__ == "__main__":
    main()
