"""What applications do to decisions besides rewards: show them later, cancel them, erase them."""

from __future__ import annotations

import json
from typing import Any, cast

from posse.live.experiment.decision_request import DecisionRequest
from posse.live.http.request_batches import BatchRequest, RequestBatcher
from posse.live.store import Conflict, DecisionRecord, StoreError, Transition, Unknown
from simulation.applications import experiment_of, site_of
from simulation.disk import Killed
from simulation.history import (
    Activation,
    Cancellation,
    Erasure,
    Key,
    KnownDecision,
    Measurement,
    Outcome,
    Violation,
)
from simulation.looking import apply_outcome, forget_erased, is_superseded
from simulation.turns import Traffic
from simulation.world import Site, World


def ask(world: World, a: int, b: int) -> None:
    """Ask what to play before it is certain that it will be shown."""
    site = site_of(world, a)
    world.request_decision(site, world.new_key(site, experiment_of(site, b)), activate=False)


def activate(world: World, a: int, b: int) -> None:
    """Activate a decision, often one that is inactive."""
    site = site_of(world, a)
    keys = list_running(site)
    inactive = [key for key in keys if site.memory.decisions[key].record.inactive]
    if chosen := inactive if inactive and b % 4 else keys:
        change(world, site, chosen[b % len(chosen)], "activate")


def cancel(world: World, a: int, b: int) -> None:
    """Cancel a decision, often one that is open."""
    site = site_of(world, a)
    keys = list_running(site)
    open_ = [key for key in keys if site.memory.decisions[key].record.settled is None]
    if chosen := open_ if open_ and b % 4 else keys:
        change(world, site, chosen[b % len(chosen)], "cancel")


