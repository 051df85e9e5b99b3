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

from posse.live.demo.page.in_memory import STEP_SECONDS, MemoryBackend
from posse.live.demo.page.in_processes import ProcessBackend
from posse.live.demo.page.stage import STARTS, VISITS_PER_SECOND, Backend, Link, Scenario, Stage
from posse.live.demo.page.views import Observer, ViewLog
from posse.live.demo.site import AgentSite, Count
from posse.live.demo.swarm import Swarm
from posse.live.demo.visitors import TwinAudience

STEPS = 5  # from one view to the next
SPEEDS = (0.25, 1.0, 4.0)
LATE = 5  # steps that are made up for, where the machine is too slow; others are not

STARTING = "starting"
RUNNING = "running"
SETTLING = "settling"
ENDED = "ended"


class EventLoop:
    """Lets a stage go on, at a speed where time is stepped, and keeps a view of every half second.

    Without `start` there is no thread: `step` and `look` may be called by hand.
    """

    def __init__(self, stage: Stage, ring: ViewLog) -> None:
        self.stage = stage
        self._observer = Observer(stage)
        self._ring = ring
        self.paused = False
        self.speed = 1.0
        self.phase = STARTING
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None]
        self._calls = queue.SimpleQueue()
        self._steps = 0
        self.failure: Exception | None = None  # which ended the loop
        self._thread = threading.Thread(
            target=self._run_loop_safely, name="posse-swarm", daemon=True
        )

    def start(self) -> None:
        """Let time begin."""
        self.record_view()
        self._thread.start()

    def stop(self) -> None:
        """Let it end, after a last view."""
        self._calls.put(None)
        self._thread.join()
        self._refuse_all()
        self.phase = ENDED
        if self.failure is None:
            self.record_view()
        self._ring.close()

    def prepare_count(self) -> None:
        """Mend all that is broken, and send visitors away: what is on its way can arrive."""
        self.stage.repair_all()
        self.phase = SETTLING
        self.paused = False
        if self.stage.backend.stepped:
            self.speed = SPEEDS[-1]

    def submit_call(self, work: Callable[[], Any]) -> Future[Any]:
        """Have something done between two steps; a view of what came of it follows at once."""
        future: Future[Any] = Future()
        self._calls.put((work, future))
        if not self._thread.is_alive():
            self._refuse_all()
        return future

    def set_pace(self, paused: bool | None = None, speed: float | None = None) -> None:
        """Pause, go on, or go on at another speed; where time is real it can be neither."""
        if not self.stage.backend.stepped:
            raise ValueError("real processes cannot be paused or slowed: --in-memory can")
        if speed is not None:
            if speed not in SPEEDS:
                raise ValueError(f"speed must be one of {SPEEDS}, got {speed}")
            self.speed = speed
        if paused is not None:
            self.paused = paused

    def record_view(self) -> None:
        """Take a view."""
        view = self._observer.take_view()
        if self.phase == STARTING and STARTS not in self.stage.states.values():
            self.phase = RUNNING
        pace = {"phase": self.phase, "paused": self.paused, "speed": self.speed}
        self._ring.append_view(view | pace)

    def step(self) -> None:
        """Let time go on for a step, and take a view if it is due."""
        self.stage.backend.advance_time(visits=self.phase in (STARTING, RUNNING))
        self._steps += 1
        if self._steps % STEPS == 0:
            self.record_view()

    def _run_loop_safely(self) -> None:
        try:
            self._run_loop()
        except Exception as error:  # somebody waits for the end of it all
            self.failure = error
            self._refuse_all()

    def _run_loop(self) -> None:
        due = time.monotonic()
        while True:
            now = time.monotonic()
            if self.paused:
                due = now
                pause = None
            else:
                length = STEP_SECONDS / self.speed
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
            self._run_call(*called)

    def _refuse_all(self) -> None:
        """Nobody is there any more to do what was asked for."""
        with suppress(queue.Empty):
            while True:
                if (called := self._calls.get_nowait()) is not None:
                    called[1].set_exception(ValueError("the swarm has ended"))

    def _run_call(self, work: Callable[[], Any], future: Future[Any]) -> None:
        try:
            result = work()
            self.record_view()
        except Exception as error:  # who asked is told
            future.set_exception(error)
        else:
            future.set_result(result)


# A demonstration from its start to its count: agents, visitors, the loop, and the views of it.


class Demonstration:
    """Real agents in memory or in processes, which a page shows and its buttons break."""

    def __init__(
        self, folder: Path, story: Scenario, *, in_memory: bool, loss: float = 0.0, seed: int = 0
    ) -> None:
        self._folder = folder
        self._story = story
        self._in_memory = in_memory
        self._loss = loss
        self._seed = seed
        self.ring = ViewLog(start=secrets.randbits(40))
        self.audience = TwinAudience(story.means, seed)
        self.swarm = Swarm(
            [],
            self.audience.means,
            visits_per_second=VISITS_PER_SECOND,
            seed=seed,
            audience=self.audience,
            patience=math.inf,  # people may let an agent be down for as long as they like
        )
        self.event_loop: EventLoop | None = None

    def start(self) -> None:
        """Start the agents, without waiting until they answer: views say which do."""
        crew: Backend
        if self._in_memory:
            crew = MemoryBackend(self._folder, self.audience, self._seed)
            visit = _send_no_visitors
        else:
            crew = ProcessBackend(self._folder)
            visit = self.swarm.send_visitors_to
        stage = Stage(crew, self.audience, self._story, self._loss, visit)
        self.swarm.sites = stage.sites
        self.event_loop = EventLoop(stage, self.ring)
        self.event_loop.start()

    def press_button(
        self, button: str, agent: str | None = None, link: Link | None = None
    ) -> Future[str]:
        """Press a button of the stage; what happened, or a ValueError why it cannot be."""
        return self._require_loop.submit_call(
            lambda: self._require_loop.stage.press_button(button, agent, link)
        )

    def set_pace(self, paused: bool | None, speed: float | None) -> Future[None]:
        """Pause, go on, or go on at another speed."""
        return self._require_loop.submit_call(lambda: self._require_loop.set_pace(paused, speed))

    @property
    def failure(self) -> Exception | None:
        """What ended the loop before its time."""
        return None if self.event_loop is None else self.event_loop.failure

    def finish_and_count(self) -> list[Count]:
        """Mend all, let no more visitors come, and count when what is on its way has arrived."""
        self._require_loop.submit_call(self._require_loop.prepare_count).result()
        for site in self.swarm.sites:  # or visitors would wait in vain for one that cannot start
            site.wait_until_ready()
        self.swarm.end_visits()
        return self.swarm.wait_for_agreement()

    def stop(self) -> None:
        """End everything, after a last view."""
        if self.event_loop is not None:
            self.event_loop.stop()
            self.event_loop.stage.resume_stopped()
        self.ring.close()
        self.swarm.stop()

    @property
    def _require_loop(self) -> EventLoop:
        if self.event_loop is None:
            raise ValueError("the swarm is only just starting: wait a moment")
        return self.event_loop


def _send_no_visitors(site: AgentSite) -> None:
    """Where time is stepped, visitors come with it."""
