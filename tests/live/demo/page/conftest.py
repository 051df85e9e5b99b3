"""A demonstration in memory that is stepped by hand, and one that runs."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from posse.live.demo.page.demonstration import Demonstration, EventLoop
from posse.live.demo.page.in_memory import MemoryBackend
from posse.live.demo.page.stage import Stage, default_scenario
from posse.live.demo.page.views import ViewLog
from posse.live.demo.visitors import TwinAudience

MEMORY = "/dev/shm"  # where there is one: thousands of commits wait for no disk there


class Played:
    """A demonstration whose time goes on by `run` alone."""

    def __init__(self, folder, n_agents, n_arms, seed, most=1800):
        self.folder, self.ring = folder, ViewLog(most)
        story = default_scenario(n_agents, n_arms)
        self.audience = TwinAudience(story.means, seed)
        self.stage = Stage(MemoryBackend(folder, self.audience, seed), self.audience, story)
        self.clockwork = EventLoop(self.stage, self.ring)
        self.press_button = self.stage.press_button

    def run(self, seconds):
        """Let so many seconds pass, note the messages of that time, and show where it led."""
        self.messages, number = [], self.ring.count
        for _ in range(round(10 * seconds)):
            self.clockwork.step()
            if self.ring.count > number:
                number = self.ring.count
                self._note_messages()
        self.look()
        self._note_messages()
        return self.ring.newest

    def _note_messages(self):
        names = self.ring.newest["agents"]
        self.messages += [(names[a], names[b], ok) for a, b, ok in self.ring.newest["messages"]]

    def passed(self, a, b):
        """Whether each message from one agent to another came through, of the time last run."""
        return [ok for *ends, ok in self.messages if ends == [a, b]]

    def look(self):
        self.clockwork.record_view()
        return self.ring.newest

    def of(self, key, agent):
        """What a view says of an agent."""
        return self.ring.newest[key][self.ring.newest["agents"].index(agent)]

    def node(self, agent):
        (site,) = [site for site in self.stage.sites if site.name == agent]
        return site.node

    def close(self):
        for site in self.stage.sites:
            site.stop()


@pytest.fixture
def scratch():
    made = tempfile.mkdtemp(dir=MEMORY if os.access(MEMORY, os.W_OK) else None)
    yield Path(made)
    shutil.rmtree(made)


@pytest.fixture
def play(scratch):
    """Make demonstrations: of so many agents and arms, from a seed."""
    made = []

    def begin(n_agents=4, n_arms=3, seed=0, **options):
        folder = scratch / str(len(made))
        folder.mkdir()
        made.append(Played(folder, n_agents, n_arms, seed, **options))
        return made[-1]

    yield begin
    for each in made:
        each.close()


@pytest.fixture
def show(scratch):
    """Four agents in memory that run by themselves."""
    made = Demonstration(scratch, default_scenario(4, 3), in_memory=True)
    made.start()
    yield made
    made.stop()
