"""A store in a folder of the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from posse.live.store import Store

FINGERPRINT = "origins bernoulli beta(1, 1)"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


@pytest.fixture
def reopen(path: Path) -> Callable[[], Store]:
    return lambda: Store.open(path, fingerprint=FINGERPRINT)


@pytest.fixture
def store(reopen: Callable[[], Store]) -> Iterator[Store]:
    with reopen() as opened:
        yield opened
