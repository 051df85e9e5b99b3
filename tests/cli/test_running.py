"""Commands that run on until they are told to stop."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

WAIT = """
import signal, threading
from posse.cli.running import told
with told() as stopped:
    {before}
    print(stopped(0.01), flush=True)
    print(stopped(), flush=True)
"""
# as the system may do when there are several threads: another one gets it
ELSEWHERE = """threading.Thread(target=threading.Event().wait, daemon=True).start()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])"""


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="no masks of signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("before", ["", ELSEWHERE], ids=["the main thread", "another"])
def test_it_is_told_whichever_thread_gets_the_signal(number, before):
    code = WAIT.format(before=before)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"False\n"
            process.send_signal(number)
            assert process.communicate(timeout=60)[0] == b"True\n"
        finally:
            process.kill()
    assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_was_told_before_it_waits(number):
    code = WAIT.format(before=f"signal.raise_signal({int(number)})")
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert ended.stdout == b"True\nTrue\n"
