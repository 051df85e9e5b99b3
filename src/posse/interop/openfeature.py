"""OpenFeature provider: flags of live agents by OFREP, and their rewards by tracking events.

It speaks HTTP only, so an application that uses it needs the extra `openfeature` and no other part
of Posse.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

try:
    import requests
    from openfeature.contrib.provider.ofrep import OFREPProvider
    from openfeature.evaluation_context import EvaluationContext
    from openfeature.provider import Metadata
    from openfeature.track import TrackingEventDetails
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"posse.interop.openfeature needs {error.name}: install Posse with the extra openfeature, "
        'for example pip install ".[openfeature]" in a clone',
        name=error.name,
    ) from None

__all__ = ["Provider"]

MAX_BACKOFF = 2.0  # seconds between two attempts
RETRIED_STATUSES = (502, 503, 504)  # a failing store, or a proxy before an agent that restarts
NOT_SENT = "a tracking event was dropped, because %d wait already: does the agent answer?"

log = logging.getLogger(__name__)


class Provider(OFREPProvider):
    """A provider whose flags are experiments of a live agent, and whose events are rewards.

    url: the agent's address. token: the content of its http_token. events: which experiments an
    event rewards, such as {"purchase": ["checkout", "banner"]}; other events are not sent. None:
    an event rewards the experiment of the same name. patience: seconds for which an event is sent
    again if the agent does not answer; max_pending: events that wait at most.

    An event rewards the visitor's newest decision in the experiment with the value of its details,
    or 1. Events are sent by a thread, so that `track` never waits; `shutdown` waits for them.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float = 5.0,
        events: Mapping[str, Sequence[str]] | None = None,
        patience: float = 15.0,
        max_pending: int = 10_000,
    ) -> None:
        if events is not None and any(isinstance(names, str) for names in events.values()):
            raise ValueError(
                f'events must be like {{"purchase": ["checkout"]}}, with lists, got {events!r}'
            )
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        super().__init__(url, headers_factory=lambda: headers, timeout=timeout)
        self._events = events
        self._patience = patience
        self._pending: queue.Queue[dict[str, Any] | None] = queue.Queue(max_pending)
        self._sender: threading.Thread | None = None
        self._lock = threading.Lock()  # of the sender

    def get_metadata(self) -> Metadata:
        """Return the provider's name."""
        return Metadata(name="Posse")

    def track(
        self,
        tracking_event_name: str,
        evaluation_context: EvaluationContext | None = None,
        tracking_event_details: TrackingEventDetails | None = None,
    ) -> None:
        """Send an event of a visitor, the reward of the newest decision; never waits or raises."""
        visitor = None if evaluation_context is None else evaluation_context.targeting_key
        if not visitor:
            log.warning("event %r has no targeting_key: no visitor to reward", tracking_event_name)
            return
        value = None if tracking_event_details is None else tracking_event_details.value
        details = {} if value is None else {"value": value}
        names = [tracking_event_name]
        if self._events is not None:
            names = list(self._events.get(tracking_event_name, []))
        for name in names:
            event = {"event": name, "context": {"targetingKey": visitor}, "details": details}
            self._start_sender()
            try:
                self._pending.put_nowait(event)
            except queue.Full:
                log.warning(NOT_SENT, self._pending.maxsize)

    def shutdown(self) -> None:
        """Wait until all events are sent, or given up."""
        with self._lock:
            sender = self._sender
            self._sender = None
        if sender is not None:
            self._pending.put(None)  # which ends the thread
            sender.join()

    def _start_sender(self) -> None:
        with self._lock:
            if self._sender is None:
                self._sender = threading.Thread(
                    target=self._send_events, name="posse-track", daemon=True
                )
                self._sender.start()

    def _send_events(self) -> None:
        """Send events one by one until `shutdown`, in a thread."""
        with requests.Session() as session:
            while (event := self._pending.get()) is not None:
                try:
                    self._send_event(session, event)
                except Exception as error:  # the next event may be all right
                    log.warning("event %r was not sent: %s", event["event"], error)

    def _send_event(self, session: requests.Session, event: dict[str, Any]) -> None:
        """Send an event, again and again for some seconds: the agent recognises a repetition."""
        url = f"{self.base_url.rstrip('/')}/ofrep/v1/track"
        headers = self.headers_factory() if self.headers_factory is not None else {}
        deadline = time.monotonic() + self._patience
        wait = 0.1
        while True:
            problem: str
            try:
                answer = session.post(url, json=event, headers=headers, timeout=self.timeout)
                if answer.ok:
                    return
                problem = _read_problem(answer)
                if answer.status_code not in RETRIED_STATUSES:
                    # of an event that is no experiment's, nothing else is to be expected
                    level = logging.DEBUG if "FLAG_NOT_FOUND" in answer.text else logging.WARNING
                    log.log(level, "event %r was not counted: %s", event["event"], problem)
                    return
            except requests.RequestException as error:
                problem = str(error)
            if time.monotonic() + wait > deadline:
                log.warning("event %r was not sent: %s", event["event"], problem)
                return
            time.sleep(wait)
            wait = min(2 * wait, MAX_BACKOFF)


def _read_problem(answer: requests.Response) -> str:
    """Return the sentence of an error."""
    try:
        body = answer.json()
        return str(body.get("errorDetails") or body["error"])
    except (ValueError, KeyError, AttributeError):
        return f"the server answered {answer.status_code}: is this the address of an agent?"
