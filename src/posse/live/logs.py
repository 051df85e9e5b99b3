"""Logs of an agent process: time, level, agent and experiment on every line, as text or as JSON.

What strangers choose (names, addresses, messages of errors) cannot begin a line of its own: what
cannot be printed is escaped, and what goes on in another line is indented.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TextIO

_experiment: ContextVar[str | None] = ContextVar("experiment", default=None)


def set_up(agent: str, kind: str = "text", stream: TextIO | None = None) -> logging.Handler:
    """Send all logs of this process to stderr, or another stream, in place of where they went."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines(agent) if kind == "json" else TextLines(agent))
    root = logging.getLogger()
    for other in root.handlers[:]:
        if isinstance(getattr(other, "formatter", None), TextLines | JsonLines):
            root.removeHandler(other)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("posse").setLevel(logging.INFO)
    logging.raiseExceptions = False  # a full disk or a closed pipe must not end anything
    return handler


@contextmanager
def about(experiment: str) -> Iterator[None]:
    """Name the experiment in all that is logged meanwhile by this thread or task."""
    before = _experiment.set(experiment)
    try:
        yield
    finally:
        _experiment.reset(before)


class TextLines(logging.Formatter):
    """A line a record, such as "2026-11-16T16:48:14.123Z WARNING berlin/checkout: ..."."""

    def __init__(self, agent: str) -> None:
        super().__init__()
        self.agent = agent

    def format(self, record: logging.LogRecord) -> str:
        """One line; tracebacks follow it, indented."""
        experiment = _experiment_of(record)
        who = self.agent if experiment is None else f"{self.agent}/{experiment}"
        first = f"{_time(record)} {record.levelname} {printable(who)}: {printable(_said(record))}"
        return "\n    ".join([first, *map(printable, _traceback(self, record).splitlines())])


class JsonLines(logging.Formatter):
    """A JSON object a line: time, level, agent, experiment, logger, message, exception."""

    def __init__(self, agent: str) -> None:
        super().__init__()
        self.agent = agent

    def format(self, record: logging.LogRecord) -> str:
        """One line, in ASCII."""
        fields = {
            "time": _time(record),
            "level": record.levelname,
            "agent": self.agent,
            "experiment": _experiment_of(record),
            "logger": record.name,
            "message": _said(record),
            "exception": _traceback(self, record) or None,
        }
        return json.dumps({key: value for key, value in fields.items() if value is not None})


def printable(text: str) -> str:
    """A text in one line of a terminal: what cannot be printed, or ends a line, is escaped."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _said(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # arguments that do not fit are a bug, and no reason to lose the line
        return f"{record.msg} {record.args!r}"


def _experiment_of(record: logging.LogRecord) -> str | None:
    named = getattr(record, "experiment", None)
    return _experiment.get() if named is None else str(named)


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return formatter.formatException(record.exc_info) if record.exc_info else ""
