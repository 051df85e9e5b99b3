"""Decisions that count from their start, and a model of what must be counted of them.

The model is the rule, not the code: things that happened are items of sets.  What an agent's disk
and its neighbours hold are such sets, which grow, but for a disk that is set back.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass

from posse.live.exchange.numbers import new_incarnation

from posse.live.exchange import Origins
from posse.live.exchange.evidence_sums import PER_UNIT, plus, total

BOUNDS = (2.0**41, 2.0**41, 1.0, 1.0)  # reward, closed reward, closed count, count
ARMS, NIBBLES = 8, 15
START = (0, 0, 0, PER_UNIT)


def rewards(nth):
    """The arm of a decision and its reward, which shows by itself in a sum of few: (arm, y)."""
    return f"arm{nth % ARMS}", 16 ** (nth // ARMS % NIBBLES)


@dataclass(frozen=True)
class Item:
    """Something that was added to an incarnation; `void`: that it was taken back."""

    what: str  # start, correction, closing, whole; void
    of: object  # the number of a decision, or the item that was taken back
    made: int  # 0: of no decision that was made before
    added_in: int

    def evidence(self):
        """What it adds: the arm and a row."""
        arm, y = rewards(self.of)
        return {
            arm: {
                "start": START,
                "correction": (y, 0, 0, 0),
                "closing": (0, y, PER_UNIT, 0),
                "whole": (y, y, PER_UNIT, PER_UNIT),
            }[self.what]
        }


def counted(items):
    """The sum of what was not taken back."""
    void = {item.of for item in items if item.what == "void"}
    return total(item.evidence() for item in items if item.what != "void" and item not in void)


class Twice(Exception):
    """Two forgotten futures, each at another neighbour, rewarded one decision: beyond the rule."""


def is_twice(items):
    """Whether of one decision the same is counted twice."""
    void = {item.of for item in items if item.what == "void"}
    kept = [(i.what, i.of) for i in items if i.what != "void" and i not in void]
    return len(set(kept)) < len(kept)


def agent(name, bounds=BOUNDS, **options):
    return Origins(fingerprint="f", bounds=bounds, closed=1, identity=name, **options)


class Site:
    """One agent that decides, and neighbours that only hold what they heard."""

    def __init__(self, seed, neighbours=2):
        self.random, self.now = random.Random(seed), 1000.0
        self.friends = {f"friend{n}": self.make(f"friend{n}") for n in range(neighbours)}
        self.me = self.make("me")
        self.disk, self.held = frozenset(), {name: frozenset() for name in self.friends}
        self.open = {}  # decisions on the disk: number -> (made, counted from its start, corrected)
        self.mine = frozenset()  # what this disk saw happen itself
        self.copies = []
        self.decisions = 0
        self.void_through = 0
        for name in self.friends:
            self.me.connect(name)
            self.friends[name].connect("me")

    def make(self, name):
        options = {"digest_every": 1, "clock": lambda: self.now, "batch": 3}
        return agent(name, draw=self.random.getrandbits, **options)

    def pass_time(self):
        self.now += 0.01  # far below what is a jump

    def add(self, what, nth, made=0):
        self.pass_time()
        ((arm, row),) = Item(what, nth, made, 0).evidence().items()
        added_in = self.me.observe(arm, row, made=made)
        if not 0 < made <= self.void_through:
            self.disk |= {Item(what, nth, made, added_in)}
            self.mine |= {Item(what, nth, made, added_in)}
        return added_in

    def decide(self, from_start):
        nth, self.decisions = self.decisions, self.decisions + 1
        self.pass_time()
        made = self.add("start", nth) if from_start else self.me.incarnation()
        self.open[nth] = made, from_start, False

    def reward(self, nth):
        """Correct, or count in whole."""
        made, from_start, corrected = self.open[nth]
        if not from_start:
            del self.open[nth]
            self.add("whole", nth, made)
        elif not corrected:
            self.open[nth] = made, from_start, True
            self.add("correction", nth, made)

    def close(self, nth):
        made, from_start, corrected = self.open.pop(nth)
        if from_start and corrected:
            self.add("closing", nth, made)

    def copy(self):
        state = json.loads(json.dumps(self.me.state()))
        here = self.disk, self.mine, dict(self.open), self.void_through
        self.copies.append((state, *here))

    def restart(self, which=None):
        """From the disk, or from a copy of long ago."""
        if which is None:
            self.copy()
            copy = self.copies.pop()
        else:
            del self.copies[which % len(self.copies) + 1 :]  # of what is abandoned
            copy = self.copies[-1]
        state, self.disk, self.mine, opened, self.void_through = copy
        self.open = dict(opened)
        self.me = self.make("me")
        self.me.restore(json.loads(json.dumps(state)))

    def learn_delayed(self, name, ticks=8):
        """All that one neighbour holds, and it all that is here."""
        friend = self.friends[name]
        opened = new_incarnation(self.now, 0, lambda bits: 0)  # or somewhat later
        for _ in range(ticks):
            self.pass_time()
            waiting = [("me", *sent) for sent in self.me.tick(self.now)]
            waiting += [(name, *sent) for sent in friend.tick(self.now)]
            for source, target, said in waiting:  # it grows by the answers
                if {source, target} == {"me", name}:
                    to = self.me if target == "me" else friend
                    waiting += [(target, *a) for a in to.receive(source, said, self.now)]
        self.merge(name, opened)

    def merge(self, name, opened):
        """What the rule says of it."""
        news = self.held[name] - self.disk
        forgot = {item.added_in for item in news}
        if self.me.void_through > self.void_through:
            forgot.add(self.me.void_through)  # or a fold, which is a word without an item
        self.void_through = max([self.void_through, *forgot])
        gone = {item.of for item in self.disk | news if item.what == "void"}
        void = {
            Item("void", item, 0, opened)
            for item in self.mine  # all that a neighbour shows is kept
            if item.made and item not in gone
            if any(item.made <= i < item.added_in for i in forgot)
        }
        self.disk = self.held[name] = self.disk | news | void
        if is_twice(self.disk):
            raise Twice
        self.compare(name)

    def compare(self, name):
        assert self.me.own() == counted(self.disk)
        assert self.friends[name].by_origin().get("me", {}) == counted(self.disk)
        assert self.me.void_through == self.void_through

    def play(self, steps, set_back):
        for _ in range(steps):
            self.step(set_back)
        for _ in range(2):
            for name in self.friends:
                self.learn_delayed(name)

    def step(self, set_back):
        chance = self.random
        some = chance.choice(list(self.open)) if self.open else None
        match chance.choice(["decide", "reward", "close", "restart", "copy", "set back", "hear"]):
            case "decide" if self.decisions < ARMS * NIBBLES:
                self.decide(chance.random() < 0.7)
            case "reward" if some is not None:
                self.reward(some)
            case "close" if some is not None:
                self.close(some)
            case "restart":
                self.restart()
            case "copy":
                self.copy()
            case "set back" if self.copies and set_back:
                self.restart(chance.randrange(100))
            case "hear":
                self.learn_delayed(chance.choice(list(self.friends)))


__all__ = ["BOUNDS", "START", "Item", "Site", "agent", "counted", "plus", "rewards"]
