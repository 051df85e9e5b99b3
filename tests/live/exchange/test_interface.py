"""What every exchange is to its agent, and the whole numbers that evidence is kept in."""

import inspect
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posse.live.exchange import EXCHANGES, Flows, Origins
from posse.live.ledger.bounds import Bounds
from posse.live.ledger.sums import (
    PER_UNIT,
    divide_toward_zero,
    from_quanta,
    minus,
    plus,
    to_quanta,
    total,
)

ONE = (PER_UNIT, PER_UNIT)


# views of its state
OF_FLOWS = {"level", "records", "network_size"}


def public_methods(exchange):
    """The parameters of each public method, by its name."""
    methods = inspect.getmembers(exchange, inspect.isfunction)
    return {name: list(inspect.signature(m).parameters) for name, m in methods if name[0] != "_"}


def test_both_exchanges_have_the_same_methods():
    flows = public_methods(Flows)
    assert {name: flows[name] for name in flows.keys() - OF_FLOWS} == public_methods(Origins)


@pytest.mark.parametrize("name", EXCHANGES)
def test_the_revision_rises_with_the_evidence(name):
    agent, revisions = EXCHANGES[name](fingerprint="f", bounds=(1.0, 1.0)), []
    for change in (lambda: agent.observe("a", ONE), lambda: agent.restore(agent.state())):
        revisions.append(agent.revision)
        change()
        assert agent.revision > revisions[-1]
    quiet = agent.revision
    agent.connect("peer")
    agent.tick(0.0)
    agent.evidence()
    assert agent.revision == quiet


@pytest.mark.parametrize("name", EXCHANGES)
def test_an_agent_alone_has_its_own_evidence(name):
    agent = EXCHANGES[name](fingerprint="f", bounds=(1.0, 1.0))
    assert agent.evidence() == agent.own() == agent.neighbours() == {}
    agent.observe("a", ONE)
    agent.observe("a", (0, PER_UNIT))
    assert agent.evidence() == agent.own() == {"a": (PER_UNIT, 2 * PER_UNIT)}
    assert agent.known() == {agent.identity}
    assert len(agent.identity) == 32
    assert agent.tick(0.0) == []
    agent.connect("peer")
    status = agent.neighbours()["peer"]
    assert (status.identity, status.active, status.last_heard, status.lag) == (
        None,
        True,
        None,
        None,
    )
    assert [to for to, _ in agent.tick(0.0)] == ["peer"]


@pytest.mark.parametrize("name", EXCHANGES)
@pytest.mark.parametrize("wrong", [(1,), (1.5, PER_UNIT), (2 * PER_UNIT, PER_UNIT), (0, -1)])
def test_no_agent_can_observe_what_no_pull_can_give(name, wrong):
    agent = EXCHANGES[name](fingerprint="f", bounds=(1.0, 1.0))
    with pytest.raises(ValueError, match="bounds"):
        agent.observe("a", wrong)
    assert agent.evidence() == {}


def test_the_exchanges_import_no_input_or_output():
    code = "import sys, posse.live.exchange; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not {"zenoh", "msgspec", "fastapi", "sqlite3"} & set(loaded.stdout.split())


def test_quanta_are_truncated_toward_zero():
    quantum = 1 / PER_UNIT
    assert to_quanta([1.0, 1.5 * quantum, -1.5 * quantum]) == (PER_UNIT, 1, -1)
    assert from_quanta((PER_UNIT, -1)) == (1.0, -quantum)
    assert [divide_toward_zero(value, 3) for value in (7, -7, 2, -2, 10**30)] == [
        2,
        -2,
        0,
        0,
        10**30 // 3,
    ]


@settings(derandomize=True)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from("abc"), st.tuples(st.integers(), st.integers()), max_size=3
        ),
        max_size=4,
    )
)
def test_ledgers_add_up_in_any_order_and_leave_out_zeros(ledgers):
    there = total(ledgers)
    assert there == total(reversed(ledgers))
    assert all(any(values) for values in there.values())
    for ledger in ledgers:
        assert minus(plus(there, ledger), ledger) == there
    assert minus(there, there) == {}


@settings(derandomize=True)
@given(st.floats(0.001, 1000.0), st.integers(1, 50), st.floats(-1.0, 1.0))
def test_honest_pulls_are_within_the_bounds(bound, pulls, share):
    statistic = to_quanta([share * bound, 1.0])
    evidence = tuple(pulls * value for value in statistic)
    bounds = Bounds((bound, 1.0))
    assert bounds.allow(evidence)
    assert not bounds.allow((pulls * (int(bound * PER_UNIT) + 2), evidence[1]))
