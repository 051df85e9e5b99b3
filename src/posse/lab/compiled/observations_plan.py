"""Which kernels the algorithms of `observations` need, and the numbers they are given."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from posse import algorithms
from posse.algorithms.follow_your_leader import leaders_of
from posse.algorithms.forced import noise_scale
from posse.algorithms.hops import distances
from posse.algorithms.kl_index import kind_of
from posse.families import Gaussian
from posse.lab.blocks import Simulation
from posse.networks.static import Static
from posse.randomness import FloatArray

ALGORITHMS = (
    algorithms.UCBNetwork,
    algorithms.FollowYourLeader,
    algorithms.ComEx,
    algorithms.CoopSE,
)


def missing(simulation: Simulation) -> str | None:
    """What has no kernel, in words; None where everything has one."""
    algorithm: Any = simulation.algorithm
    if not isinstance(simulation.network.dynamics, Static):
        return f"{type(algorithm).__name__} on a network that changes"
    if algorithm.index == "kl" and _kl_of(simulation) is None:
        return f"the KL index of family {type(simulation.bandit.family).__name__}"
    return None


def parts_of(simulation: Simulation) -> dict[str, Any]:
    """The kernels and their numbers, as `plan.Plan` takes them."""
    algorithm: Any = simulation.algorithm
    algorithm.check(simulation.problem(1))
    eliminates = isinstance(algorithm, algorithms.CoopSE)
    hops = algorithm.reach if isinstance(algorithm, algorithms.UCBNetwork) else 1
    if eliminates:
        choose, merge, hops = "choose_least_heard", "merge_eliminating", None
    else:
        choose = "choose_heard_width" if _has_width(simulation) else "choose_heard_kl"
        merge = "merge_neighbours" if hops == 1 else "merge_flooding"
    tells = isinstance(algorithm, algorithms.ComEx)
    store = 2 if tells else 0  # whether it tells, and how often it did
    if merge != "merge_neighbours":
        store = road_width(simulation, hops)
    if eliminates:  # arms given up, twice, and how many it was told of
        store += 2 * simulation.bandit.n_arms + 1
    return {
        "merge": merge,
        "choose": choose,
        "choose_eagerly": "choose_nothing",
        "belief": "",  # these keep none
        "prior": (0.0, 0.0),
        "rate": 1.0,
        "hops": hops,
        "store_width": store,
        "counts_messages": tells or eliminates,
    }


def level_of(simulation: Simulation, t: int) -> float:
    """What the index takes at round t: ln t, times the square of the width where it has one."""
    algorithm: Any = simulation.algorithm
    if isinstance(algorithm, algorithms.CoopSE):
        return 0.0
    family, level = simulation.bandit.family, math.log(t)
    if algorithm.index != "kl":
        return float(algorithm.width * noise_scale(family, algorithm.sigma) ** 2 * level)
    return 2.0 * noise_scale(family, None) ** 2 * level if _has_width(simulation) else level


def table_of(simulation: Simulation) -> FloatArray:
    """The constants that the choice takes; see `observations`."""
    algorithm: Any = simulation.algorithm
    if isinstance(algorithm, algorithms.CoopSE):
        return np.array([depth_of(simulation, None), algorithm.width(simulation.problem(1))])
    follows = isinstance(algorithm, algorithms.FollowYourLeader)
    forced = 0 if follows else simulation.bandit.n_arms
    kind = _kl_of(simulation) if algorithm.index == "kl" else None
    constants = [forced, isinstance(algorithm, algorithms.ComEx), *(kind or (0, 0.0))]
    leaders = leaders_of(simulation.network) if follows else ()
    return np.array([*constants, *leaders], dtype=np.float64)


def depth_of(simulation: Simulation, hops: int | None) -> int:
    """How many rounds a store of observations keeps."""
    return int(distances(simulation.network, hops)[2][-1]) + 1


def road_width(simulation: Simulation, hops: int | None) -> int:
    """The numbers of each agent, its arms and rewards, that are on their way to others."""
    return 2 * depth_of(simulation, hops)


def _kl_of(simulation: Simulation) -> tuple[int, float] | None:
    """The kind and the parameter of the KL index of the bandit's family, if it has a kernel."""
    family = simulation.bandit.family
    return kind_of(family) if callable(getattr(family, "divergence", None)) else None


def _has_width(simulation: Simulation) -> bool:
    """Whether the index is a mean and a width: the published one, and the KL index of Gaussians."""
    algorithm: Any = simulation.algorithm
    return algorithm.index == "published" or isinstance(simulation.bandit.family, Gaussian)
