"""A demonstration from its start to its count: agents, visitors, the loop, and the views of it."""

from __future__ import annotations

import math
import secrets
from concurrent.futures import Future
from pathlib import Path

from posse.live.swarm.page.audience import TwinAudience
from posse.live.swarm.page.clockwork import Clockwork
from posse.live.swarm.page.crew import Crew
from posse.live.swarm.page.in_memory import MemoryCrew
from posse.live.swarm.page.in_processes import ProcessCrew
from posse.live.swarm.page.ring import Ring
from posse.live.swarm.page.stage import Link, Stage
from posse.live.swarm.page.story import VISITS_PER_SECOND, Story
from posse.live.swarm.site import Count, Site
from posse.live.swarm.swarm import Swarm


class Show:
    """Real agents in memory or in processes, which a page shows and its buttons break."""

    def __init__(
        self, folder: Path, story: Story, *, in_memory: bool, loss: float = 0.0, seed: int = 0
    ) -> None:
        self._folder, self._story, self._in_memory = folder, story, in_memory
        self._loss, self._seed = loss, seed
        self.ring = Ring(start=secrets.randbits(40))
        self.audience = TwinAudience(story.means, seed)
        self.swarm = Swarm(
            [],
            self.audience.means,
            visits_per_second=VISITS_PER_SECOND,
            seed=seed,
            audience=self.audience,
            patience=math.inf,  # people may let an agent be down for as long as they like
        )
        self._clockwork: Clockwork | None = None

    def start(self) -> None:
        """Start the agents, without waiting until they answer: views say which do."""
        crew: Crew
        if self._in_memory:
            crew, visit = MemoryCrew(self._folder, self.audience, self._seed), _nobody
        else:
            crew, visit = ProcessCrew(self._folder), self.swarm.visit_at
        stage = Stage(crew, self.audience, self._story, self._loss, visit)
        self.swarm.sites = stage.sites
        self._clockwork = Clockwork(stage, self.ring)
        self._clockwork.start()

    def press(self, button: str, agent: str | None = None, link: Link | None = None) -> Future[str]:
        """Press a button of the stage; what happened, or a ValueError why it cannot be."""
        return self._running.call(lambda: self._running.stage.press(button, agent, link))

    def set_pace(self, paused: bool | None, speed: float | None) -> Future[None]:
        """Pause, go on, or go on at another speed."""
        return self._running.call(lambda: self._running.set_pace(paused, speed))

    @property
    def failure(self) -> Exception | None:
        """What ended the loop before its time."""
        return None if self._clockwork is None else self._clockwork.failure

    def settle(self) -> list[Count]:
        """Mend all, let no more visitors come, and count when what is on its way has arrived."""
        self._running.call(self._running.settle).result()
        for site in self.swarm.sites:  # or visitors would wait in vain for one that cannot start
            site.wait()
        self.swarm.end_visits()
        return self.swarm.settle()

    def stop(self) -> None:
        """End everything, after a last view."""
        if self._clockwork is not None:
            self._clockwork.stop()
            self._clockwork.stage.release()
        self.ring.end()
        self.swarm.stop()

    @property
    def _running(self) -> Clockwork:
        if self._clockwork is None:
            raise ValueError("the swarm is only just starting: wait a moment")
        return self._clockwork


def _nobody(site: Site) -> None:
    """Where time is stepped, visitors come with it."""
