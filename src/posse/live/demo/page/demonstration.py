"""The event loop of a demonstration: time goes on, buttons act, views are taken."""

from __future__ import annotations

import math
import queue
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from posse.live.demo.page.in_memory import STEP, MemoryCrew
from posse.live.demo.page.in_processes import ProcessCrew
from posse.live.demo.page.stage import STARTS, VISITS_PER_SECOND, Crew, Link, Stage, Story
from posse.live.demo.page.views import Looking, Ring
from posse.live.demo.site import Count, Site
from posse.live.demo.swarm import Swarm
from posse.live.demo.visitors import TwinAudience

STEPS = 5  # from one view to the next
SPEEDS = (0.25, 1.0, 4.0)
LATE = 5  # steps that are made up for, where the machine is too slow; others are not

STARTING = "starting"
RUNNING = "running"
SETTLING = "settling"
ENDED = "ended"


class Clockwork:
    """Lets a stage go on, at a speed where time is stepped, and keeps a view of every half second.

    Without `start` there is no thread: `step` and `look` may be called by hand.
    """

    def __init__(self, stage: Stage, ring: Ring) -> None:
        self.stage = stage
        self._looking = Looking(stage)
        self._ring = ring
        self.paused = False
        self.speed = 1.0
        self.phase = STARTING
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None]
        self._calls = queue.SimpleQueue()
        self._steps = 0
        self.failure: Exception | None = None  # which ended the loop
        self._thread = threading.Thread(target=self._run, name="posse-swarm", daemon=True)

    def start(self) -> None:
        """Let time begin."""
        self.look()
        self._thread.start()

    def stop(self) -> None:
        """Let it end, after a last view."""
        self._calls.put(None)
        self._thread.join()
        self._refuse_all()
        self.phase = ENDED
        if self.failure is None:
            self.look()
        self._ring.end()

    def settle(self) -> None:
        """Mend all that is broken, and send visitors away: what is on its way can arrive."""
        self.stage.mend()
        self.phase = SETTLING
        self.paused = False
        if self.stage.crew.stepped:
            self.speed = SPEEDS[-1]

    def call(self, work: Callable[[], Any]) -> Future[Any]:
        """Have something done between two steps; a view of what came of it follows at once."""
        future: Future[Any] = Future()
        self._calls.put((work, future))
        if not self._thread.is_alive():
            self._refuse_all()
        return future

    def set_pace(self, paused: bool | None = None, speed: float | None = None) -> None:
        """Pause, go on, or go on at another speed; where time is real it can be neither."""
        if not self.stage.crew.stepped:
            raise ValueError("real processes cannot be paused or slowed: --in-memory can")
        if speed is not None:
            if speed not in SPEEDS:
                raise ValueError(f"speed must be one of {SPEEDS}, got {speed}")
            self.speed = speed
        if paused is not None:
            self.paused = paused

    def look(self) -> None:
        """Take a view."""
        view = self._looking.view()
        if self.phase == STARTING and STARTS not in self.stage.states.values():
            self.phase = RUNNING
        pace = {"phase": self.phase, "paused": self.paused, "speed": self.speed}
        self._ring.add(view | pace)

    def step(self) -> None:
        """Let time go on for a step, and take a view if it is due."""
        self.stage.crew.advance(visits=self.phase in (STARTING, RUNNING))
        self._steps += 1
        if self._steps % STEPS == 0:
            self.look()

    def _run(self) -> None:
        try:
            self._loop()
        except Exception as error:  # somebody waits for the end of it all
            self.failure = error
            self._refuse_all()

    def _loop(self) -> None:
        due = time.monotonic()
        while True:
            now = time.monotonic()
            if self.paused:
                due = now
                pause = None
            else:
                length = STEP / self.speed
                due = max(due, now - LATE * length)
                pause = max(0.0, due - now)
            try:
                called = self._calls.get(timeout=pause)
            except queue.Empty:
                self.step()
                due += length
                continue
            if called is None:
                return
            self._do(*called)

    def _refuse_all(self) -> None:
        """Nobody is there any more to do what was asked for."""
        with suppress(queue.Empty):
            while True:
                if (called := self._calls.get_nowait()) is not None:
                    called[1].set_exception(ValueError("the swarm has ended"))

    def _do(self, work: Callable[[], Any], future: Future[Any]) -> None:
        try:
            result = work()
            self.look()
        except Exception as error:  # who asked is told
            future.set_exception(error)
        else:
            future.set_result(result)


# A demonstration from its start to its count: agents, visitors, the loop, and the views of it.


class Show:
    """Real agents in memory or in processes, which a page shows and its buttons break."""

    def __init__(
        self, folder: Path, story: Story, *, in_memory: bool, loss: float = 0.0, seed: int = 0
    ) -> None:
        self._folder = folder
        self._story = story
        self._in_memory = in_memory
        self._loss = loss
        self._seed = seed
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
            crew = MemoryCrew(self._folder, self.audience, self._seed)
            visit = _nobody
        else:
            crew = ProcessCrew(self._folder)
            visit = self.swarm.visit_at
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
