"""Many rewards and decisions in one commit, by the code that answers HTTP: all of them, or none."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, cast

from posse.live.experiment import LiveExperiment
from posse.live.experiment.decision_request import DecisionRequest
from posse.live.http.request_batches import BatchRequest, RequestBatcher
from posse.live.store import Conflict, DecisionRecord, StoreError
from simulation.applications import check_first_reward, site_of
from simulation.bits import reward_of
from simulation.disk import Killed
from simulation.history import Key, KnownDecision, Violation
from simulation.world import Site, World


class Traffic:
    """What a server counts."""

    def __init__(self) -> None:
        self.decisions_by_arm: defaultdict[str, Counter[str]] = defaultdict(Counter)


def turn(world: World, a: int, b: int) -> None:
    """Requests of a moment: rewards of decisions made before and in it, and new decisions."""
    site = site_of(world, a)
    if site.node is None:
        return
    questions: list[BatchRequest] = []
    rewards: dict[Key, float] = {}
    wishes: list[Key] = []
    refused: set[Key] = set()  # nothing is left to play for them
    for nth, (name, experiment) in enumerate(site.node.experiments.items()):
        number = b // (nth + 1)
        open_ = _list_open(site, name)
        keys = [open_[(number + i) % len(open_)] for i in range(number % 3)] if open_ else []
        fresh = [world.new_key(site, name) for _ in range(number // 3 % 3)]
        for key in dict.fromkeys(keys):
            _draw_reward(world, site, rewards, key, site.memory.decisions[key].record.arm)
        arm = experiment.agent.arm_names[number % len(experiment.agent.arm_names)]
        if fresh and number % 2:  # decided and rewarded in one request, of an arm that is known
            _draw_reward(world, site, rewards, fresh[0], arm)
        requested = [(key[1], reward) for key, reward in rewards.items() if key[0] == name]
        questions.append(
            BatchRequest(
                experiment,
                requested,
                [
                    DecisionRequest(key[1], [arm] if number % 2 else None, world.context_of(key[1]))
                    for key in fresh
                ],
            )
        )
        playable = _list_playable(experiment)
        if arm in playable if number % 2 else playable:
            wishes += fresh
        else:
            refused |= set(fresh)
    turns = RequestBatcher(site.node, cast(Any, Traffic()))
    outcomes = {key: world.outcome_of(site, key, reward) for key, reward in rewards.items()}
    result = world.try_at_site(site, lambda: turns.commit_batch(questions))
    if result is Killed:
        kept = {key: reward for key, reward in rewards.items() if key not in refused}
        for key in [*wishes, *kept]:
            site.memory.maybe.setdefault(key, [])
        for key in kept:
            site.memory.maybe[key].append(outcomes[key])
        site.memory.turns.append([*((key, None) for key in wishes), *kept.items()])
    elif isinstance(result, StoreError):
        world.compare_disk(site)
        for key in wishes:
            if site.node.experiments[key[0]].store.find_decision(key[1]) is not None:
                raise Violation(f"{site.name} kept {key} of a commit that failed")
    else:
        for question in questions:
            _note_answer(world, site, question)


def _list_playable(experiment: LiveExperiment) -> tuple[str, ...]:
    """The arms that pins and pauses leave: a decision among others is refused."""
    try:
        return experiment.playable_arms()
    except Conflict:
        return ()


def _list_open(site: Site, name: str) -> list[Key]:
    decisions = site.memory.decisions.items()
    return [
        key for key, decision in decisions if key[0] == name and decision.record.settled is None
    ]


def _draw_reward(world: World, site: Site, rewards: dict[Key, float], key: Key, arm: str) -> None:
    if world.has_bits(key[0], arm):
        bit = world.history.next_bit(key[0], arm)
        world.history.give(site.agent, (key[0], arm, bit))
        rewards[key] = reward_of(bit)


def _note_answer(world: World, site: Site, question: BatchRequest) -> None:
    """Remember what was answered."""
    name = question.experiment.name
    for decision in question.decisions:
        if isinstance(decision, DecisionRecord):
            site.memory.decisions[name, decision.id] = KnownDecision(decision, made=site.steady)
            world.history.note_acknowledged((name, decision.id), decision)
        elif not isinstance(decision, Conflict):
            raise Violation(f"{site.name} answered {decision!r} to a question")
    for reward, outcome in zip(question.rewards, question.outcomes, strict=True):
        assert not isinstance(reward, ValueError)
        key = name, reward[0]
        if key not in site.memory.decisions:  # nothing was left to play
            continue
        check_first_reward(world, site, key, reward[1], outcome)