def measure(world: World, a: int, b: int) -> None:
    """Report a metric of a decision, of some before, or another value of it."""
    site = site_of(world, a)
    if not world.plan.measures or not (keys := list_running(site)):
        return
    key = keys[b % len(keys)]
    assert site.node is not None
    experiment = site.node.experiment(key[0])
    decision = site.memory.decisions[key]
    before = json.loads(decision.record.metrics or "{}")
    values = {("cost", "latency")[b % 2]: b // 2 % 3 / 4 + 0.1}
    window = experiment.reward_window.window
    record = decision.record
    repeated = values.items() <= before.items()
    conflict = not repeated and (
        bool(values.keys() & before.keys())
        or record.silent
        or (window is not None and record.time + window <= site.clock)
        or experiment.agent.exchange.is_superseded(record.incarnation)
    )
    assumed = world.assumed_reward(site, key) if record.inactive else record.assumed
    outcome = Measurement(json.dumps(before | values), assumed)

    def send_request() -> bool | ValueError:
        try:
            return experiment.measure(key[1], values)
        except StoreError:
            raise
        except ValueError as error:
            return error

    answer = world.try_at_site(site, send_request)
    if answer is Killed:
        if not (repeated or conflict):
            site.memory.maybe.setdefault(key, []).append(outcome)
    elif isinstance(answer, StoreError):
        world.compare_disk(site)
    elif isinstance(answer, Conflict) is not conflict or (not conflict and answer is repeated):
        raise Violation(f"{site.name} answered {answer!r} to {values} of {record}")
    elif not (repeated or conflict):
        measured = apply_outcome(record, outcome, 0.0)
        site.memory.decisions[key] = KnownDecision(measured, flushed=True, made=decision.made)
        site.memory.mark_flushed()
        world.history.note_acknowledged(key, measured)


def erase(world: World, a: int, b: int) -> None:
    """Delete a decision and all traces of it."""
    site = site_of(world, a)
    if not (keys := list_running(site)):
        return
    key = keys[b % len(keys)]
    assert site.node is not None
    experiment = site.node.experiment(key[0])
    before = site.memory.decisions[key].record
    if before.reward and before.closed is None:  # it is closed with its reward, wherever it ends
        world.history.may_close(key, before)
    answer = world.try_at_site(site, lambda: experiment.erase_decision(key[1]))
    if answer is Killed:
        site.memory.maybe.setdefault(key, []).append(Erasure())
    elif isinstance(answer, StoreError):
        site.memory.maybe.setdefault(key, []).append(Erasure())
        world.compare_disk(site)  # the log may have failed after the commit
    else:
        forget_erased(world, site, key, site.memory.decisions.pop(key).record)
        site.memory.mark_flushed()


def moment(world: World, a: int, b: int) -> None:
    """Requests of a moment: decisions to show later, and decisions to activate and to cancel."""
    site = site_of(world, a)
    if site.node is None:
        return
    requests = []
    wishes: list[Key] = []
    for nth, (name, experiment) in enumerate(site.node.experiments.items()):
        number = b // (nth + 1)
        keys = [
            key
            for key in list_running(site)
            if key[0] == name and site.memory.decisions[key].record.settled is None
        ]
        chosen = [keys[(number + i) % len(keys)] for i in range(number % 3)] if keys else []
        kinds: tuple[Transition, Transition] = ("activate", "cancel")
        transitions = [(kinds[i % 2], key[1]) for i, key in enumerate(dict.fromkeys(chosen))]
        fresh = [world.new_key(site, name) for _ in range(number // 3 % 3)]
        asked = [DecisionRequest(k[1], None, world.context_of(k[1]), activate=False) for k in fresh]
        requests.append(BatchRequest(experiment, (), asked, transitions))
        wishes += fresh
    turns = RequestBatcher(site.node, cast(Any, Traffic()))
    changes = [
        (request.experiment.name, transition, id)
        for request in requests
        for transition, id in request.transitions
    ]
    expected = {key: expect_change(world, site, key, t) for key, t in _list_changes(changes)}
    outcomes = {key: _outcome_of(world, site, key, t) for key, t in _list_changes(changes)}
    result = world.try_at_site(site, lambda: turns.commit_batch(requests))
    if result is Killed:
        for key in wishes:
            site.memory.maybe.setdefault(key, [])
        for key, outcome in outcomes.items():
            site.memory.maybe.setdefault(key, []).append(outcome)
        return
    if isinstance(result, StoreError):
        world.compare_disk(site)
        return
    for request in requests:
        for decision in request.decisions:
            if isinstance(decision, DecisionRecord):
                key = (request.experiment.name, decision.id)
                site.memory.decisions[key] = KnownDecision(decision, made=site.steady)
                world.history.note_acknowledged(key, decision)
            elif not isinstance(decision, Conflict):
                raise Violation(f"{site.name} answered {decision!r} to a question")
        for (transition, id), changed in zip(request.transitions, request.changed, strict=True):
            key = (request.experiment.name, id)
            answer = changed if isinstance(changed, ValueError) else changed[0]
            check_change(world, site, key, transition, expected[key], answer)


def _list_changes(changes: list[tuple[str, Transition, str]]) -> list[tuple[Key, Transition]]:
    return [((name, id), transition) for name, transition, id in changes]


def change(world: World, site: Site, key: Key, transition: Transition) -> None:
    """Activate or cancel one decision, and see that the answer is right."""
    assert site.node is not None
    experiment = site.node.experiment(key[0])
    expected = expect_change(world, site, key, transition)
    outcome = _outcome_of(world, site, key, transition)

    def send_request() -> DecisionRecord | ValueError:
        try:
            work = experiment.activate if transition == "activate" else experiment.cancel
            return work(key[1])
        except StoreError:
            raise
        except ValueError as error:
            return error

    answer = world.try_at_site(site, send_request)
    if answer is Killed:
        site.memory.maybe.setdefault(key, []).append(outcome)
    elif isinstance(answer, StoreError):
        world.compare_disk(site)
    else:
        check_change(world, site, key, transition, expected, answer)


def expect_change(
    world: World, site: Site, key: Key, transition: Transition
) -> DecisionRecord | None:
    """What a decision is after a change now; None if the change is a conflict."""
    assert site.node is not None
    record = site.memory.decisions[key].record
    if is_superseded(world, site, site.node.experiment(key[0]), key, record):
        return None
    if transition == "activate":
        if record.cancelled or (record.inactive and record.closed is not None):
            return None
        return apply_outcome(record, _outcome_of(world, site, key, transition), 0.0)
    if record.cancelled:
        return record
    if record.settled is not None or record.metrics is not None:
        return None
    return apply_outcome(record, Cancellation(), site.clock)


def check_change(
    world: World,
    site: Site,
    key: Key,
    transition: Transition,
    expected: DecisionRecord | None,
    answer: object,
) -> None:
    """See that a change was answered as it must be, and note it."""
    decision = site.memory.decisions[key]
    if expected is None:
        if not isinstance(answer, Conflict) or isinstance(answer, Unknown):
            raise Violation(f"{site.name} answered {answer!r} to {transition} {decision.record}")
        return
    if answer != expected:
        raise Violation(f"{site.name} answered {answer!r} to {transition}, and not {expected}")
    if transition == "cancel" and expected != decision.record:  # a repeated one writes nothing
        site.memory.decisions[key] = KnownDecision(expected, flushed=True, made=decision.made)
        site.memory.mark_flushed()
    elif expected != decision.record:
        # it does not wait for the disk, as decisions do not
        site.memory.decisions[key] = KnownDecision(
            expected, decision.flushed, decision.made, decision.doubtful, decision.record
        )
    world.history.note_acknowledged(key, expected)


def _outcome_of(world: World, site: Site, key: Key, transition: Transition) -> Outcome:
    """What a change does, if it does anything."""
    if transition == "cancel":
        return Cancellation()
    record = site.memory.decisions[key].record
    return Activation(world.assumed_reward(site, key) if record.inactive else record.assumed)


def list_running(site: Site) -> list[Key]:
    """The decisions of the experiments that a site runs."""
    if site.node is None:
        return []
    return [key for key in site.memory.decisions if key[0] in site.node.experiments]
