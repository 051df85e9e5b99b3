"""Forged and malformed messages are refused and counted; they never raise, and change nothing."""

import dataclasses
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from posse.live.exchange import EXCHANGES, Entry, Flows, FlowsMessage, Origins, OriginsMessage
from posse.live.ledger import PER_UNIT
from tests.live.exchange.origins import base, entry
from tests.live.exchange.world import BOUNDS, FINGERPRINT, two

NUMBERS = st.one_of(
    st.integers(-3, 3), st.just(2**63), st.just(10**400), st.floats(), st.booleans()
)
SCALARS = st.one_of(st.none(), NUMBERS, st.text(max_size=3), st.binary(max_size=3))
RUBBISH = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=2), inner, max_size=2),
        st.dictionaries(st.integers(), inner, max_size=2),
    ),
    max_leaves=5,
)
BADLY_SHAPED = [
    {"a": (1,)},
    {"a": (1, 2, 3)},
    {"a": (1.0, 2)},
    {"a": (True, 1)},
    {"a": (0, 2**63)},
    {"a": (0, float("nan"))},
    {"a": 5},
    {"": (0, 0)},
    {"a" * 201: (0, 0)},
    {7: (0, 0)},
    {f"arm{nth}": (0, 0) for nth in range(1001)},
    [("a", (0, 0))],
    None,
]


def linked(exchange):
    """Two agents that know each other, and an honest message from one to the other."""
    world, one, other = two(exchange)
    world.observe(one, 10)
    world.settle(rounds=4)
    world.observe(other, 10)
    world.tick(other)
    ((_, _, honest),) = world.network
    return world.agents[one], other, honest


def is_refused(agent, peer, message, reason):
    before, refused = agent.state(), agent.refusals[reason]
    assert agent.receive(peer, message, 9.0) == []
    assert agent.refusals[reason] == refused + 1
    assert agent.state() == before


@pytest.mark.parametrize("name", EXCHANGES)
def test_what_is_no_message_is_refused(name):
    agent, peer, honest = linked(EXCHANGES[name])
    other = {"origins": FlowsMessage, "flows": OriginsMessage}[name]
    values = dict.fromkeys((field.name for field in dataclasses.fields(other)), 0)
    for rubbish in (None, 3, "text", {}, [honest], honest.__class__, other(**values)):
        is_refused(agent, peer, rubbish, "exchange_mismatch")


@pytest.mark.parametrize("exchange", EXCHANGES.values(), ids=EXCHANGES)
@pytest.mark.parametrize("fingerprint", ["poisson", None, ["bernoulli"]])
def test_another_fingerprint_is_refused(exchange, fingerprint):
    agent, peer, honest = linked(exchange)
    message = replace(honest, fingerprint=fingerprint)
    is_refused(agent, peer, message, "fingerprint_mismatch")


