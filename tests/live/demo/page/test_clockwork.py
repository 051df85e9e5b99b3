"""The loop: what fails in it is told, to who pressed a button and to who waits for the end."""

import pytest

from tests.browsing import until


def broken(*_, **__):
    raise OSError("the disk is gone")


def test_a_loop_that_fails_says_why_and_does_no_more(show, monkeypatch):
    monkeypatch.setattr(show.event_loop.stage.backend, "advance_time", broken)
    until(lambda: show.failure)
    assert str(show.failure) == "the disk is gone"
    with pytest.raises(ValueError, match="the swarm has ended"):
        show.press_button("lose").result(10)


def test_a_button_that_fails_does_not_end_the_loop(show, monkeypatch):
    monkeypatch.setattr(show.event_loop.stage.backend, "kill_agent", broken)
    with pytest.raises(OSError, match="the disk is gone"):
        show.press_button("kill", "rome").result(10)
    assert show.press_button("lose").result(10) == "20% of messages are lost"
    assert show.failure is None


def test_before_the_start_nothing_can_be_pressed(scratch):
    from posse.live.demo.page import Demonstration, default_scenario

    early = Demonstration(scratch, default_scenario(2, 2), in_memory=True)
    with pytest.raises(ValueError, match="is starting: wait"):
        early.press_button("lose")
    early.stop()
