"""Examples of hypothesis do not depend on luck, unless a caller asks for random ones."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHOW = """
import tests.conftest
from hypothesis import settings

chosen = settings()
print(chosen.derandomize, chosen.print_blob, chosen.deadline)
"""


@pytest.mark.parametrize(
    ("profile", "shown"), [(None, "True True None"), ("random", "False True None")]
)
def test_examples_are_repeatable_unless_random_ones_are_asked_for(profile, shown):
    environment = {k: v for k, v in os.environ.items() if k not in ("HYPOTHESIS_PROFILE", "CI")}
    if profile is not None:
        environment["HYPOTHESIS_PROFILE"] = profile
    command = [sys.executable, "-c", SHOW]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == shown
