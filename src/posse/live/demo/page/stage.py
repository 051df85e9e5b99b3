"""The stage of a demonstration: its scenario, its faults, and the buttons that cause them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from posse.live.demo.fault_injection import AgentSnapshot, Faults
from posse.live.demo.site import AgentSite
from posse.live.demo.visitors import TwinAudience

CITIES = (
    "berlin", "paris", "rome", "lyon", "oslo", "wien",
    "porto", "turku", "gent", "riga", "cork", "bern",
)  # fmt: skip
# true rates; so close that an isolated agent learns slowly, and a later arm may be the best
ARMS = {"text": 0.28, "photo": 0.38, "quiz": 0.44, "video": 0.33, "story": 0.36, "audio": 0.48}
CHORDS = ((1, 5), (2, 7), (3, 6))  # shorten the paths across the circle
VISITS_PER_SECOND = 5.0  # at each agent
TICK_SECONDS = 1.0  # slow enough for people to see the messages


@dataclass(frozen=True)
class Scenario:
    """The agents' names, the true mean of each arm, and the links between agents."""

    names: tuple[str, ...]
    means: dict[str, float]
    links: tuple[tuple[str, str], ...]


def default_scenario(
    n_agents: int, n_arms: int, links: Sequence[tuple[int, int]] | None = None
) -> Scenario:
    """Return a scenario of this size, on these links or a circle with some chords."""
    if links is None:
        circle = [(i, (i + 1) % n_agents) for i in range(n_agents if n_agents > 2 else 1)]
        links = (*circle, *(chord for chord in CHORDS if max(chord) < n_agents))
    names = CITIES[:n_agents]
    means = dict(list(ARMS.items())[:n_arms])
    return Scenario(names, means, tuple((names[a], names[b]) for a, b in links))


def agent_data(name: str, arms: Sequence[str]) -> dict[str, Any]:
    """Return the data of an agent of the demonstration."""
    return {
        "name": name,
        "arms": list(arms),
        "family": "bernoulli",
        "exchange": "origins",
        "tick_seconds": TICK_SECONDS,
    }


# The interface between the buttons and the agents, in memory or in processes.


class Backend(Protocol):
    """Starts, kills and observes agents by name; called by one thread, and never blocks it long."""

    stepped: bool  # whether only `advance_time` moves the clock, so that it can pause

    @property
    def now(self) -> float:
        """Seconds since the beginning."""

    def start_agents(
        self, names: Sequence[str], links: Sequence[tuple[str, str]], arms: Sequence[str]
    ) -> list[AgentSite]:
        """Start agents that play these arms."""

    def add_agent(self, name: str, neighbours: Sequence[str]) -> AgentSite:
        """Start one more agent and reload its neighbours."""

    def start_agent(self, name: str) -> None:
        """Start an agent that was killed, from its disk."""

    def kill_agent(self, name: str) -> None:
        """End an agent as a power failure would."""

    def pause_agent(self, name: str) -> None:
        """Freeze an agent: it neither ticks nor answers (SIGSTOP)."""

    def resume_agent(self, name: str) -> None:
        """Let a frozen agent continue (SIGCONT)."""

    def set_faults(self, name: str, faults: Faults) -> None:
        """Apply faults to the messages of an agent, now and after every start."""

    def set_arms(self, arms: Sequence[str]) -> None:
        """Let all agents play these arms, by a reload."""

    def take_snapshots(self, names: Iterable[str]) -> dict[str, AgentSnapshot]:
        """Return the snapshots of those of these agents that answer in time."""

    def find_problem(self, name: str) -> str | None:
        """Return why an agent that should run does not, if so."""

    def advance_time(self, visits: bool) -> None:
        """Advance time by one step, with visitors or without; nothing where time is real."""


# The state of the demonstration and its buttons.

LOSS = 0.2  # share of messages that the button loses
NEAR = 8  # a new agent's second neighbour joined this many places before
MOST_EVENTS = 200

