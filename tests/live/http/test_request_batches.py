"""One commit for what is asked in one turn of the event loop."""

import asyncio
import sqlite3

import pytest

from posse.live.experiment.decision_request import DecisionRequest
from posse.live.http.health import get_traffic
from posse.live.http.request_batches import QUIET_TURNS, BatchRequest, RequestBatcher
from posse.live.store import Conflict, RewardOutcome, StoreError, Unknown


def ask(node, *questions):
    """Ask them all in one turn; what each raised, or None."""
    turns = RequestBatcher(node, get_traffic(node))

    async def all_at_once():
        asking = [turns.submit(question) for question in questions]
        return await asyncio.gather(*asking, return_exceptions=True)

    return asyncio.run(all_at_once())


def wish(node, *ids, allowed=None):
    return BatchRequest(
        node.experiment(), decision_requests=[DecisionRequest(id_, allowed) for id_ in ids]
    )


def reward(node, id_, value=1.0):
    return BatchRequest(node.experiment(), rewards=[(id_, value)])


def test_a_turn_is_one_commit(node):
    before = node.store.commits
    questions = [wish(node, f"d{k}") for k in range(10)]
    assert ask(node, *questions) == [None] * 10
    assert node.store.commits == before + 1
    rewards = [reward(node, f"d{k}") for k in range(10)]
    more = [wish(node, f"e{k}") for k in range(10)]
    assert ask(node, *rewards, *more) == [None] * 20
    assert node.store.commits == before + 2
    assert [one.outcomes for one in rewards] == [[RewardOutcome.NEW]] * 10
    assert (node.counts["decisions"], node.counts["rewards"]) == (20, 10)
    assert sum(arm["pulls_here"] for arm in node.arms().values()) == 10


@pytest.mark.parametrize(("pause", "commits"), [(2, 1), (QUIET_TURNS + 1, 10)])
def test_a_commit_waits_for_requests_that_are_on_their_way(node, pause, commits):
    """With syncs of 0.7 s the last of 30 new clients waited 26 s: each turn had a commit in it."""
    ask(node, wish(node, *(f"d{k}" for k in range(10))))
    turns = RequestBatcher(node, get_traffic(node))

    async def ask_one_after_the_other():
        before = node.store.commits
        asking = []
        for k in range(10):
            asking.append(asyncio.ensure_future(turns.submit(reward(node, f"d{k}"))))
            for _ in range(pause):  # the next one arrives so many turns later
                await asyncio.sleep(0)
        await asyncio.gather(*asking)
        return node.store.commits - before

    assert asyncio.run(ask_one_after_the_other()) == commits
    assert node.counts["rewards"] == 10


def test_a_turn_has_a_limit(node):
    """Else a hundred large batches would hold up everybody for seconds."""
    before = node.store.commits
    large = [wish(node, *[f"{k}-{n}" for n in range(600)]) for k in range(5)]
    small = wish(node, "small")
    assert ask(node, *large, small) == [None] * 6
    assert node.store.commits == before + 3
    assert [len(one.decisions) for one in (*large, small)] == [600] * 5 + [1]
    assert node.counts["decisions"] == 3001


def test_rewards_come_before_decisions_and_their_own_after(node):
    """All decisions of a turn are of one belief, and none of them is unknown to its reward."""
    ask(node, wish(node, "old"))
    own, new, old = reward(node, "new"), wish(node, "new"), reward(node, "old")
    nobody = reward(node, "nobody")
    seen = []
    choose_many = node.experiment().draw_decisions
    node.experiment().draw_decisions = lambda wishes: (
        seen.append(sum(arm["pulls_here"] for arm in node.arms().values())) or choose_many(wishes)
    )
    ask(node, own, new, old, nobody)
    assert seen == [1]
    assert own.outcomes == old.outcomes == [RewardOutcome.NEW]
    assert isinstance(nobody.outcomes[0], Unknown)


def test_an_id_asked_twice_in_one_turn_is_one_decision(node):
    questions = [wish(node, "twin") for _ in range(20)]
    ask(node, *questions)
    assert len({one.decisions[0].arm for one in questions}) == 1
    assert node.counts["decisions"] == 1
    arm = questions[0].decisions[0].arm
    others = [name for name in node.agent.arm_names if name != arm]
    refused = wish(node, "twin", allowed=others)
    ask(node, refused)
    assert isinstance(refused.decisions[0], Conflict)


def test_only_rewards_wait_for_the_disk(node, monkeypatch):
    asked = []
    answering = node.store.reward_transaction
    monkeypatch.setattr(
        node.store,
        "reward_transaction",
        lambda durable=True: asked.append(durable) or answering(durable),
    )
    ask(node, wish(node, "x"))
    ask(node, wish(node, "y"), reward(node, "x"))
    ask(node, reward(node, "y"))
    assert asked == [False, True, True]


def test_a_failed_commit_fails_all_of_its_turn(node, monkeypatch):
    """Nothing is acknowledged, nothing counted, nothing learnt; asked again, all is as new."""
    ask(node, wish(node, "x"))

    def full(*_):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(node.store.participant_state, "write_parts", full)
    errors = ask(node, reward(node, "x"), wish(node, "y"), reward(node, "y"))
    assert [type(error) for error in errors] == [StoreError] * 3
    monkeypatch.undo()
    assert (node.counts["decisions"], node.counts["rewards"]) == (1, 0)
    assert node.store.find_decision("y") is None
    assert sum(arm["pulls_here"] for arm in node.arms().values()) == 0
    again = reward(node, "x")
    assert ask(node, again) == [None]
    assert again.outcomes == [RewardOutcome.NEW]


def test_a_bug_spoils_only_the_request_that_meets_it(node, monkeypatch):
    ask(node, wish(node, "a", "b", "c"))
    learn = node.agent.learn
    arm = node.store.find_decision("b").arm
    met = []

    def broken(name, value, *made):
        learn(name, value, *made)
        if value == 0.0:
            met.append(name)
            raise ZeroDivisionError

    monkeypatch.setattr(node.agent, "learn", broken)
    errors = ask(node, reward(node, "a"), reward(node, "b", 0.0), reward(node, "c"))
    assert [type(error) for error in errors] == [type(None), ZeroDivisionError, type(None)]
    assert met == [arm, arm]
    assert node.counts["rewards"] == 2
    assert sum(arm["pulls_here"] for arm in node.arms().values()) == 2
    assert node.store.find_decision("b").settled is None


def test_a_client_that_left_is_no_harm(node):
    turns = RequestBatcher(node, get_traffic(node))
    left, stays = wish(node, "left"), wish(node, "stays")

    async def leave():
        task = asyncio.ensure_future(turns.submit(left))
        other = asyncio.ensure_future(turns.submit(stays))
        await asyncio.sleep(0)
        task.cancel()
        await other
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    assert [one.id for one in stays.decisions] == ["stays"]


def test_late_and_conflicting_rewards_are_counted(node):
    """They got a 409 that nothing counted."""
    ask(node, wish(node, "late", "gone", "other"))
    ask(node, reward(node, "other"))
    node.store.expire_decisions(node.clock() + 10, 1.0, None)
    answers = [reward(node, "late"), reward(node, "other", 0.0), reward(node, "gone", 0.0)]
    ask(node, *answers)
    assert all(isinstance(one.outcomes[0], Conflict) for one in answers)
    assert (node.counts["late"], node.counts["conflicts"]) == (2, 1)
