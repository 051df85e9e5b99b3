"""Commands of posse as processes of their own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def start(tmp_path):
    """Start commands in the folder of the test; what still runs at its end is told to stop."""
    started = []

    def start(*arguments):
        process = subprocess.Popen(
            [sys.executable, "-m", "posse", *map(str, arguments)], cwd=tmp_path, text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
