"""Certificates of an authority, and a world of agents a and b that have them."""

import pytest

from ..loopback import certified  # noqa: TID252 (no package to name)
from .world import World


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return certified(tmp_path_factory.mktemp("certs"), "a", "b", "hub", "mallory")


@pytest.fixture
def world(folder):
    world = World(folder)
    yield world
    world.close()
