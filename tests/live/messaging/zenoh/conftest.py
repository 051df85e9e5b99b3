"""Certificates of an authority, and a world of agents a and b that have them."""

import pytest

from tests.live.loopback import certified
from tests.live.messaging.zenoh.world import World


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return certified(tmp_path_factory.mktemp("certs"), "a", "b", "hub", "mallory")


@pytest.fixture
def world(folder):
    world = World(folder)
    yield world
    world.close()
