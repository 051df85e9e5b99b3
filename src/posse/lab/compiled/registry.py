"""Which kernels the algorithms of `observations` need, and the numbers they are given."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from posse import algorithms, families, policies
from posse.algorithms.rivals.dducb import chebyshev
from posse.algorithms.rivals.follow_your_leader import leaders_of
from posse.algorithms.rivals.initial_pulls import ForcedStart, noise_scale
from posse.algorithms.rivals.kl_index import kind_of
from posse.algorithms.rivals.message_passing import distances
from posse.bandits import ContextualBandit
from posse.families import Gaussian
from posse.families.family import require_plain_family
from posse.lab.simulation import Simulation
from posse.networks.gossip import Gossip
from posse.networks.link_failure import LinkFailure
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
    algorithm.check(simulation.build_problem(1))
    eliminates = isinstance(algorithm, algorithms.CoopSE)
    hops = algorithm.reach if isinstance(algorithm, algorithms.UCBNetwork) else 1
    if eliminates:
        choose = "choose_least_heard"
        merge = "merge_eliminating"
        hops = None
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
    family = simulation.bandit.family
    level = math.log(t)
    if algorithm.index != "kl":
        return float(algorithm.width * noise_scale(family, algorithm.sigma) ** 2 * level)
    return 2.0 * noise_scale(family, None) ** 2 * level if _has_width(simulation) else level


def table_of(simulation: Simulation) -> FloatArray:
    """The constants that the choice takes; see `observations`."""
    algorithm: Any = simulation.algorithm
    if isinstance(algorithm, algorithms.CoopSE):
        return np.array([depth_of(simulation, None), algorithm.width(simulation.build_problem(1))])
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


# Which kernels a simulation needs: the table of what is compiled.


def _kernel_of(family: type, name: str) -> str | None:
    """The kernel that a family names itself: one of its parent's would not know what it changes."""
    registered = family in families.FAMILIES.values()
    kernel: str | None = getattr(family, name, None) if registered else vars(family).get(name)
    return kernel


def belief_kernel(family: type) -> str | None:
    """The kind in `beliefs` of a family's belief."""
    return _kernel_of(family, "kernel")


def reward_kernel(family: type) -> str | None:
    """The kernel that draws a family's rewards."""
    return _kernel_of(family, "reward_kernel")


# The registered families with a kernel.
BELIEFS = {cls: kind for cls in families.FAMILIES.values() if (kind := belief_kernel(cls))}
REWARDS = {cls: name for cls in families.FAMILIES.values() if (name := reward_kernel(cls))}
POLICIES = {
    policies.ThompsonSampling: "choose_thompson",
    policies.BayesUCB: "choose_bayes_ucb",
    policies.Greedy: "choose_greedy",
    policies.RandUCB: "choose_rand_ucb",
}
MERGES = {Static: "merge_static", Gossip: "merge_gossip", LinkFailure: "merge_failing"}
BAYESIAN = (
    algorithms.Decentralized,
    algorithms.Isolated,
    algorithms.Centralized,
    algorithms.Flooding,
    algorithms.Tree,
)
CONSENSUS = (algorithms.CoopUCB, algorithms.CoopUCB2, algorithms.CoopUCL)
# By name of algorithm: how its messages arrive, and how it chooses.
RIVALS = {
    algorithms.GosInE: ("merge_gosine", "choose_gosine"),
    algorithms.DistUCB: ("merge_tracking", "choose_tracking"),
}
COMPILED_ALGORITHMS = (*BAYESIAN, *CONSENSUS, algorithms.DDUCB, *RIVALS, *ALGORITHMS)
# What the kernels can keep of a run besides regret and pulls.
KEEPS = ("agents", "means", "messages", "beliefs")


@dataclass(frozen=True)
class Plan:
    """The kernels of a simulation by name, and the numbers they are given."""

    merge: str
    choose: str
    choose_eagerly: str  # for the runs that `choose` leaves alone
    draw_rewards: str
    belief: str  # its kind
    prior: tuple[float, float]  # (count, total)
    rate: float  # what one observation adds to the count
    parameter: float  # of the rewards
    shared: bool = False  # whether all agents of a run hold one belief
    unmixed: int = 0  # rounds without messages
    staged: bool = False  # whether observations wait in the store for the next stage
    stage_length: int = 1
    hops: int | None = None  # how far observations travel; None: to everybody
    store_width: int = 0  # numbers that the kernels keep of each agent besides
    counts_messages: bool = False  # whether what is sent shows in the store only