@pytest.mark.parametrize("exchange", EXCHANGES.values(), ids=EXCHANGES)
@settings(
    derandomize=True,
    max_examples=150,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_rubbish_in_any_field_never_raises(exchange, data):
    agent, peer, honest = linked(exchange)
    names = [field.name for field in dataclasses.fields(honest)]
    changes = data.draw(st.dictionaries(st.sampled_from(names), RUBBISH, min_size=1, max_size=3))
    if exchange is Origins and data.draw(st.booleans()):
        fields = [field.name for field in dataclasses.fields(Entry)]
        wrong = data.draw(st.dictionaries(st.sampled_from(fields), RUBBISH, min_size=1))
        changes = {"entries": (replace(entry("third"), **wrong),)}
    agent.receive(peer, replace(honest, **changes), 9.0)
    agent.tick(10.0)
    agent.evidence()
    again = agent.__class__(fingerprint=FINGERPRINT, bounds=BOUNDS)
    again.restore(agent.state())
    assert again.evidence() == agent.evidence()


@pytest.mark.parametrize("ledger", BADLY_SHAPED, ids=range(len(BADLY_SHAPED)))
def test_evidence_of_another_shape_is_refused(ledger):
    agent, peer, honest = linked(Flows)
    is_refused(agent, peer, replace(honest, flow=ledger), "malformed")
    is_refused(agent, peer, replace(honest, level=ledger), "malformed")


BAD_ENTRIES = [
    "text",
    None,
    entry("third", incarnation=-1),
    entry("third", made=-1),
    entry("third", version=(1, 1)),
    entry("third", version=(1, 1, 1.0)),
    entry("third", version=None),
    entry("third", arms=None),
    entry("third", arms=("",)),
    entry("third", arms=("a" * 201,)),
    entry("third", arms=(7,)),
    entry("third", arms=("a", "b")),
    entry("third", arms=("a", "a"), numbers=bytes(32)),
    entry("third", arms=tuple(map(str, range(1001))), numbers=bytes(16 * 1001)),
    entry("third", numbers="text"),
    entry("third", numbers=bytes(15)),
    entry("third", numbers=bytes(24)),
    entry("third", signature="text"),
    entry("third", certificate="text"),
    entry("third", epoch=1),  # where evidence does not fade
    entry("third", epoch=-1),
    entry("third", covers=None),
    base("third", covers=(1, 1)),
    base("third", covers=(98, 99)),  # itself
    base("third", covers=(-1,)),
    base("third", covers=(1.0,)),
    base("third", covers=tuple(range(1, 1026))),
]


@pytest.mark.parametrize("bad", BAD_ENTRIES, ids=range(len(BAD_ENTRIES)))
def test_a_malformed_entry_is_refused_and_the_others_of_the_message_are_not(bad):
    """Seen: for one bad entry a whole message was refused, with all that it relayed."""
    agent, peer, honest = linked(Origins)
    alone = replace(honest, entries=(bad,), holds=(), complete=False)
    is_refused(agent, peer, alone, "malformed")
    good = entry("fourth")
    agent.receive(peer, replace(alone, entries=(bad, good)), 9.0)
    assert agent.refusals == {"malformed": 2}
    assert agent.replica.entries[good.key] == good


@pytest.mark.parametrize(
    "changes",
    [
        {"src": ""},
        {"boot": 0},
        {"boot": -1},
        {"echo": None},
        {"heard": -1},
        {"seq": 2**63},
        {"settled": 1},
        {"active": None},
        {"degree": 0},
        {"degree": 10**9},
        {"version": -1},
        {"version": True},
        {"known": "text"},
        {"known": ("",)},
        {"known": tuple(map(str, range(1001)))},
    ],
    ids=str,
)
def test_a_malformed_field_of_flows_is_refused(changes):
    agent, peer, honest = linked(Flows)
    is_refused(agent, peer, replace(honest, **changes), "malformed")


@pytest.mark.parametrize(
    "changes",
    [
        {"entries": None},
        {"holds": 3},
        {"holds": (("third", 1, 1),)},
        {"holds": (("", 1, 1, 1, 1),)},
        {"holds": (("third", 1, 1.0, 1, 1),)},
        {"holds": (("third", 1, 1, -1, 1),)},
        {"complete": 1},
        {"first": ("third",)},
        {"last": ("third", 1.0)},
        {"asks": ("me",)},
        {"asks": ("me", -1)},
        {"asks": (1, 1)},
        {"asks": None},
        {"answers": None},
        {"answers": -1},
        {"holds": tuple(("third", nth, 1, 1, 1) for nth in range(60_001))},
    ],
    ids=lambda changes: str(changes)[:40],
)
def test_a_malformed_field_of_origins_is_refused(changes):
    agent, peer, honest = linked(Origins)
    is_refused(agent, peer, replace(honest, **changes), "malformed")


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("field", ["flow", "level"])
def test_more_evidence_than_the_network_can_have_is_refused(field, sign):
    agent, peer, honest = linked(Flows)
    message = replace(honest, **{field: {"a": (0, sign * (2**40 + 1) * PER_UNIT)}})
    is_refused(agent, peer, message, "evidence_exceeds_network")


@pytest.mark.parametrize(("end", "leads"), [(0, 1), (1, 2)], ids=["the mirror", "the owner"])
def test_a_version_that_an_honest_end_cannot_have_is_refused(end, leads):
    world, *names = two(Flows)
    world.observe(names[0], 10)
    world.settle(rounds=20)
    me, peer = names[end], names[1 - end]
    world.tick(peer)
    ((_, _, honest),) = world.network
    message = replace(honest, version=honest.version + leads, flow={"a": (0, 5)})
    is_refused(world.agents[me], peer, message, "impossible_version")


def test_an_identity_belongs_to_one_name():
    agent, peer, honest = linked(Flows)
    is_refused(agent, "mallory", honest, "identity_name_mismatch")
    is_refused(agent, peer, replace(honest, src=agent.identity), "own_identity")


def test_a_name_has_so_many_identities_and_no_more():
    agent, peer, honest = linked(Flows)
    for nth in range(150):
        agent.receive("mallory", replace(honest, src=f"id{nth}", boot=5), 9.0)
    assert agent.refusals == {"too_many_identities": 50}
    assert agent.receive(peer, honest, 9.0) is not None
    assert agent.refusals == {"too_many_identities": 50}


def test_many_boots_take_little_memory_and_the_living_process_is_found_again():
    world, one, other = two(Flows)
    world.settle(rounds=3)
    world.tick(other)
    ((_, _, honest),) = world.network
    world.network.clear()
    for boot in range(1, 100):
        world.agents[one].receive(other, replace(honest, boot=boot), 0.0)
    world.observe(one, 10)
    world.settle()
    assert world.agents[one].level() == world.agents[other].level() != {}
    assert not world.all_refusals()
