"""The event loop of a demonstration: it advances time, runs button presses and records views."""

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

STEPS = 5  # between two views
SPEEDS = (0.25, 1.0, 4.0)
LATE = 5  # steps that a slow machine makes up for; older ones are dropped

STARTING = "starting"
RUNNING = "running"
SETTLING = "settling"
ENDED = "ended"


class EventLoop:
    """Advances a stage (at a chosen speed if time is stepped) and records a view every half second.

    Without `start` there is no thread: `step` and `record_view` may be called by hand.
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
        self.failure: Exception | None = None  # the exception that ended the loop
        self._thread = threading.Thread(
            target=self._run_loop_safely, name="posse-swarm", daemon=True
        )

    def start(self) -> None:
        """Start the loop in a thread."""
        self.record_view()
        self._thread.start()

    def stop(self) -> None:
        """Stop the loop after a last view."""
        self._calls.put(None)
        self._thread.join()
        # Calls behind the None in the queue would never run, and their callers would wait forever.
        self._refuse_all()
        self.phase = ENDED
        if self.failure is None:
            self.record_view()
        self._ring.close()

    def prepare_count(self) -> None:
        """Repair everything and send no more visitors, so that all evidence can arrive."""
        self.stage.repair_all()
        self.phase = SETTLING
        self.paused = False
        if self.stage.backend.stepped:
            self.speed = SPEEDS[-1]

    def submit_call(self, work: Callable[[], Any]) -> Future[Any]:
        """Run a function between two steps; a view of its outcome follows at once."""
        future: Future[Any] = Future()
        self._calls.put((work, future))
        # The loop may have ended just before the call was queued: nobody else would refuse it.
        if not self._thread.is_alive():
            self._refuse_all()
        return future

    def set_pace(self, paused: bool | None = None, speed: float | None = None) -> None:
        """Pause, resume or change the speed; refused where time is real."""
        if not self.stage.backend.stepped:
            raise ValueError(
                "real processes cannot be paused or slowed: start the swarm with --in-memory"
            )
        if speed is not None:
            if speed not in SPEEDS:
                raise ValueError(f"speed must be one of {SPEEDS}, got {speed}")
            self.speed = speed
        if paused is not None:
            self.paused = paused

    def record_view(self) -> None:
        """Record a view of the present moment."""
        view = self._observer.take_view()
        if self.phase == STARTING and STARTS not in self.stage.states.values():
            self.phase = RUNNING
        pace = {"phase": self.phase, "paused": self.paused, "speed": self.speed}
        self._ring.append_view(view | pace)

    def step(self) -> None:
        """Advance time by one step, and record a view if it is due."""
        self.stage.backend.advance_time(visits=self.phase in (STARTING, RUNNING))
        self._steps += 1
        if self._steps % STEPS == 0:
            self.record_view()

    def _run_loop_safely(self) -> None:
        try:
            self._run_loop()
        except Exception as error:  # reported to the caller that waits for the end
            self.failure = error
            self._refuse_all()

    def _run_loop(self) -> None:
        due = time.monotonic()
        while True:
            now = time.monotonic()
            if self.paused:
                # A pause owes no steps: afterwards the swarm does not hurry.
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
        """Refuse all queued calls: the loop has ended."""
        with suppress(queue.Empty):
            while True:
                if (called := self._calls.get_nowait()) is not None:
                    called[1].set_exception(ValueError("the swarm has ended"))

    def _run_call(self, work: Callable[[], Any], future: Future[Any]) -> None:
        try:
            result = work()
            self.record_view()
        except Exception as error:  # reported to the caller
            future.set_exception(error)
        else:
            future.set_result(result)


# A demonstration from its start to its audit.


class Demonstration:
    """Real agents in memory or in processes; a page shows them, and its buttons break them."""

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
            patience=math.inf,  # an agent may stay down for as long as people like
        )
        self.event_loop: EventLoop | None = None

    def start(self) -> None:
        """Start the agents without waiting until they answer: the views show which do."""
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
        """Press a button; the future holds a sentence, or a ValueError that says why not."""
        return self._require_loop.submit_call(
            lambda: self._require_loop.stage.press_button(button, agent, link)
        )

    def set_pace(self, paused: bool | None, speed: float | None) -> Future[None]:
        """Pause, resume or change the speed."""
        return self._require_loop.submit_call(lambda: self._require_loop.set_pace(paused, speed))

    @property
    def failure(self) -> Exception | None:
        """The exception that ended the loop, if any."""
        return None if self.event_loop is None else self.event_loop.failure

    def finish_and_count(self) -> list[Count]:
        """Repair everything, send no more visitors, and count once all evidence has arrived."""
        self._require_loop.submit_call(self._require_loop.prepare_count).result()
        for (
            site
        ) in self.swarm.sites:  # otherwise visitors would wait for an agent that cannot start
            site.wait_until_ready()
        self.swarm.end_visits()
        return self.swarm.wait_for_agreement()

    def stop(self) -> None:
        """Stop everything after a last view."""
        if self.event_loop is not None:
            self.event_loop.stop()
            # A process stopped by SIGSTOP would not act on the request to end.
            self.event_loop.stage.resume_stopped()
        self.ring.close()
        self.swarm.stop()

    @property
    def _require_loop(self) -> EventLoop:
        if self.event_loop is None:
            raise ValueError("the swarm is starting: wait a moment")
        return self.event_loop


def _send_no_visitors(site: AgentSite) -> None:
    """Do nothing: where time is stepped, the backend sends the visitors."""
