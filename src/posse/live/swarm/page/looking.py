"""Views of the demonstration: all that the page shows of one moment, in numbers."""

from __future__ import annotations

from posse.live.swarm.glances import Glance
from posse.live.swarm.page.audience import Standing
from posse.live.swarm.page.counting import Counting
from posse.live.swarm.page.ring import View
from posse.live.swarm.page.stage import KILLED, RUNS, Stage

MOST_MESSAGES = 200  # of one view
SHOWN_EVENTS = 60


class Looking:
    """Looks at a stage again and again, and remembers what those do not say who are down."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self.counting = stage, Counting()
        self._shares: dict[str, dict[str, float]] = {}
        self._before: dict[str, Standing] = {}
        self._regret, self._alone = 0.0, 0.0  # of an agent, on average

    def view(self) -> View:
        """The present moment; lists of agents are in the order of `agents`."""
        stage, crew, audience = self._stage, self._stage.crew, self._stage.audience
        standings = audience.standings()  # first: whoever is asked then holds at least as many
        self._bury()
        glances = crew.look(stage.running)
        for name, each in glances.items():
            stage.states[name] = RUNS
            self._shares[name] = each.shares
        told = {name: each.acknowledged for name, each in standings.items()}
        runs = [name for name, state in stage.states.items() if state == RUNS]
        books = self.counting.take(told, {n: each.held for n, each in glances.items()}, runs)
        self._add_regret(standings)
        names = list(stage.states)
        place = {name: i for i, name in enumerate(names)}
        return {
            "mode": "memory" if crew.stepped else "processes",
            "time": round(crew.now, 1),
            "arms": list(audience.means.items()),
            "agents": names,
            "links": [(place[a], place[b]) for a, b in stage.links],
            "cut": [i for i, link in enumerate(stage.links) if link in stage.cut_links],
            "loss": stage.loss,
            "states": list(stage.states.values()),
            "lies": [audience.at(name).lie for name in names],
            "differs": [audience.at(name).differ for name in names],
            "shares": [self._share(name) for name in names],
            "visits": list(told.values()),
            "behind": [self.counting.behind(name, told) for name in names],
            "regret": [round(standings[name].regret, 2) for name in names],
            "alone": [round(standings[name].alone, 2) for name in names],
            "mean_regret": round(self._regret, 3),
            "mean_alone": round(self._alone, 3),
            "messages": self._messages(glances, place),
            "books": [books.acknowledged, books.counted, books.under_way, books.lost],
            "events": stage.events[-SHOWN_EVENTS:],
        }

    def _bury(self) -> None:
        """Say of those who ended by themselves that they did."""
        for name in self._stage.running:
            if (problem := self._stage.crew.problem(name)) is not None:
                self._stage.states[name] = KILLED
                self._stage.say(f"{name} ended by itself: {problem}")

    def _share(self, name: str) -> list[float]:
        """How likely an agent now plays each arm; of one that never answered nothing is known."""
        shares = self._shares.get(name, {})
        return [round(shares.get(arm, 0.0), 3) for arm in self._stage.audience.means]

    def _add_regret(self, standings: dict[str, Standing]) -> None:
        """What an agent lost since the last view on average, and would have lost alone.

        So those who join later do not pull the curves down. Sites that lie are left out: they
        harm themselves, and it is the others who matter.
        """
        stage, zero = self._stage, Standing(0, 0.0, 0.0)
        gains = [
            (each.regret - before.regret, each.alone - before.alone)
            for name, each in standings.items()
            if not stage.audience.at(name).lie
            and ((before := self._before.get(name, zero)) != each or stage.states[name] == RUNS)
        ]
        self._before = standings
        if gains:
            self._regret += sum(gain for gain, _ in gains) / len(gains)
            self._alone += sum(gain for _, gain in gains) / len(gains)

    def _messages(
        self, glances: dict[str, Glance], place: dict[str, int]
    ) -> list[tuple[int, int, bool]]:
        """From whom to whom, and whether it came through; on links that are cut there are none."""
        stage = self._stage
        cut = {frozenset(link) for link in stage.cut_links}
        return [
            (place[name], place[peer], passed and stage.states[peer] == RUNS)
            for name, each in glances.items()
            for peer, passed in each.sent
            if frozenset((name, peer)) not in cut
        ][-MOST_MESSAGES:]
