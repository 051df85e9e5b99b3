"""Nodes whose visitors differ, on a network that loses and repeats, restarted while they wait."""

import numpy as np
import pytest

from posse.live.agent.context_evidence import ExpansionPoint
from posse.live.ledger.sums import total
from tests.live.several import Several, table
from tests.live.visits import ARMS, RANGES, SCHEMA, TABLES, make_agent_evidence, shop, visit

FAULTS = {"loss": 0.3, "duplication": 0.3, "delay": (0, 2)}


def data(name, kind, **more):
    ranged = {} if RANGES[kind] is None else {"reward_range": list(RANGES[kind])}
    settings = {"arms": ARMS, "family": TABLES[kind], "context": SCHEMA, **ranged, **more}
    return table(name, ["default"], **settings)


@pytest.mark.parametrize("kind", TABLES)
def test_late_rewards_at_contexts_are_exact_through_restarts_and_loss(kind, tmp_path):
    lowest = 0.0 if kind == "logistic" else -2.0
    late = {"reward_window": 15, "default_reward": lowest}
    files = {name: data(name, kind, **late) for name in "abc"}
    world, generator = Several(tmp_path, **FAULTS).start(**files), np.random.default_rng(1)
    counted, model = [], shop(kind)
    try:
        for nth in range(24):
            name = "abc"[nth % 3]
            one, context = world.nodes[name].experiment(), visit(generator)
            made = one.decide(f"visit-{nth}", context=context)
            world.tick()
            if nth % 12 == 5:  # what is open goes on in another process
                world.nodes[name].stop()
                one = world.open_node(files[name]).experiment()
            reward = lowest if nth % 2 else 1.0
            if reward != lowest:
                one.reward(made.id, reward)
            met = ExpansionPoint(model.encode_context(context).x, -2.0)
            row = make_agent_evidence(model).quantize_reward(reward, generator, met)
            counted.append({made.arm: row})
        for _ in range(30):
            world.tick()
            for node in world.nodes.values():
                node.experiment().close_windows(world.now)
        held = [node.experiment().evidence()["held"] for node in world.nodes.values()]
        assert held[0] == held[1] == held[2]
        wanted = total(counted)
        if kind == "linear":  # every number, as it does not hang on what was believed
            assert held[0] == wanted
        for arm, row in held[0].items():
            n = make_agent_evidence(model).sums.n_sums
            assert row[:n] == row[n : 2 * n]  # all is closed, and where it was begun is forgotten
            assert (row[0], row[-1]) == (wanted[arm][0], wanted[arm][-1])
        for node in world.nodes.values():
            assert node.experiment().audit().counted == 8
            assert not node.network()["refused"]
    finally:
        world.close()
