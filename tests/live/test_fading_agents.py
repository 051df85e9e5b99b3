"""Three real agents whose evidence fades, over loopback, one of them killed and started again."""

import json
import sqlite3
from contextlib import closing

import pytest

from posse.live.demo import create_process_sites
from posse.live.ledger.half_life import shift_ledger
from posse.live.ledger.sums import PER_UNIT, plus
from tests.live.loopback import wait_until

HALF_LIFE, TICK, VISITS = 3.0, 0.03, 8
NAMES = ("a", "b", "c")
EXPERIMENTS = ("exact", "average")  # under origins, and under flows


def settings(name):
    tables = {
        "exact": {"exchange": "origins", "half_life": f"{HALF_LIFE:g} seconds"},
        "average": {"exchange": "flows", "half_life": HALF_LIFE, "network_size": 3},
    }
    common = {"arms": ["red", "green"], "family": "bernoulli", "tick_seconds": TICK}
    return {"name": name, **common, "experiments": tables}


def worth(site, experiment, whose="held"):
    """The pulls that an agent knows of, for what they are worth."""
    held = site.read_evidence(experiment)[whose]
    return sum(values[-1] for values in held.values()) / PER_UNIT


def visit(site):
    for experiment in EXPERIMENTS:
        with site.open_visitor(experiment) as visitor:
            for _ in range(VISITS):
                visitor.update(visitor.pull(), 1.0)


def kept(folder, name, experiment):
    """All durable parts of an agent's exchange."""
    with closing(sqlite3.connect(folder / f"{name}.db")) as store:
        rows = store.execute(
            "SELECT part, value FROM exchange JOIN experiment ON experiment.number = experiment"
            " WHERE name = ?",
            (experiment,),
        )
        return {part: json.loads(value) for part, value in rows}


def entries(parts):
    return {part: value for part, value in parts.items() if part.startswith("entry ")}


@pytest.mark.long
def test_three_agents_fade_alike_though_one_is_killed(tmp_path):
    sites = create_process_sites(tmp_path, [(0, 1), (1, 2)], [settings(name) for name in NAMES])
    try:
        for site in sites:
            site.start()
        for site in sites:
            site.wait_until_ready()
        for site in sites:
            visit(site)
        sites[1].kill()
        sites[1].start()
        sites[1].wait_until_ready()
        visit(sites[1])  # in another incarnation, in a later epoch perhaps

        # under origins four incarnations, the same in every copy
        wait_until(lambda: [len(entries(kept(tmp_path, n, "exact"))) for n in NAMES] == [4] * 3)
        wait_until(lambda: len({str(entries(kept(tmp_path, n, "exact"))) for n in NAMES}) == 1)
        wait_until(lambda: all(worth(site, "average") > 0 for site in sites))
        before = [worth(site, each) for site in sites for each in EXPERIMENTS]

        def faded():
            after = [worth(site, each) for site in sites for each in EXPERIMENTS]
            return all(new < old / 2 for new, old in zip(after, before, strict=True))

        wait_until(faded)
    finally:
        for site in sites:
            site.kill()
            site.stop()
    copies = [entries(kept(tmp_path, name, "exact")) for name in NAMES]
    assert copies[0] == copies[1] == copies[2]
    # both ends of a link agree, each in its epoch
    averages = [kept(tmp_path, name, "average") for name in NAMES]
    for one, other in ((averages[0], averages[1]), (averages[1], averages[2])):
        ours, theirs = one[f"record {other['identity']}"], other[f"record {one['identity']}"]
        assert abs(ours[2] - theirs[2]) <= 1
        if ours[2] == theirs[2]:
            epoch = max(one["epoch"], other["epoch"])
            mine = shift_ledger(plus({}, ours[3]), epoch - one["epoch"])
            assert not plus(mine, shift_ledger(plus({}, theirs[3]), epoch - other["epoch"]))