def missing_kernel(simulation: Simulation) -> str | None:
    """What has no kernel, in words; None where everything has one."""
    for name in simulation.keep:
        if name not in KEEPS:
            return f"keep={name!r}"
    if isinstance(simulation.bandit, ContextualBandit):
        return "contexts"
    if simulation.bandit.drift is not None:
        return f"drift {type(simulation.bandit.drift).__name__}"
    if simulation.bandit.delay is not None:
        return "delay"
    algorithm: Any = simulation.algorithm
    if type(algorithm) not in COMPILED_ALGORITHMS:
        return f"algorithm {type(algorithm).__name__}"
    if reward_kernel(type(simulation.bandit.family)) is None:
        return f"rewards of family {type(simulation.bandit.family).__name__}"
    if type(simulation.network.dynamics) not in MERGES:
        return f"dynamics {type(simulation.network.dynamics).__name__}"
    if isinstance(algorithm, ALGORITHMS):
        unknown = missing(simulation)
        if unknown:
            return unknown
    kl = type(algorithm) in RIVALS and algorithm.index == "kl"
    if kl and kind_of(simulation.bandit.family) is None:
        return f"the divergence of family {type(simulation.bandit.family).__name__}"
    if type(algorithm) not in BAYESIAN:
        return (
            "keep='beliefs' of an algorithm without them" if "beliefs" in simulation.keep else None
        )
    if algorithm.half_life is not None:
        return "half_life"
    if type(algorithm.policy) not in POLICIES:
        return f"policy {type(algorithm.policy).__name__}"
    if belief_kernel(type(simulation.model)) is None:
        return f"family {type(simulation.model).__name__}"
    flooding = isinstance(algorithm, algorithms.Flooding)
    if flooding and not isinstance(simulation.network.dynamics, Static):
        return "Flooding on a network that changes"
    if isinstance(algorithm, algorithms.Tree):
        if isinstance(simulation.network.dynamics, Gossip):
            return "Tree under gossip"  # nor is it played without
        if "messages" in simulation.keep and not isinstance(simulation.network.dynamics, Static):
            return "keep='messages' of Tree where links fail"
    return None


def plan_for(simulation: Simulation) -> Plan:
    """The kernels of a simulation for which nothing is missing."""
    rewards = require_plain_family(simulation.bandit.family)
    draw = reward_kernel(type(rewards))
    assert draw is not None
    parameter = float(families.get_optional(rewards, "reward_parameter"))
    if isinstance(simulation.algorithm, BAYESIAN):
        parts = _bayesian_parts(simulation)
    elif isinstance(simulation.algorithm, ALGORITHMS):
        parts = parts_of(simulation)
    elif type(simulation.algorithm) in RIVALS:
        parts = _rival_parts(simulation)
    else:
        parts = _baseline_parts(simulation)
    return Plan(draw_rewards=draw, parameter=parameter, **parts)


def _bayesian_parts(simulation: Simulation) -> dict[str, Any]:
    algorithm: Any = simulation.algorithm
    model = require_plain_family(simulation.model)
    network = simulation.network
    belief = belief_kernel(type(model))
    count, total = families.to_count_and_total(model, model.prior())
    weight = families.get_optional(model, "observation_weight")
    rate = algorithm.rate(simulation.build_problem(1))
    policy = POLICIES[type(algorithm.policy)]
    lazy = isinstance(algorithm.policy, policies.ThompsonSampling)
    merge = MERGES[type(network.dynamics)]
    shared = False
    store = 0
    if isinstance(algorithm, algorithms.Isolated) or len(network.edges) == 0:
        merge = "merge_nothing"  # nobody to listen to
    elif isinstance(algorithm, algorithms.Centralized):
        merge = "merge_nothing"
        shared = True
    elif isinstance(algorithm, algorithms.Flooding):
        merge = "merge_flooding"
        store = road_width(simulation, None)
    elif isinstance(algorithm, algorithms.Tree):  # one's own evidence, and both ways of a link
        merge = "merge_tree"
        store = 6 * simulation.bandit.n_arms
    elif merge == "merge_static" and network.is_uniform:
        # the average of N rows, each with its own observation at this rate
        merge = "merge_nothing"
        shared = True
        rate = rate / network.n_agents
    return {
        "merge": merge,
        "choose": f"{policy}_{belief}",
        "choose_eagerly": f"{policy}_eagerly_{belief}" if lazy else "choose_nothing",
        "belief": belief,
        "prior": (float(count), float(total)),
        "rate": rate * weight,
        "shared": shared,
        "store_width": store,
    }


