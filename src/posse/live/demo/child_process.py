"""An agent in a child process that takes commands on stdin and replies on stdout.

`python -m posse.live.demo.child_process agent.toml` is an ordinary agent otherwise. It ends when
its stdin closes, so that no agent outlives the demonstration.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, BinaryIO

import msgspec

from posse.live.config import read_settings
from posse.live.demo.fault_injection import AgentSnapshot, FaultInjector, Faults, take_snapshot
from posse.live.node import Node
from posse.live.process import make_node
from posse.live.reload import reload_from


class ChildCommand(msgspec.Struct, omit_defaults=True):
    """A command to the agent: new faults, a numbered request for a snapshot, or a reload."""

    faults: Faults | None = None
    question: int | None = None
    reload: bool = False


class ChildReply(msgspec.Struct, omit_defaults=True):
    """A reply of the agent: the snapshot of a request, or why a reload failed."""

    question: int | None = None
    snapshot: AgentSnapshot | None = None
    problem: str | None = None


class ChildProcess:
    """The parent's end of the pipes; a thread reads the replies, which may never come."""

    def __init__(self, faults: Faults = Faults()) -> None:  # noqa: B008 (frozen)
        self.faults = faults
        self.problems: list[str] = []  # of failed reloads
        self._process: subprocess.Popen[bytes] | None = None
        self._reply_arrived = threading.Condition()
        self._questions = 0
        self._waiting = False  # for a reply
        self._newest: tuple[int, AgentSnapshot] | None = None

    def launch_agent(self, file: Path, log: BinaryIO) -> subprocess.Popen[bytes]:
        """Start the agent, with the present faults from its first message on."""
        process = subprocess.Popen(
            [sys.executable, "-m", "posse.live.demo.child_process", file],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
        # Replies of an earlier process are dropped: they must not answer questions to this one.
        with self._reply_arrived:
            self._process = process
            self._waiting = False
            self._newest = None
        # `main` reads this first line before it creates the node: no message escapes the faults.
        self._send_command(ChildCommand(faults=self.faults))
        threading.Thread(target=self._read_replies, args=(process,), daemon=True).start()
        return process

    def set_faults(self, faults: Faults) -> None:
        """Apply faults from now on and after every start."""
        self.faults = faults
        self._send_command(ChildCommand(faults=faults))

    def request_reload(self) -> None:
        """Let the agent read its file again; a stopped agent does so once it continues."""
        self._send_command(ChildCommand(reload=True))

    def request_snapshot(self) -> None:
        """Request a snapshot, unless the last request is still open."""
        with self._reply_arrived:
            # At most one open request: a process stopped by SIGSTOP reads nothing, and further
            # requests would fill the pipe until the parent blocks.
            if self._waiting:
                return
            self._questions = self._questions + 1
            self._waiting = True
        if not self._send_command(ChildCommand(question=self._questions)):
            self._waiting = False

    def wait_for_snapshot(self, seconds: float) -> AgentSnapshot | None:
        """Return the snapshot of the last request, or None if it does not come in time."""
        with self._reply_arrived:
            self._reply_arrived.wait_for(lambda: not self._waiting, seconds)
            # A reply to an earlier request would show the past as the present.
            if self._newest is None or self._newest[0] != self._questions:
                return None
            return self._newest[1]

    def _send_command(self, command: ChildCommand) -> bool:
        pipe = None if self._process is None else self._process.stdin
        if pipe is None:
            return False
        try:
            pipe.write(msgspec.json.encode(command) + b"\n")
            pipe.flush()
        except (OSError, ValueError):  # the process has ended, and the pipe is broken or closed
            return False
        return True

    def _read_replies(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                with suppress(msgspec.DecodeError):  # an incomplete line of a killed process
                    self._store_reply(process, msgspec.json.decode(line, type=ChildReply))
        # The process has ended: wake the caller, whose reply will never come.
        with self._reply_arrived:
            if self._process is process:
                self._waiting = False
                self._reply_arrived.notify_all()
        with suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()

    def _store_reply(self, process: subprocess.Popen[bytes], reply: ChildReply) -> None:
        with self._reply_arrived:
            if reply.problem is not None:
                self.problems.append(reply.problem)
            if self._process is not process or reply.question is None or reply.snapshot is None:
                return
            self._newest = (reply.question, reply.snapshot)
            self._waiting = False
            self._reply_arrived.notify_all()


def main(file: Path) -> None:
    """Run the agent of a settings file until stdin closes."""
    from posse.live import logs
    from posse.live.http import serve_node

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then counts
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # other output must not mix with the replies
    interference = FaultInjector(random.Random())
    _apply_faults(interference, msgspec.json.decode(sys.stdin.buffer.readline(), type=ChildCommand))
    settings = read_settings(file)
    logs.set_up_logging(settings.name, settings.log)
    node = make_node(settings, file.resolve().parent, interference.wrap_transport)
    try:
        node.start()
        with serve_node(node, settings.http):
            for line in sys.stdin.buffer:
                reply = _run_command(
                    node, file, interference, msgspec.json.decode(line, type=ChildCommand)
                )
                _send_reply(replies, reply)
    finally:
        node.stop()


def _run_command(
    node: Node, file: Path, interference: FaultInjector, command: ChildCommand
) -> ChildReply | None:
    _apply_faults(interference, command)
    if command.reload:
        try:
            reload_from(file, node)
        except ValueError as error:
            return ChildReply(problem=str(error))
    if command.question is not None:
        return ChildReply(question=command.question, snapshot=take_snapshot(node, interference))
    return None


def _apply_faults(interference: FaultInjector, command: ChildCommand) -> None:
    if command.faults is not None:
        interference.faults = command.faults


def _send_reply(replies: IO[bytes], reply: ChildReply | None) -> None:
    if reply is not None:
        with suppress(OSError):  # the parent has gone: stdin closes, too
            replies.write(msgspec.json.encode(reply) + b"\n")
            replies.flush()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except ValueError as error:  # one line for the log of the demonstration
        sys.exit(f"posse: {error}")
