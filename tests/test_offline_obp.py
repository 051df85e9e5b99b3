"""Estimates equal those of Open Bandit Pipeline, on a log of live agents and on its own data.

Long, and skipped aloud where `obp` is not installed: `make conformance` installs it.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from posse import offline
from tests.live.test_offline import world
from tests.test_offline import make_rows


class StandIn(ModuleType):
    """A module with every class and every module: what obp imports and these tests do not use."""

    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {}) if name[0].isupper() else StandIn(name)

    def __call__(self, *_, **__):  # types in annotations must be callable
        raise NotImplementedError(self.__name__)


class StandInFinder:
    """Imports any module of torch, a gigabyte that the estimators do not need, as a stand-in."""

    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self) if name.partition(".")[0] == "torch" else None

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        pass


if find_spec("obp") is not None and find_spec("torch") is None:
    sys.meta_path.append(StandInFinder())
obp = pytest.importorskip("obp", reason="obp is missing: make conformance compares with it")
pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]


def estimate_with_obp(rewards, actions, propensities, distribution, model):
    """IPS, SNIPS and doubly robust by obp: (n,), (n,), (n,), (n, K), (n, K)."""
    from obp.ope import (
        DoublyRobust,
        InverseProbabilityWeighting,
        SelfNormalizedInverseProbabilityWeighting,
    )

    arguments = {
        "reward": np.asarray(rewards, dtype=float),
        "action": np.asarray(actions),
        "position": np.zeros(len(rewards), dtype=int),
        "pscore": np.asarray(propensities, dtype=float),
        "action_dist": distribution[:, :, None],
    }
    return (
        InverseProbabilityWeighting().estimate_policy_value(**arguments),
        SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(**arguments),
        DoublyRobust().estimate_policy_value(
            **arguments, estimated_rewards_by_reg_model=model[:, :, None]
        ),
    )


def estimate_here(rewards, actions, propensities, distribution, model):
    rows = np.arange(len(rewards))
    target = distribution[rows, actions]
    return (
        offline.ips(rewards, propensities, target).value,
        offline.snips(rewards, propensities, target).value,
        offline.doubly_robust(
            rewards, propensities, target, model[rows, actions], (distribution * model).sum(axis=1)
        ).value,
    )


@pytest.mark.parametrize("policy", ["uniform", "greedy", "arm=red"])
def test_a_log_of_an_agent(policy):
    log = offline.build_log(make_rows(11, 3000))
    model = offline._fit_means(log, np.arange(3000) % offline.FOLDS)
    distribution = offline._target_probabilities(log, policy, model)
    expected = estimate_with_obp(log.rewards, log.played, log.propensities, distribution, model)
    estimates = offline.evaluate(log, policy).estimates
    assert [each.value for each in estimates.values()] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("behaviour", ["random", "bts"])
def test_the_open_bandit_dataset(behaviour):
    """10,000 impressions of a fashion shop, 80 items: an even split and single items."""
    # the file itself: obp's reader of it does not work with pandas 2
    folder = Path(obp.__file__).parent / "dataset" / "obd" / behaviour / "all"
    data = pd.read_csv(folder / "all.csv", index_col=0)
    rewards = data["click"].to_numpy(dtype=float)
    actions = data["item_id"].to_numpy()
    propensities = data["propensity_score"].to_numpy()
    n, n_items = len(data), int(actions.max()) + 1
    assert (n, n_items) == (10_000, 80)
    generator = np.random.default_rng(1)
    model = generator.uniform(0.0, 0.01, (n, n_items))
    item = np.zeros((n, n_items))
    item[:, np.bincount(actions).argmax()] = 1.0
    for distribution in (np.full((n, n_items), 1 / n_items), item):
        problem = (rewards, actions, propensities, distribution, model)
        assert estimate_here(*problem) == pytest.approx(estimate_with_obp(*problem), rel=1e-10)


def test_an_export_of_an_agent(tmp_path):
    """The whole way: an agent, its export, the log, and obp's estimates of an even split."""
    exported = world(tmp_path / "agent.db", "berlin", 2, 2000, min_share=0.1)
    (tmp_path / "log.jsonl").write_text(exported, encoding="utf-8")
    log = offline.read_log([tmp_path / "log.jsonl"])
    distribution = log.allowed / log.allowed.sum(axis=1, keepdims=True)
    model = np.full(distribution.shape, 0.2)
    problem = (log.rewards, log.played, log.propensities, distribution, model)
    assert estimate_here(*problem) == pytest.approx(estimate_with_obp(*problem), rel=1e-12)
