"""Retries of a client without I/O: how long to wait for an agent, and what is said in the end."""

from __future__ import annotations

import json
import random
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from posse import checks
from posse.live.client.calls import refusal
from posse.live.client.connection import Answer
from posse.live.store import StoreError

AWAY = (502, 503, 504)  # a store that fails, or a proxy before an agent that is starting again
LONGEST = 2.0  # seconds between two attempts


@dataclass(frozen=True)
class Patience:
    """For how many seconds to try, or if that is given how often, with exponential back-off."""

    seconds: float
    attempts: int | None
    backoff: float

    def __post_init__(self) -> None:
        checks.number("patience", self.seconds, at_least=0)
        checks.number("backoff", self.backoff, at_least=0)
        if self.attempts is not None:
            checks.whole("attempts", self.attempts, at_least=1)

    def of(self, hurry: float | None, away: bool) -> Patience:
        """One attempt only for whoever is in a hurry while the agent is known to be away."""
        return replace(self, attempts=1) if hurry is not None and away else self


class Attempts:
    """The attempts of one request.

    hurry: seconds after which the caller has to go on, whatever else is said.
    """

    def __init__(
        self,
        url: str,
        timeout: float,
        patience: Patience,
        hurry: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url, self._timeout, self._patience, self._hurry = url, timeout, patience, hurry
        self._clock, self._begun, self._made = clock, clock(), 0

    @property
    def timeout(self) -> float:
        """How long the next attempt may take."""
        if self._hurry is None:
            return self._timeout
        left = self._begun + self._hurry - self._clock()
        return min(self._timeout, max(left, 0.001))  # 0 would mean: do not block

    def pause(self, failure: Exception | Answer) -> float:
        """The back-off before the next attempt, or the error after the last one."""
        self._made += 1
        wait = self._back_off(failure)
        then = self._clock() - self._begun + wait
        enough = then > self._patience.seconds
        if self._patience.attempts is not None:
            enough = self._made >= self._patience.attempts
        if enough or _is_distrust(failure) or (self._hurry is not None and then >= self._hurry):
            raise self._error(failure) from (failure if isinstance(failure, Exception) else None)
        return wait

    def _back_off(self, failure: Exception | Answer) -> float:
        asked = 0.0
        if isinstance(failure, Answer) and failure.retry_after.isdecimal():
            asked = float(failure.retry_after)
        wait = max(asked, self._patience.backoff * 2.0 ** min(self._made - 1, 60))
        # spread, so that clients who failed together do not come back together
        return min(wait, LONGEST) * random.uniform(1.0, 1.5)

    def _error(self, failure: Exception | Answer) -> Exception:
        if isinstance(failure, Exception):
            why = str(failure) or type(failure).__name__
            hint = "is verify (--verify) the file of its authority?"
            if not _is_distrust(failure):
                hint = "is it running?"
            return ConnectionError(f"no agent answers at {self._url} ({why}): {hint}")
        if failure.status == 503:
            return StoreError(failure.error or f"{self._url} is unavailable: try later")
        return _strange(self._url, failure)


def understood(url: str, answer: Answer) -> Any:
    """What the agent said, or the error it means."""
    if answer.status == 200:
        with suppress(ValueError):
            return json.loads(answer.content)
    if answer.error is None:
        raise _strange(url, answer)
    if answer.status >= 500:
        raise RuntimeError(answer.error)
    raise refusal(answer.status, answer.error)


def _strange(url: str, answer: Answer) -> RuntimeError:
    """The error of an answer that no agent gives."""
    return RuntimeError(f"{url} answered {answer.status}: is this the address of an agent?")


def _is_distrust(failure: Exception | Answer) -> bool:
    """Whether a certificate is not believed, which no retry changes."""
    cause: BaseException | None = failure if isinstance(failure, Exception) else None
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    return cause is not None