RUNS = "runs"
STARTS = "starts"
STOPPED = "stopped"
KILLED = "killed"

Link = tuple[str, str]


class Stage:
    """The agents of a demonstration and their faults; every button has a button that undoes it.

    Called by one thread. A button that cannot act now raises a ValueError that says why.
    """

    def __init__(
        self,
        backend: Backend,
        audience: TwinAudience,
        scenario: Scenario,
        loss: float = 0.0,
        visit: Callable[[AgentSite], None] = lambda site: None,  # unless `advance_time` sends them
    ) -> None:
        self.backend = backend
        self.audience = audience
        self._visit = visit
        self.links = [(a, b) for a, b in scenario.links]
        self.cut_links: set[Link] = set()
        self.loss = 0.0
        self.states: dict[str, str] = {}
        self.events: list[tuple[float, str]] = []
        self.sites: list[AgentSite] = []
        for site in backend.start_agents(scenario.names, scenario.links, list(audience.means)):
            self._add_site(site)
        self.lose_messages(loss)
        self._agent_acts: dict[str, Callable[[str], str]] = {
            "kill": self.kill_agent,
            "start": self.start_agent,
            "stop": self.stop_agent,
            "go-on": self.resume_agent,
            "lie": self.start_lying,
            "tell-truth": self.stop_lying,
            "differ": self.make_different,
            "be-alike": self.make_alike,
        }
        self._link_acts: dict[str, Callable[[Link], str]] = {
            "cut": self.cut_link,
            "join": self.restore_link,
        }
        self._acts: dict[str, Callable[[], str]] = {
            "lose": lambda: self.lose_messages(LOSS),
            "lose-none": lambda: self.lose_messages(0.0),
            "add-agent": self.add_agent,
            "add-arm": self.add_arm,
        }

    def press_button(self, button: str, agent: str | None = None, link: Link | None = None) -> str:
        """Press a button by its name; return what happened in one sentence, and log it."""
        if button in self._agent_acts:
            if agent not in self.states:
                raise ValueError(f"{button} needs agent, one of {', '.join(self.states)}")
            event = self._agent_acts[button](agent)
        elif button in self._link_acts:
            links = [
                known_link
                for known_link in self.links
                if link is not None and set(known_link) == set(link)
            ]
            if not links:
                raise ValueError(f"{button} needs link, a list of two agents that have one")
            event = self._link_acts[button](links[0])
        elif button in self._acts:
            event = self._acts[button]()
        else:
            buttons = *self._agent_acts, *self._link_acts, *self._acts
            raise ValueError(f"unknown button {button!r}: choose one of {', '.join(buttons)}")
        self.log_event(event)
        return event

    def log_event(self, sentence: str) -> None:
        """Add a sentence to the log of the page."""
        self.events.append((round(self.backend.now, 1), sentence))
        del self.events[:-MOST_EVENTS]

    @property
    def running_agents(self) -> list[str]:
        """The agents that should answer."""
        return [name for name, state in self.states.items() if state in (RUNS, STARTS)]

    def kill_agent(self, name: str) -> str:
        """End an agent as a power failure would."""
        self._require_state(name, RUNS, STARTS, STOPPED)
        self.backend.kill_agent(name)
        self.states[name] = KILLED
        return f"{name} killed"

    def start_agent(self, name: str) -> str:
        """Start an agent that was killed."""
        self._require_state(name, KILLED)
        self.backend.start_agent(name)
        self.states[name] = STARTS
        return f"{name} restarted"

    def stop_agent(self, name: str) -> str:
        """Freeze an agent."""
        self._require_state(name, RUNS)
        self.backend.pause_agent(name)
        self.states[name] = STOPPED
        return f"{name} stopped"

    def resume_agent(self, name: str) -> str:
        """Let a stopped agent continue."""
        self._require_state(name, STOPPED)
        self.backend.resume_agent(name)
        self.states[name] = RUNS
        return f"{name} continues"

    def start_lying(self, name: str) -> str:
        """Let the visitors of a site report false rewards."""
        first = next(iter(self.audience.means))
        self.audience.visitors_of(name).lying = True
        return f"{name} lies: {first} always converts there, and nothing else ever does"

    def stop_lying(self, name: str) -> str:
        """Let the visitors of a site report true rewards."""
        self.audience.visitors_of(name).lying = False
        return f"{name} tells the truth again"

    def make_different(self, name: str) -> str:
        """Let the visitors of a site convert at other rates than elsewhere."""
        self.audience.visitors_of(name).different = True
        truth = self.audience.true_means(name)
        best = max(truth, key=lambda arm: truth[arm])
        return f"{name}: other visitors, for whom {best} is best"

    def make_alike(self, name: str) -> str:
        """Let the visitors of a site be like those elsewhere."""
        self.audience.visitors_of(name).different = False
        return f"{name}: visitors as elsewhere"

    def cut_link(self, link: Link) -> str:
        """Cut a link."""
        self._set_link(link, True)
        return f"link {link[0]}–{link[1]} cut"

    def restore_link(self, link: Link) -> str:
        """Restore a link."""
        self._set_link(link, False)
        return f"link {link[0]}–{link[1]} joined"

    def lose_messages(self, share: float) -> str:
        """Lose this share of all messages."""
        self.loss = share
        self._update_faults(self.states)
        return f"{share:.0%} of messages are lost" if share else "no messages are lost any more"

    def add_agent(self) -> str:
        """Add an agent with two neighbours."""
        names = list(self.states)
        if len(names) == len(CITIES):
            raise ValueError(f"there are {len(CITIES)} agents: no city is left")
        near = list(dict.fromkeys([names[-1], names[max(0, len(names) - NEAR)]]))
        name = CITIES[len(names)]
        self.links += [(neighbour, name) for neighbour in near]
        self._add_site(self.backend.add_agent(name, near))
        self._update_faults([name])
        return f"{name} joins {' and '.join(near)}"

    def add_arm(self) -> str:
        """Add an arm at all agents."""
        missing = [arm for arm in ARMS if arm not in self.audience.means]
        if not missing:
            raise ValueError(f"there are {len(ARMS)} arms: no other is left")
        # Visitors and twins come first: an agent that plays the arm at once needs its rewards.
        self.audience.add_arm(missing[0], ARMS[missing[0]])
        self.backend.set_arms(list(self.audience.means))
        return f"{missing[0]} added: {ARMS[missing[0]]:.0%} convert"

    def repair_all(self) -> None:
        """Undo all faults between agents, so that they can be counted."""
        self.resume_stopped()
        for name, state in self.states.items():
            if state == KILLED:
                self.start_agent(name)
        # Cleared first, because the next line sends their faults to all agents anew.
        self.cut_links.clear()
        self.lose_messages(0.0)

    def resume_stopped(self) -> None:
        """Let stopped agents continue: they could not even receive SIGTERM."""
        for name, state in self.states.items():
            if state == STOPPED:
                self.resume_agent(name)

    def _add_site(self, site: AgentSite) -> None:
        self.sites.append(site)
        self.audience.add_site(site)
        self.states[site.name] = STARTS
        self._visit(site)

    def _require_state(self, name: str, *states: str) -> None:
        if self.states[name] not in states:
            raise ValueError(f"{name} {_STATE_SENTENCES[self.states[name]]}")

    def _set_link(self, link: Link, cut: bool) -> None:
        (self.cut_links.add if cut else self.cut_links.discard)(link)
        self._update_faults(link)

    def _update_faults(self, names: Iterable[str]) -> None:
        for name in names:
            # Both ends of a link get the cut, since each of them drops what it sends and receives.
            cut = frozenset(b if a == name else a for a, b in self.cut_links if name in (a, b))
            self.backend.set_faults(name, Faults(cut, self.loss))


_STATE_SENTENCES = {
    RUNS: "runs already",
    STARTS: "is starting: wait a moment",
    STOPPED: "is stopped: let it continue first",
    KILLED: "is killed: start it first",
}
