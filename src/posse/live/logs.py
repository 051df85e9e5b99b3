"""Logs of an agent process: time, level, agent and experiment on every line, as text or as JSON.

Untrusted text (names, addresses, error messages) cannot begin a line of its own: unprintable
characters are escaped, and further lines are indented.
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


def set_up_logging(agent: str, kind: str = "text", stream: TextIO | None = None) -> logging.Handler:
    """Send all logs of this process to stderr, or another stream, and nowhere else."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines(agent) if kind == "json" else TextLines(agent))
    root = logging.getLogger()
    for old_handler in root.handlers[:]:
        if isinstance(getattr(old_handler, "formatter", None), TextLines | JsonLines):
            root.removeHandler(old_handler)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("posse").setLevel(logging.INFO)
    # Logging must never end a process: a full disk or a closed pipe is not its business.
    logging.raiseExceptions = False  # a full disk or a closed pipe must not end anything
    return handler


@contextmanager
def log_experiment(experiment: str) -> Iterator[None]:
    """Name the experiment in all that this thread or task logs meanwhile."""
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
        source = self.agent if experiment is None else f"{self.agent}/{experiment}"
        head = f"{_format_time(record)} {record.levelname} {escape_unprintable(source)}"
        first = f"{head}: {escape_unprintable(_format_message(record))}"
        return "\n    ".join(
            [first, *map(escape_unprintable, _format_traceback(self, record).splitlines())]
        )


class JsonLines(logging.Formatter):
    """A JSON object a line: time, level, agent, experiment, logger, message, exception."""

    def __init__(self, agent: str) -> None:
        super().__init__()
        self.agent = agent

    def format(self, record: logging.LogRecord) -> str:
        """One line, in ASCII."""
        fields = {
            "time": _format_time(record),
            "level": record.levelname,
            "agent": self.agent,
            "experiment": _experiment_of(record),
            "logger": record.name,
            "message": _format_message(record),
            "exception": _format_traceback(self, record) or None,
        }
        return json.dumps({key: value for key, value in fields.items() if value is not None})


def escape_unprintable(text: str) -> str:
    """Return a text as one line of a terminal: unprintable characters are escaped."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def _format_time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _format_message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # arguments that do not fit are a bug, and no reason to lose the line
        return f"{record.msg} {record.args!r}"


def _experiment_of(record: logging.LogRecord) -> str | None:
    experiment = getattr(record, "experiment", None)
    return _experiment.get() if experiment is None else str(experiment)


def _format_traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return formatter.formatException(record.exc_info) if record.exc_info else ""
