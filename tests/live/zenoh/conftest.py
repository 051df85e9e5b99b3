"""Certificates of an authority, and a world of agents a and b that have them."""

import pytest

from posse.live import certificates

from .world import World


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certs")
    certificates.create_authority(folder)
    for name in ("a", "b", "hub", "mallory"):
        certificates.issue(folder, name)
    return folder


@pytest.fixture
def world(folder):
    world = World(folder)
    yield world
    world.close()
