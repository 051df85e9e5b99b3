"""acknowledged = counted + on their way + lost, at every moment; and what is lost is said."""

import random

from hypothesis import given
from hypothesis import strategies as st

from posse.live.demo.page.views import RewardAudit, RewardAuditor

NAMES = ["a", "b", "c"]
counts = st.fixed_dictionaries({name: st.integers(0, 20) for name in NAMES})
some = st.sets(st.sampled_from(NAMES))


def adds_up(books):
    parts = books.counted, books.under_way, books.lost
    return sum(parts) == books.acknowledged and min(parts) >= 0


@given(st.lists(st.tuples(counts, st.dictionaries(st.sampled_from(NAMES), counts), some)))
def test_the_books_add_up_whatever_agents_say(rounds):
    counting, told = RewardAuditor(), dict.fromkeys(NAMES, 0)
    for more, answers, running in rounds:
        told = {name: told[name] + more[name] for name in NAMES}
        books = counting.audit_rewards(told, answers, running)
        assert adds_up(books)
        assert books.acknowledged == sum(told.values())


def test_what_every_running_agent_holds_is_counted():
    counting = RewardAuditor()
    answers = {"a": {"a": 5, "b": 3}, "b": {"a": 4, "b": 7}}
    # a holds a reward of its own that is not acknowledged yet
    assert counting.audit_rewards({"a": 4, "b": 6}, answers, "ab") == RewardAudit(10, 7, 3, 0)
    assert counting.audit_rewards({"a": 4, "b": 6}, {}, "b") == RewardAudit(10, 10, 0, 0)
    assert counting.audit_rewards({"a": 4, "b": 6}, {}, "") == RewardAudit(10, 0, 10, 0)
    assert counting.count_missing("a", {"a": 4, "b": 6}) == 3
    assert counting.count_missing("new", {"a": 4, "b": 6}) == 10


def test_what_nobody_holds_is_lost_once_its_agent_is_back_to_say_so():
    counting = RewardAuditor()
    counting.audit_rewards({"a": 5, "b": 0}, {"a": {"a": 5}, "b": {"a": 2}}, "ab")
    told = {"a": 9, "b": 0}  # four more, and then its disk is deleted
    assert counting.audit_rewards(told, {"b": {"a": 3}}, "b") == RewardAudit(9, 3, 6, 0)
    assert counting.audit_rewards(told, {"a": {}, "b": {"a": 3}}, "ab") == RewardAudit(9, 0, 3, 6)
    assert counting.audit_rewards(told, {"a": {"a": 3}}, "ab") == RewardAudit(9, 3, 0, 6)
    # goes on, and the loss stays what it is, also while it is down
    told = {"a": 10, "b": 0}
    assert counting.audit_rewards(told, {"a": {"a": 4}}, "ab") == RewardAudit(10, 3, 1, 6)
    assert counting.audit_rewards(told, {"b": {"a": 4}}, "b") == RewardAudit(10, 4, 0, 6)


def faults(play, generator):
    """What somebody might press now."""
    states = play.stage.states
    agent, link = generator.choice(list(states)), generator.choice(play.stage.links)
    undo = {"runs": ["kill", "stop"], "stopped": ["go-on", "kill"], "killed": ["start"]}
    return generator.choice(
        [
            *[(each, agent, None) for each in undo.get(states[agent], ())],
            ("join" if link in play.stage.cut_links else "cut", None, link),
            ("lose-none" if play.stage.loss else "lose", None, None),
            ("lie", agent, None),
            ("tell-truth", agent, None),
            ("differ", agent, None),
        ]
    )


def test_under_faults_the_books_add_up_and_nothing_is_lost(play):
    played, generator, moments = play(3, 2), random.Random(1), 0
    for _ in range(130):
        played.press_button(*faults(played, generator))
        for _ in range(generator.randrange(1, 5)):
            played.clockwork.step()
            view, moments = played.look(), moments + 1
            acknowledged, counted, under_way, lost = view["audit"]
            assert acknowledged == counted + under_way
            assert lost == 0
            assert acknowledged == sum(view["visits"])
            assert acknowledged == sum(site.acknowledged for site in played.stage.sites)
            nodes = [played.node(n) for n, s in played.stage.states.items() if s == "runs"]
            held = [sum(node.experiment().pulls_by_origin().values()) for node in nodes]
            assert 0 <= counted <= min(held, default=0)
    assert moments > 300
    assert acknowledged > 100
    played.clockwork.prepare_count()
    view = played.run(15)
    assert view["audit"] == [acknowledged, acknowledged, 0, 0]
    assert view["behind"] == [0] * 3
    assert all(count.is_exact for site in played.stage.sites for count in site.collect_counts())


def test_a_visit_while_agents_are_asked_is_no_loss(play, monkeypatch):
    played = play(2, 2)
    look = played.stage.backend.take_snapshots

    def visited_meanwhile(names):
        glances = look(names)
        for site in played.stage.sites:
            with site.open_visitor("default") as visitor:
                played.audience.visit(site, "default", visitor, None, lambda ask: ask())
        return glances

    monkeypatch.setattr(played.stage.backend, "take_snapshots", visited_meanwhile)
    for _ in range(5):
        assert played.look()["audit"][3] == 0
    assert played.look()["audit"] == [10, 0, 10, 0]


def test_a_store_that_is_really_deleted_is_a_loss(play):
    played = play(3, 2)
    played.run(6)
    for link in [each for each in played.stage.links if "rome" in each]:
        played.press_button("cut", link=link)
    played.run(6)
    acknowledged = played.of("visits", "rome")
    others = max(
        played.node(name).experiment().pulls_by_origin()["rome"] for name in ("berlin", "paris")
    )
    assert acknowledged > others > 0
    played.press_button("kill", "rome")
    assert played.run(1)["audit"][3] == 0  # its disk may have them
    for file in played.folder.glob("rome.*"):
        file.unlink()
    played.press_button("start", "rome")
    assert played.look()["audit"][3] == acknowledged - others
    for link in list(played.stage.cut_links):
        played.press_button("join", link=link)
    view = played.run(12)
    assert view["audit"][3] == acknowledged - others
    assert view["audit"][0] == sum(view["audit"][1:])
    assert played.of("visits", "rome") > acknowledged
