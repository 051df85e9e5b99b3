"""What a liar cannot do where visitors differ: matrices that are none, numbers too large."""

import numpy as np
import pytest

from posse.live.exchange import Entry, OriginsMessage
from posse.live.ledger import PER_UNIT
from tests.live.visits import ARMS, SCHEMA, shop, visit

D, TRIANGLE = 8, 36
WIDTH = D + TRIANGLE + 1
DIAGONAL = [i * D - i * (i - 1) // 2 for i in range(D)]


def honest(pulls=10):
    """A row of so many pulls at the same place, of the linear family."""
    row = [0] * D + [pulls * PER_UNIT // 4] * TRIANGLE + [pulls * PER_UNIT]
    row[D] = pulls * PER_UNIT
    return row


def all_closed(row):
    """The row of an entry whose decisions are all closed: the sums come twice, and the count."""
    return [*row[:-1], *row[:-1], row[-1], row[-1]]


def said(agent, row, seq=1, incarnation=5):
    """What an agent makes of an entry, signed or not: nobody checks here."""
    entry = Entry.from_ledger(("liar", incarnation), (1, seq, 0), {"red": tuple(row)})
    agent.receive("liar", OriginsMessage(agent.fingerprint, (entry,), (), False), 0.0)
    return agent


def changed(row, **places):
    made = list(row)
    for place, value in places.items():
        made[int(place.removeprefix("at"))] = value
    return made


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (changed(honest(), **{f"at{D + DIAGONAL[3]}": -1}), "evidence_exceeds_pulls"),
        (  # more beside the diagonal than on it
            changed(honest(), **{f"at{D + 1}": 10 * PER_UNIT}),
            "evidence_exceeds_pulls",
        ),
        (  # nothing on the diagonal, something beside it
            changed(honest(), **{f"at{D + DIAGONAL[2]}": 0, f"at{D + DIAGONAL[2] + 1}": 1}),
            "evidence_exceeds_pulls",
        ),
        (changed(honest(), at0=11 * PER_UNIT), "evidence_exceeds_pulls"),
        (changed(honest(), **{f"at{WIDTH - 2}": 11 * PER_UNIT}), "evidence_exceeds_pulls"),
        (honest()[:-1], "malformed"),
        ([*honest(), 0], "malformed"),
        (changed(honest(), at3=2**63 - 1), "malformed"),
        (changed(honest(), **{f"at{WIDTH - 1}": -PER_UNIT}), "evidence_exceeds_pulls"),
    ],
)
def test_rows_that_no_pulls_add_up_to_are_refused(row, reason):
    agent = said(shop("linear"), all_closed(row))
    assert not agent.exchange.evidence()
    assert [each for each in agent.exchange.refusals if each.startswith(reason)]
    assert said(agent, all_closed(honest()), seq=2).exchange.evidence()["red"][-1] == 10 * PER_UNIT


def test_what_is_open_must_be_a_matrix_as_well():
    agent, row = shop("linear"), all_closed(honest())
    row[D + 1] = 9 * PER_UNIT  # of those open, with what is closed as it should be
    said(agent, row)
    assert agent.exchange.refusals == {"evidence_exceeds_pulls": 1}
    assert not agent.exchange.evidence()
    row[D + 1] = -5 * PER_UNIT  # beside 10 and 2.5 on the diagonal
    said(agent, row)
    assert agent.exchange.evidence()["red"][D + TRIANGLE] == 0


def test_a_matrix_that_only_looks_like_one_leaves_decisions_as_they_can_be():
    """Every 2 x 2 minor is as it should be, and it is indefinite all the same."""
    agent, generator = shop("linear"), np.random.default_rng(1)
    row = [0] * D + [-9 * PER_UNIT] * TRIANGLE + [10 * PER_UNIT]
    for place in DIAGONAL:
        row[D + place] = 10 * PER_UNIT
    row[:D] = [10 * PER_UNIT] * D
    said(agent, all_closed(row))
    assert agent.exchange.evidence()
    for _ in range(20):
        arm, probability = agent.choose(None, visit(generator))
        assert arm in ARMS
        assert 0 < probability <= 1
        agent.learn(arm, 1.0, x=agent.encode_context(visit(generator)).x)
    for shown in agent.arms().values():
        assert np.isfinite([shown.mean, shown.low, shown.high, shown.expected_loss]).all()
        assert shown.low <= shown.mean <= shown.high


def test_the_largest_numbers_that_a_message_carries():
    agent = shop("logistic", context=SCHEMA)
    most = 2**62
    row = [most, *[0] * D, *[0] * TRIANGLE, most]
    for place in DIAGONAL:
        row[1 + D + place] = most // 4
    said(agent, all_closed(row))
    assert agent.exchange.evidence()
    arm, probability = agent.choose(None, visit(np.random.default_rng(2)))
    assert arm in ARMS
    assert 0 < probability <= 1
    x = agent.encode_context(visit(np.random.default_rng(3))).x
    agent.learn("red", 1.0, x=x)  # one's own is counted beside it
    assert agent.exchange.own()["red"][-1] == PER_UNIT
