"""An agent process: its logs, and its wiring from agent.toml.

Every line of the log has time, level, agent and experiment, as text or as JSON. Untrusted text
(names, addresses, error messages) cannot begin a line of its own: unprintable characters are
escaped, and further lines are indented.
"""

from __future__ import annotations

import json
import logging
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from posse.live.config import AgentSettings
from posse.live.membership import Presence
from posse.live.messaging import Transport
from posse.live.messaging.transport.zenoh import ZenohTransport
from posse.live.node import Node
from posse.live.node_factory import AgentKeys, ExperimentFactory, NetworkAccess
from posse.live.reload import Reloader
from posse.live.security import CertificateFiles
from posse.live.store import StoreError

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
    logging.raiseExceptions = False
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


# --- wiring from agent.toml: store, transport, signatures, experiments, node

log = logging.getLogger(__name__)

# bytes of a number on the wire, and of all in a second
NUMBER_BYTES = 5
MUCH_TRAFFIC = 1e6
SWITCH_SECONDS = 0.0005  # seconds after which a thread gives way, so that no request waits for long


def make_node(
    settings: AgentSettings,
    folder: Path,
    around: Callable[[Transport], Transport] = lambda transport: transport,
) -> Node:
    """Build a node that is ready to start; paths are relative to the folder of its agent.toml.

    around: a wrapper of every transport it opens (middleware), such as faults for a demonstration.
    """
    # The default of 5 ms would let one busy thread add 5 ms to every request.
    sys.setswitchinterval(SWITCH_SECONDS)
    files = (
        None
        if settings.insecure
        else CertificateFiles.in_folder(folder / settings.certificates, settings.name)
    )
    keys = None if files is None else AgentKeys(settings.name, files)
    network = NetworkAccess(lambda new: around(_make_transport(new, files)), keys)
    try:
        return assemble_node(settings, folder, network)
    except StoreError as error:  # at the start, somebody can see to it
        raise ValueError(f"{settings.name} cannot start: {error}") from error


def assemble_node(
    settings: AgentSettings,
    folder: Path,
    network: NetworkAccess,
    *,
    clock: Callable[[], float] = time.time,
    draw: Callable[[int], int] = secrets.randbits,  # all that is random comes from here
    monotonic: Callable[[], float] = time.monotonic,
) -> Node:
    """Build a node of these settings with a store in a folder and any access to a network."""
    transport = network.connect(settings)
    maker = ExperimentFactory(settings.name, network.keys, clock, draw, monotonic)
    name, *further = settings.experiments
    # The first experiment opens the store file; the others are views of it.
    first = maker.open_first(settings, name, folder / settings.store)
    try:
        beside = [
            maker.open_another(settings, further_name, first.store) for further_name in further
        ]
        node = Node(
            settings.name,
            [first, *beside],
            first.store,
            transport,
            neighbours=list(settings.neighbours),
            tick_seconds=settings.tick_seconds,
            clock=clock,
            limits=settings.limits,
            presence=_make_presence(settings, network.keys, clock()),
        )
    except BaseException:
        first.store.close()
        raise
    node.reloader = Reloader(node, settings, network, maker)
    _warn_of_traffic(settings)
    return node


def _warn_of_traffic(settings: AgentSettings) -> None:
    """Warn if contexts of many columns send too many bytes a second to neighbours.

    The estimate assumes that every known agent learns, and sends each entry once a tick.
    """
    near = len(settings.neighbours)
    for name, experiment in settings.experiments.items():
        d = 0 if experiment.context is None else experiment.context.n_features
        numbers = len(experiment.arms) * (1 + d * (d + 3) // 2)
        rate = NUMBER_BYTES * numbers * (1 + near) * near / settings.tick_seconds
        if d and rate > MUCH_TRAFFIC:
            log.warning(
                "%d columns of context and %d arms send about %.1f MB a second to neighbours: "
                "raise tick_seconds",
                *(d, len(experiment.arms), rate / 1e6),
                extra={"experiment": name},
            )


def _make_presence(settings: AgentSettings, keys: AgentKeys | None, now: float) -> Presence:
    sign, verify = (keys.sign, keys.verify) if keys is not None else (None, None)
    return Presence(settings.name, settings.network, now=now, sign=sign, verify=verify)


def _make_transport(settings: AgentSettings, files: CertificateFiles | None) -> ZenohTransport:
    return ZenohTransport(
        settings.name,
        {name: address or None for name, address in settings.neighbours.items()},
        listen=settings.listen or (),
        files=files,
        network=settings.network,
        insecure=settings.insecure,
        router=next(iter(settings.router.items()), None),
    )
