"""Three real agents whose visitors differ, with certificates: exact, whoever is killed."""

import json

import numpy as np
import pytest

from posse.live import Client
from posse.live.agent.context_evidence import ExpansionPoint
from posse.live.demo import agent_settings, create_process_sites
from posse.live.ledger.sums import PER_UNIT, total
from tests.live.loopback import wait_until
from tests.live.visits import ARMS, SCHEMA, TABLES, grams, make_agent_evidence, shop, visit

VISITS = 45  # of each experiment
KILLED = {15: 1, 30: 0}  # before which visit whom: the one in the middle, then an end
EXPERIMENTS = {"shop": "logistic", "basket": "linear"}


def toml(value):
    """A value as TOML writes it: as JSON does, but for tables."""
    if isinstance(value, dict):
        inside = ", ".join(f"{key} = {toml(each)}" for key, each in value.items())
        return f"{{{inside}}}"
    return json.dumps(value)


def table(experiment):
    kind = EXPERIMENTS[experiment]
    values = {"family": TABLES[kind], "context": SCHEMA}
    if kind == "linear":
        values["reward_range"] = [-2, 3]
    lines = "".join(f"{key} = {toml(value)}\n" for key, value in values.items())
    return f"[experiments.{experiment}]\n{lines}"


@pytest.fixture
def sites(tmp_path):
    made = create_process_sites(tmp_path, [(0, 1), (1, 2)], agent_settings(3, ARMS, "origins"))
    for site in made:
        tables = "".join(map(table, EXPERIMENTS))
        site.file.write_text(site.file.read_text() + tables)
        site.start()
    for site in made:
        site.wait_until_ready()
    yield made
    for site in made:
        site.request_stop()
    for site in made:
        site.stop()


@pytest.mark.long
def test_three_agents_are_exact_under_kills(sites):
    generator, models = np.random.default_rng(1), {e: shop(k) for e, k in EXPERIMENTS.items()}
    rows = {(site.name, each): [] for site in sites for each in EXPERIMENTS}
    clients = {
        (site.name, each): Client(site.url, patience=60.0, experiment=each)
        for site in sites
        for each in EXPERIMENTS
    }
    for nth in range(VISITS):
        decisions = []
        for each, kind in EXPERIMENTS.items():
            site, context = sites[nth % 3], visit(generator)
            decision = clients[site.name, each].pull(context=context, decision=f"visit-{nth}")
            reward = float(nth % 4 == 0) if kind == "logistic" else 0.25 * (nth % 9) - 0.5
            decisions.append((site, each, context, decision, reward))
        if nth in KILLED:  # what was decided there is rewarded afterwards
            sites[KILLED[nth]].kill()
            sites[KILLED[nth]].start()
        for site, each, context, decision, reward in decisions:
            assert clients[site.name, each].update(decision, reward)
            assert not clients[site.name, each].update(decision.id, reward)
            model = models[each]
            met = ExpansionPoint(model.encode_context(context).x, -2.0)
            row = make_agent_evidence(model).quantize_reward(reward, generator, met)
            rows[site.name, each].append({decision.arm: row})

    def held(each):
        return [clients[site.name, each].evidence() for site in sites]

    for each, kind in EXPERIMENTS.items():
        counted = total(row for site in sites for row in rows[site.name, each])
        wait_until(
            lambda each=each, n=VISITS * PER_UNIT: all(
                sum(row[-1] for row in one["held"].values()) == n for one in held(each)
            ),
            f"not all have heard of all {each}",
        )
        first, *others = [one["held"] for one in held(each)]
        assert all(other == first for other in others)
        if kind == "linear":  # every number of it
            assert first == counted
            own = {site.name: total(rows[site.name, each]) for site in sites}
            assert [one["own"] for one in held(each)] == [own[site.name] for site in sites]
        for arm, row in first.items():  # what was linearised by what was known: the rewards
            assert (row[0], row[-1]) == (counted[arm][0], counted[arm][-1])
            for matrix in grams(models[each], row):
                assert np.linalg.eigvalsh(matrix.astype(float)).min() > -1e-9 * PER_UNIT
        shown = [clients[site.name, each].arms({"country": "de"}) for site in sites]
        for other in shown[1:]:
            for arm in ARMS:
                assert other[arm]["mean"] == pytest.approx(shown[0][arm]["mean"], rel=1e-9)
    for client in clients.values():
        client.close()
