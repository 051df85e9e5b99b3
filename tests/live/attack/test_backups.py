"""Disks that go back in time: a copy put back, a file without its log, a volume rolled back."""

import os
import shutil

import pytest

from posse.live.experiment.reward_window import RewardWindow

COPIES = {
    "into the same file": lambda copy, path: path.write_bytes(copy.read_bytes()),
    "with its times": lambda copy, path: shutil.copy2(copy, path),
    "in its place": lambda copy, path: os.replace(copy, path),
}


def start_two(line):
    """Two that agree on five rewards of a; a has stopped cleanly."""
    world = line("origins", "ab")
    for name in "ab":
        world.start(name)
    world.visit("a", 5)
    world.tick(15)
    world.close_node("a")
    return world


@pytest.mark.parametrize("put_back", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("lock_too", [False, True])
def test_a_copy_of_a_clean_store_put_back_later(line, put_back, lock_too):
    """What others hold comes back, what is new is kept beside it, and nothing counts twice."""
    world = start_two(line)
    path, lock = world.path("a"), world.path("a").with_name("a.db.lock")
    copies = [world.folder / "copy", world.folder / "copy.lock"]
    for original, copy in zip((path, lock), copies, strict=True):
        shutil.copy2(original, copy)
    world.start("a")
    world.visit("a", 7)
    world.tick(15)
    world.close_node("a")
    put_back(copies[0], path)
    if lock_too:
        put_back(copies[1], lock)
    world.start("a")
    world.visit("a", 9)  # before it has heard anybody
    world.tick(30)
    assert world.pulls("a") == world.pulls("b") == 5 + 7 + 9
    assert world.nodes["a"].evidence()["held"] == world.nodes["b"].evidence()["held"]
    assert not world.nodes["a"].network()["refused"]


def test_many_restarts_take_little_room_at_others(line):
    """Else every restart would add an entry for everybody to keep for ever."""
    world = start_two(line)
    for nth in range(70):
        world.start("a", reward_window=RewardWindow(10.0, 0.0))
        world.visit("a")
        world.tick(200 if nth == 69 else 1)
        world.close_node("a")
    held = world.nodes["b"].agent.exchange.replica.of_origin("a")
    few = world.nodes["b"].agent.exchange.compaction.fold_above
    assert len(held) <= few + 2  # a base, and the present incarnation
    assert world.pulls("b") == 75


@pytest.mark.parametrize("since", [5, 20, 25])
def test_a_volume_rolled_back_as_a_whole(line, since):
    """Stop, snapshot, upgrade, revert: what the neighbours held and what is new both count.

    Seen in 0.1, which took the file for the one it had left, for its inode and its times were
    those: of 5 rewards after the 20 that were undone none was left, after 20 the agents disagreed
    for ever, and 25 erased the 20 everywhere.
    """
    world = start_two(line)
    path = world.path("a")
    snapshot = {each: each.read_bytes() for each in world.folder.glob("a.db*")}
    assert path in snapshot
    world.start("a")
    world.visit("a", 20)
    world.tick(15)
    assert world.pulls("b") == 25
    world.close_node("a")
    for each, content in snapshot.items():  # a volume brings the inode and all times back, too
        each.write_bytes(content)
    world.start("a")
    world.visit("a", since)  # before it has heard anybody
    world.tick(30)
    assert world.pulls("a") == world.pulls("b") == 25 + since
    assert world.nodes["a"].evidence()["held"] == world.nodes["b"].evidence()["held"]
    assert not world.nodes["a"].network()["refused"]


def test_a_live_store_copied_without_its_log(line):
    """An old state, and known to be old: what was heard of it comes back."""
    world = start_two(line)
    world.start("a")
    world.visit("a", 7)
    world.tick(15)
    copy = world.folder / "copy"
    shutil.copy2(world.path("a"), copy)
    world.close_node("a")
    shutil.copy2(copy, world.path("a"))
    world.start("a")
    world.visit("a", 9)
    world.tick(30)
    assert world.pulls("a") == world.pulls("b") == 21


def test_a_store_that_lost_its_log(line):
    """Killed, and the log thrown away: the file itself is the one of the last clean stop."""
    world = start_two(line)
    node = world.start("a")
    world.visit("a", 7)
    world.tick(15)
    rest = world.folder / "rest"  # what a kill leaves behind, without the log
    shutil.copy2(world.path("a"), rest)
    node.store.file.writer.connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    world.close_node("a")
    os.replace(rest, world.path("a"))
    world.start("a")
    world.visit("a", 9)
    world.tick(30)
    assert world.pulls("a") == world.pulls("b") == 21
