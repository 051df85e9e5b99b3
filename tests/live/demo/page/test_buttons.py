"""Every button of the page in memory: what it breaks, and that the other one mends it."""

import pytest

from posse.live.demo.page.stage import ARMS, CITIES


def arms_of(node):
    return node.experiment().agent.arm_names


def test_a_killed_agent_comes_back_with_all_it_acknowledged(play):
    played = play()
    played.run(3)
    before = played.of("visits", "paris")
    assert played.press_button("kill", "paris") == "paris killed"
    played.run(3)
    assert played.of("states", "paris") == "killed"
    assert played.of("visits", "paris") == before > 5
    assert played.of("behind", "paris") > 20
    assert played.passed("berlin", "paris") == [False] * 3
    assert all(played.passed("rome", "lyon"))
    with pytest.raises(ValueError, match="paris is killed: start it first"):
        played.press_button("stop", "paris")
    played.press_button("start", "paris")
    played.run(4)
    assert played.of("states", "paris") == "runs"
    assert played.of("visits", "paris") > before
    assert played.of("behind", "paris") < 40


def test_a_stopped_agent_neither_answers_nor_hears(play):
    played = play()
    played.run(3)
    before = played.of("visits", "rome")
    played.press_button("stop", "rome")
    ticks = played.node("rome").counts["sent"]
    played.run(3)
    assert played.of("states", "rome") == "stopped"
    assert played.of("visits", "rome") == before
    assert played.node("rome").counts["sent"] == ticks
    assert played.of("behind", "rome") > 20
    with pytest.raises(ValueError, match="rome is stopped: let it continue first"):
        played.press_button("start", "rome")
    played.press_button("go-on", "rome")
    played.run(4)
    assert played.of("visits", "rome") > before
    assert played.of("behind", "rome") < 40


def test_nothing_passes_on_a_link_that_is_cut(play):
    played = play(2, 2)
    played.run(3)
    played.press_button("cut", link=("paris", "berlin"))  # in any order
    view = played.run(4)
    assert view["cut"] == [0]
    assert not played.messages
    assert min(view["behind"]) > 10
    assert played.node("berlin").transport.connected() == {"paris": False}
    assert played.press_button("join", link=("berlin", "paris")) == "link berlin–paris joined"
    view = played.run(3)
    assert len(played.messages) > 4
    assert view["cut"] == []
    assert max(view["behind"]) < 15


def test_a_fifth_of_messages_is_lost_or_none(play):
    played = play()
    played.press_button("lose")
    played.run(10)
    passed = [ok for *_, ok in played.messages]
    assert len(passed) > 100
    assert 0.64 < sum(passed) / len(passed) < 0.96  # 4 standard errors
    played.press_button("lose-none")
    played.run(3)
    assert len(played.messages) > 20
    assert all(ok for *_, ok in played.messages)


def test_agents_join_until_no_city_is_left(play):
    played = play(3, 2)
    played.run(2)
    played.press_button("lose")
    assert played.press_button("add-agent") == "lyon joins rome and berlin"
    assert played.node("rome").neighbours == ("paris", "berlin", "lyon")
    view = played.run(6)
    assert view["agents"] == ["berlin", "paris", "rome", "lyon"]
    assert view["links"][-2:] == [(2, 3), (0, 3)]
    assert played.of("visits", "lyon") > 10
    assert played.of("behind", "lyon") < 60
    assert set(played.passed("lyon", "rome") + played.passed("lyon", "berlin")) == {True, False}
    for _ in range(len(CITIES) - 4):
        played.press_button("add-agent")
    with pytest.raises(ValueError, match="no city is left"):
        played.press_button("add-agent")


def test_an_arm_is_added_everywhere_also_where_an_agent_is_down(play):
    played = play(3, 4)
    played.run(1)
    played.press_button("kill", "paris")
    assert played.press_button("add-arm") == "story added: 36% convert"
    played.press_button("start", "paris")
    view = played.run(8)
    assert [name for name, _ in view["arms"]] == list(ARMS)[:5]
    for name in view["agents"]:
        assert arms_of(played.node(name)) == list(ARMS)[:5]
        assert len(played.of("shares", name)) == 5
        assert "story" in played.audience.visitors_of(name).twin.arm_names
    assert sum(site.visits["story"] for site in played.stage.sites) > 0
    played.press_button("add-arm")
    with pytest.raises(ValueError, match="there are 6 arms"):
        played.press_button("add-arm")


def test_a_site_that_differs_has_another_best_arm(play):
    played = play(3, 3)
    assert played.press_button("differ", "paris") == "paris: other visitors, for whom photo is best"
    assert played.audience.true_means("paris") == {"text": 0.38, "photo": 0.44, "quiz": 0.28}
    played.run(0.5)
    assert played.of("differs", "paris")
    played.press_button("be-alike", "paris")
    assert played.audience.true_means("paris") == played.audience.true_means("rome")


def test_a_site_that_lies_is_believed_for_its_own_visits_only(play):
    played = play(2, 3)
    played.press_button("lie", "paris")
    view = played.run(10)
    assert view["lies"] == [False, True]
    own = played.node("paris").experiment().evidence()["own"]
    assert own["text"][0] == own["text"][-1] > 0  # every visitor converts
    assert {values[0] for arm, values in own.items() if arm != "text"} == {0}
    held = played.node("berlin").experiment().pulls_by_origin()
    assert 0 < held["paris"] <= played.of("visits", "paris")
    # who lies is left out of the average
    assert view["mean_regret"] == pytest.approx(played.of("regret", "berlin"), abs=0.01)
    assert view["mean_alone"] == pytest.approx(played.of("alone", "berlin"), abs=0.01)
    played.press_button("tell-truth", "paris")
    played.run(5)
    own = played.node("paris").experiment().evidence()["own"]
    assert own["text"][0] < own["text"][-1]


def test_what_cannot_be_pressed_says_why(play):
    played = play(2, 2)
    for button, agent, link, why in [
        ("explode", None, None, "unknown button 'explode': choose one of kill, "),
        ("kill", None, None, "kill needs agent, one of berlin, paris"),
        ("kill", "madrid", None, "kill needs agent, one of berlin, paris"),
        ("cut", None, ("berlin", "rome"), "cut needs link"),
        ("start", "berlin", None, "berlin is starting"),
    ]:
        with pytest.raises(ValueError, match=why):
            played.press_button(button, agent, link)
    assert played.stage.events == []
    played.look()
    with pytest.raises(ValueError, match="berlin runs already"):
        played.press_button("start", "berlin")


def test_the_same_seed_gives_the_same_views(play):
    def views(seed):
        played = play(3, 3, seed)
        played.run(2)
        played.press_button("kill", "rome")
        played.press_button("lose")
        played.run(2)
        played.press_button("start", "rome")
        played.press_button("add-agent")
        played.press_button("add-arm")
        played.run(4)
        return played.ring.changes_since(0)[0]

    first = views(7)
    assert len(first) > 16
    assert views(7) == first
    assert views(8) != first


def test_agents_that_share_lose_less_than_their_twins_that_meet_the_same_visitors(play):
    """From a fixed seed; after a minute of eight agents ten seeds saved 37 to 74%."""
    played = play(6, 4)
    view = played.run(15)
    assert 1.0 < view["mean_regret"] < 0.9 * view["mean_alone"]
    assert all(sum(shares) == pytest.approx(1, abs=0.01) for shares in view["shares"])