def _baseline_parts(simulation: Simulation) -> dict[str, Any]:
    algorithm: Any = simulation.algorithm
    algorithm.check(simulation.build_problem(1))
    network = simulation.network
    staged = isinstance(algorithm, algorithms.DDUCB)
    merge = MERGES[type(network.dynamics)] if len(network.edges) else "merge_nothing"
    if staged and algorithm.accelerates(network):
        merge = "merge_chebyshev"
    return {
        "merge": merge,
        "choose": "choose_staged" if staged else "choose_consensus",
        "choose_eagerly": "choose_nothing",
        "belief": "",  # these keep none
        "prior": (0.0, 0.0),
        "rate": 1.0,
        "unmixed": simulation.bandit.n_arms,
        "staged": staged,
        "stage_length": algorithm.stage_length(network) if staged else 1,
        "store_width": 4 * simulation.bandit.n_arms if staged else 0,
    }


def _rival_parts(simulation: Simulation) -> dict[str, Any]:
    algorithm: Any = simulation.algorithm
    algorithm.check(simulation.build_problem(1))
    merge, choose = RIVALS[type(algorithm)]
    forced = isinstance(algorithm, ForcedStart)
    n_arms = simulation.bandit.n_arms
    staged = choose == "choose_tracking"  # which keeps what is its own in the store
    return {
        "merge": merge,
        "choose": choose,
        "choose_eagerly": "choose_nothing",
        "belief": "",
        "prior": (0.0, 0.0),
        "rate": 1.0,
        "unmixed": n_arms if forced else 0,
        "staged": staged,
        "store_width": 4 * n_arms if staged else n_arms + 3,
    }


def levels_for(simulation: Simulation, t: int, end: int) -> Any:
    """A number for each of the rounds t to end - 1 that the choice takes."""
    from posse.lab.compiled.kernels.thompson import OUTRIGHT

    algorithm: Any = simulation.algorithm
    problem = simulation.build_problem(1)
    if isinstance(algorithm, ALGORITHMS):
        return np.array([level_of(simulation, r) for r in range(t, end)])
    if not isinstance(algorithm, BAYESIAN):  # after the forced rounds
        forced = simulation.bandit.n_arms if isinstance(algorithm, ForcedStart) else 0
        return np.array([algorithm.scale(problem, r) if r > forced else 0.0 for r in range(t, end)])
    if isinstance(algorithm.policy, policies.BayesUCB):  # the upper tail
        level = algorithm.policy.quantile_level
        return np.array([1.0 - level(round_, simulation.horizon) for round_ in range(t, end)])
    if isinstance(algorithm.policy, policies.RandUCB):
        return np.full(end - t, algorithm.policy.sampling)
    return np.full(end - t, OUTRIGHT)


def table_for(simulation: Simulation, plan: Plan) -> Any:
    """The constants that the choice takes."""
    from posse.lab.compiled import posteriors as beliefs
    from posse.lab.compiled.kernels import baselines, thompson

    algorithm: Any = simulation.algorithm
    problem = simulation.build_problem(1)
    network = simulation.network
    if isinstance(algorithm, ALGORITHMS):
        return table_of(simulation)
    if plan.choose == "choose_consensus":
        index = algorithm.index(problem)
        return np.concatenate([[index.shift, index.weight, index.growing], index.slack])
    if plan.choose == "choose_staged":
        table = np.zeros(4)
        table[baselines.UNACCELERATED] = algorithm.variant == "unaccelerated"
        table[baselines.PRACTICAL] = algorithm.variant == "practical"
        table[baselines.STAGE] = plan.stage_length
        accelerated = plan.merge == "merge_chebyshev"
        norm = chebyshev(network.second_eigenvalue, plan.stage_length)[1] if accelerated else 1.0
        table[baselines.NORM] = 1.0 / norm
        return table
    if type(algorithm) in RIVALS:
        kind = kind_of(simulation.bandit.family) if algorithm.index == "kl" else None
        return np.concatenate([kind or (-1.0, 0.0), network.degrees + 1.0])
    if plan.choose.startswith("choose_rand_ucb"):
        return np.array([algorithm.policy.width])
    factor = beliefs.BELIEFS[plan.belief].factor
    return thompson.thresholds_for(factor, thompson.OUTRIGHT, simulation.bandit.n_arms)


def compiled_parts() -> dict[str, list[str]]:
    """What has a kernel, by kind; a simulation made of such parts runs on the compiled engine."""
    return {
        "algorithms": [cls.__name__ for cls in COMPILED_ALGORITHMS],
        "policies": [cls.__name__ for cls in POLICIES],
        "families": [cls.__name__ for cls in BELIEFS],
        "rewards": [cls.__name__ for cls in REWARDS],
        "dynamics": [cls.__name__ for cls in MERGES],
    }
