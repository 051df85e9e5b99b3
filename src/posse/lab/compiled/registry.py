"""The registry of kernels: which kernels a simulation needs, and their constants.

A simulation whose parts all have kernels runs on the compiled engine; `missing_kernel` names the
first part without one. A `KernelPlan` holds the names of the kernels and the numbers they take.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from posse import algorithms, families, policies, sites
from posse.algorithms import (
    ForcedStart,
    chebyshev_values,
    choose_leaders,
    delivery_delays,
    divergence_kind,
    noise_scale,
)
from posse.bandits import ContextualBandit, Dataset, Environment
from posse.families import Family, Gaussian, require_plain_family
from posse.lab.simulation import Simulation
from posse.networks import DEFAULT_RULE, Gossip, LinkFailure, Matrix, Network, Static
from posse.randomness import FloatArray

# Algorithms that pass observations on; their kernels are in `kernels.observations`.
OBSERVATION_ALGORITHMS = (
    algorithms.UCBNetwork,
    algorithms.FollowYourLeader,
    algorithms.ComEx,
    algorithms.CoopSE,
)


def missing_observation_kernel(simulation: Simulation) -> str | None:
    """Name the part without a kernel; None if all parts have one."""
    algorithm: Any = simulation.algorithm
    if not isinstance(simulation.network.dynamics, Static):
        return f"{type(algorithm).__name__} on a network that changes"
    if algorithm.index == "kl" and _kl_kind(simulation) is None:
        return f"the KL index of family {type(simulation.bandit.family).__name__}"
    return None


def _plan_observations(simulation: Simulation) -> dict[str, Any]:
    """Plan the algorithms that pass observations on."""
    algorithm: Any = simulation.algorithm
    algorithm.check_problem(simulation.build_problem(1))
    eliminates = isinstance(algorithm, algorithms.CoopSE)
    hops = algorithm.hop_limit if isinstance(algorithm, algorithms.UCBNetwork) else 1
    if eliminates:
        choose = "choose_least_heard"
        merge = "merge_eliminating"
        hops = None
    else:
        choose = "choose_heard_width" if _has_width(simulation) else "choose_heard_kl"
        merge = "merge_neighbours" if hops == 1 else "merge_flooding"
    is_selective = isinstance(algorithm, algorithms.ComEx)
    # ComEx stores for each agent whether it sends in this round, and how often it did
    store = 2 if is_selective else 0
    if merge != "merge_neighbours":
        store = observation_store_width(simulation, hops)
    if eliminates:  # eliminated arms, twice, and how many eliminations an agent received
        store += 2 * simulation.bandit.n_arms + 1
    return {
        "merge": merge,
        "choose": choose,
        "choose_eagerly": "choose_nothing",
        "posterior": "",  # these have no beliefs
        "prior": (0.0, 0.0),
        "rate": 1.0,
        "hops": hops,
        "store_width": store,
        "counts_messages": is_selective or eliminates,
    }


def observation_level(simulation: Simulation, t: int) -> float:
    """Return the level of the index in round t, times the squared width if it has one."""
    algorithm: Any = simulation.algorithm
    if isinstance(algorithm, algorithms.CoopSE):
        return 0.0
    family = simulation.bandit.family
    level: float = algorithm.index_level(t)
    if algorithm.index != "kl":
        return float(algorithm.bonus_constant * noise_scale(family, algorithm.sigma) ** 2 * level)
    return 2.0 * noise_scale(family, None) ** 2 * level if _has_width(simulation) else level


def observation_table(simulation: Simulation) -> FloatArray:
    """Return the table of constants of the choice; see `kernels.observations`."""
    algorithm: Any = simulation.algorithm
    if isinstance(algorithm, algorithms.CoopSE):
        width = algorithm.observation_width(simulation.build_problem(1))
        return np.array([store_depth(simulation, None), width])
    follows = isinstance(algorithm, algorithms.FollowYourLeader)
    forced = 0 if follows else simulation.bandit.n_arms
    kind = _kl_kind(simulation) if algorithm.index == "kl" else None
    constants = [forced, isinstance(algorithm, algorithms.ComEx), *(kind or (0, 0.0))]
    leaders = choose_leaders(simulation.network) if follows else ()
    return np.array([*constants, *leaders], dtype=np.float64)


def store_depth(simulation: Simulation, hops: int | None) -> int:
    """Return how many rounds the store of observations holds."""
    return int(delivery_delays(simulation.network, hops)[2][-1]) + 1


def observation_store_width(simulation: Simulation, hops: int | None) -> int:
    """Return how many numbers (arms and rewards) of each agent are in transit."""
    return 2 * store_depth(simulation, hops)


def _kl_kind(simulation: Simulation) -> tuple[int, float] | None:
    """Return kind and parameter of the KL index of the bandit's family, if it has a kernel."""
    family = simulation.bandit.family
    return divergence_kind(family) if callable(getattr(family, "divergence", None)) else None


def _has_width(simulation: Simulation) -> bool:
    """Whether the index is a mean and a width: the published one, and the KL index of Gaussians."""
    algorithm: Any = simulation.algorithm
    return algorithm.index == "published" or isinstance(simulation.bandit.family, Gaussian)


# All parts with kernels


def _declared_kernel(family: type, name: str) -> str | None:
    """Return the kernel that a family declares itself.

    The kernel of a parent class is not inherited: it would ignore what the subclass changes.
    """
    registered = family in families.FAMILIES.values()
    kernel: str | None = getattr(family, name, None) if registered else vars(family).get(name)
    return kernel


def posterior_kernel(family: type) -> str | None:
    """Return the name of a family's posterior in `posteriors.POSTERIORS`."""
    return _declared_kernel(family, "kernel")


def reward_kernel(family: type) -> str | None:
    """Return the kernel that draws a family's rewards."""
    return _declared_kernel(family, "reward_kernel")


# The registered families with a kernel.
POSTERIOR_KERNELS = {
    cls: kind for cls in families.FAMILIES.values() if (kind := posterior_kernel(cls))
}
REWARD_KERNELS = {cls: name for cls in families.FAMILIES.values() if (name := reward_kernel(cls))}
POLICY_KERNELS = {
    policies.ThompsonSampling: "choose_thompson",
    policies.TopTwo: "choose_thompson",  # which chooses the leader
    policies.BayesUCB: "choose_bayes_ucb",
    policies.Greedy: "choose_greedy",
    policies.RandUCB: "choose_rand_ucb",
    policies.Uniform: "choose_uniform",
}
MERGE_KERNELS = {Static: "merge_static", Gossip: "merge_gossip", LinkFailure: "merge_failing"}
PUSH_KERNELS = {
    Static: "merge_push",
    Gossip: "merge_push_gossip",
    LinkFailure: "merge_push_failing",
}
BAYESIAN_ALGORITHMS = (
    algorithms.Decentralized,
    algorithms.Isolated,
    algorithms.Centralized,
    algorithms.Flooding,
    algorithms.Tree,
    algorithms.PushSum,
    algorithms.PartialPooling,
)
CONSENSUS_ALGORITHMS = (algorithms.CoopUCB, algorithms.CoopUCB2, algorithms.CoopUCL)
# The merge and the choose kernel of each algorithm.
RIVAL_KERNELS = {
    algorithms.GosInE: ("merge_gosine", "choose_gosine"),
    algorithms.DistUCB: ("merge_tracking", "choose_tracking"),
}
COMPILED_ALGORITHMS = (
    *BAYESIAN_ALGORITHMS,
    *CONSENSUS_ALGORITHMS,
    algorithms.DDUCB,
    *RIVAL_KERNELS,
    *OBSERVATION_ALGORITHMS,
)
# Values of `keep=` that the recorder of the compiled engine knows.
RECORDABLE = ("agents", "means", "messages", "beliefs")


@dataclass(frozen=True)
class KernelPlan:
    """The kernels of a simulation by name, and the numbers they take."""

    merge: str
    choose: str
    choose_eagerly: str  # for the runs that `choose` leaves alone
    draw_rewards: str
    posterior: str  # its name; empty for algorithms without beliefs
    prior: tuple[float, ...]  # (count, total), and the sum of squares if the family has one
    # added to the count by one observation; (N,) if agents have different learning rates
    rate: float | FloatArray
    parameter: float  # of the rewards
    offset: float = 0.0  # of the shapes of `posteriors.student`
    fading: float = 1.0  # the weight of evidence one round later
    counts_open: bool = False  # whether a pull counts as the lowest reward until its reward arrives
    lowest: float = 0.0  # that reward
    clips: bool = False  # whether agents act on a belief without more corrections than pulls
    delayed: bool = False
    shared: bool = False  # whether all agents of a run share one belief
    unmixed: int = 0  # rounds without messages
    staged: bool = False  # whether observations wait in the store for the next stage
    stage_length: int = 1
    hops: int | None = None  # how far observations travel; None: to all agents
    store_width: int = 0  # further numbers per agent that the kernels store
    challenge: str = "choose_nothing"  # replaces leading arms by their challengers
    counts_messages: bool = False  # whether messages are counted in the store
    ignores_weights: bool = False  # whether only the links of the network count
    learnt: bool = False  # whether agents estimate N
    sleeps: bool = False  # whether agents may sleep
    cuts_off_sleepers: bool = False  # whether links work only while both ends are awake
    pooling: tuple[float, ...] = ()  # the constants of `kernels.pooling`


def missing_kernel(simulation: Simulation) -> str | None:
    """Name the part without a kernel; None if all parts have one."""
    # in the order in which a reader looks for a cause: what to record, the bandit, the algorithm
    for name in simulation.keep:
        if name not in RECORDABLE:
            return f"keep={name!r}"
    if isinstance(simulation.bandit, ContextualBandit):
        return "contexts"
    if isinstance(simulation.bandit, Dataset | Environment):
        return f"bandit {type(simulation.bandit).__name__}"
    algorithm: Any = simulation.algorithm
    if type(algorithm) not in COMPILED_ALGORITHMS:
        return f"algorithm {type(algorithm).__name__}"
    if simulation.activity is not None and not callable(getattr(algorithm, "learn_delayed", None)):
        return f"{type(algorithm).__name__} where agents sleep"
    if reward_kernel(type(simulation.bandit.family)) is None:
        return f"rewards of family {type(simulation.bandit.family).__name__}"
    if type(simulation.network.dynamics) not in MERGE_KERNELS:
        return f"dynamics {type(simulation.network.dynamics).__name__}"
    if isinstance(algorithm, OBSERVATION_ALGORITHMS):
        unknown = missing_observation_kernel(simulation)
        if unknown:
            return unknown
    # the KL index has kernels for known divergences only
    kl = type(algorithm) in RIVAL_KERNELS and algorithm.index == "kl"
    if kl and divergence_kind(simulation.bandit.family) is None:
        return f"the divergence of family {type(simulation.bandit.family).__name__}"
    if type(algorithm) not in BAYESIAN_ALGORITHMS:
        return (
            "keep='beliefs' of an algorithm without them" if "beliefs" in simulation.keep else None
        )
    if type(algorithm.policy) not in POLICY_KERNELS:
        return f"policy {type(algorithm.policy).__name__}"
    if posterior_kernel(type(simulation.model)) is None:
        return f"family {type(simulation.model).__name__}"
    if simulation.cuts_off_sleepers:
        lacking = _missing_awake_kernel(simulation)
        if lacking:
            return lacking
    if isinstance(algorithm, algorithms.PartialPooling):
        return _missing_pooling_kernel(require_plain_family(simulation.model))
    flooding = isinstance(algorithm, algorithms.Flooding)
    if flooding and not isinstance(simulation.network.dynamics, Static):
        return "Flooding on a network that changes"
    if isinstance(algorithm, algorithms.Tree):
        if isinstance(simulation.network.dynamics, Gossip):
            return "Tree under gossip"  # the reference engine refuses it as well
        if "messages" in simulation.keep and not isinstance(simulation.network.dynamics, Static):
            return "keep='messages' of Tree where links fail"
    return None


def _missing_awake_kernel(simulation: Simulation) -> str | None:
    """Name the part without a kernel where sleepers are cut off from the network."""
    algorithm: Any = simulation.algorithm
    if "messages" in simulation.keep:
        return "keep='messages' with relays=False"
    if isinstance(algorithm, algorithms.Flooding | algorithms.PushSum):
        return f"{type(algorithm).__name__} with relays=False"
    merges = isinstance(algorithm, algorithms.Decentralized)
    if merges and not isinstance(simulation.network.dynamics, Static):
        return "relays=False on a network that changes"
    return None


def plan_kernels(simulation: Simulation) -> KernelPlan:
    """Plan the kernels of a simulation for which none is missing."""
    rewards = require_plain_family(simulation.bandit.family)
    draw = reward_kernel(type(rewards))
    assert draw is not None
    parameter = float(families.get_optional(rewards, "reward_parameter"))
    if isinstance(simulation.algorithm, BAYESIAN_ALGORITHMS):
        parts = _plan_bayesian(simulation)
    elif isinstance(simulation.algorithm, OBSERVATION_ALGORITHMS):
        parts = _plan_observations(simulation)
    elif type(simulation.algorithm) in RIVAL_KERNELS:
        parts = _plan_rival(simulation)
    else:
        parts = _plan_baseline(simulation)
    sleeps = simulation.activity is not None
    return KernelPlan(draw_rewards=draw, parameter=parameter, sleeps=sleeps, **parts)


def _plan_bayesian(simulation: Simulation) -> dict[str, Any]:
    """Plan the Bayesian algorithms: a policy kernel for the posterior, and a merge kernel."""
    algorithm: Any = simulation.algorithm
    model = require_plain_family(simulation.model)
    network = simulation.network
    posterior = posterior_kernel(type(model))
    prior = families.to_count_and_total(model, model.prior())
    weight = families.get_optional(model, "observation_weight")
    rate = algorithm.resolve_learning_rate(simulation.build_problem(1))
    policy = POLICY_KERNELS[type(algorithm.policy)]
    top_two = isinstance(algorithm.policy, policies.TopTwo)
    lazy = top_two or isinstance(algorithm.policy, policies.ThompsonSampling)
    ignores_belief = isinstance(algorithm.policy, policies.Uniform)  # one kernel for all posteriors
    merge = MERGE_KERNELS[type(network.dynamics)]
    shared = False
    store = 0
    ignores_weights = False
    if isinstance(algorithm, algorithms.PushSum):
        ignores_weights = True
        if _masses_vary(algorithm, network):
            merge = PUSH_KERNELS[type(network.dynamics)]
        else:
            network = network.weighted(DEFAULT_RULE)  # the max-degree weights are equal shares
    if isinstance(algorithm, algorithms.PartialPooling):
        merge = "merge_pooling"
        store = 2 * simulation.bandit.n_arms + 1
    elif isinstance(algorithm, algorithms.Isolated) or network.n_links == 0:
        merge = "merge_nothing"  # no messages
    elif isinstance(algorithm, algorithms.Centralized):
        merge = "merge_nothing"
        shared = True
    elif isinstance(algorithm, algorithms.Flooding):
        late = simulation.bandit.delay is not None
        merge = "merge_late_flooding" if late else "merge_flooding"
        store = 0 if late else observation_store_width(simulation, None)
    elif isinstance(algorithm, algorithms.Tree):  # own evidence, and both directions of a link
        merge = "merge_tree"
        store = 3 * len(prior) * simulation.bandit.n_arms
    elif simulation.cuts_off_sleepers:
        merge = "merge_awake"
    elif merge == "merge_static" and network.is_uniform:
        # a complete graph averages N rows: one shared row with every observation at rate / N
        merge = "merge_nothing"
        shared = True
        rate = rate / network.n_agents
    return {
        "merge": merge,
        "choose": policy if ignores_belief else f"{policy}_{posterior}",
        "choose_eagerly": f"{policy}_eagerly_{posterior}" if lazy else "choose_nothing",
        "challenge": f"challenge_{posterior}" if top_two else "choose_nothing",
        "posterior": posterior,
        "prior": tuple(prior.tolist()),
        "offset": float(families.get_optional(model, "shape_offset")),
        "rate": rate * weight,
        "fading": getattr(algorithm, "discount_factor", 1.0),  # PartialPooling has no half-life
        **_plan_delays(simulation),
        "shared": shared,
        "store_width": store,
        "ignores_weights": ignores_weights,
        "learnt": getattr(algorithm, "learning_rate", None) == "learnt",
        "cuts_off_sleepers": simulation.cuts_off_sleepers,
        "pooling": _pooling_constants(algorithm, model) if merge == "merge_pooling" else (),
    }


def _plan_delays(simulation: Simulation) -> dict[str, Any]:
    """Plan how open pulls count, where rewards are delayed."""
    if simulation.bandit.delay is None:
        return {}
    algorithm: Any = simulation.algorithm
    lowest = simulation.bandit.family.rewards.low
    counts_open = algorithm.open_pull_statistic(lowest, simulation.model) is not None
    # others never have a correction before the pull that it corrects
    exchanges = isinstance(algorithm, algorithms.Decentralized | algorithms.PushSum)
    rewards = simulation.model.rewards
    bounded = np.isfinite(rewards.low) and np.isfinite(rewards.high)
    return {
        "delayed": True,
        "counts_open": counts_open,
        "lowest": float(lowest) if counts_open else 0.0,
        "clips": bool(algorithm.open == "count" and exchanges and bounded),
    }


def _missing_pooling_kernel(model: Family) -> str | None:
    """Name what the kernel of `PartialPooling` cannot compute of a family; None if nothing."""
    means = np.array([0.25, 0.75])
    variance = families.get_optional(model, "variance")(means)
    if variance is None:  # the algorithm refuses it as well
        return f"the variance of family {type(model).__name__}"
    constant, linear, square = _variance_coefficients(model)
    start, slope, other_start, other_slope = _unit_coefficients(model)
    unit = np.minimum(start + slope * means, other_start + other_slope * means)
    formulas = np.stack([(square * means + linear) * means + constant, unit])
    values = np.stack([variance, families.get_optional(model, "site_unit")(means)])
    if not np.allclose(formulas, values, rtol=1e-14):
        return f"the variance of family {type(model).__name__}"
    return None


def _variance_coefficients(model: Family) -> tuple[float, float, float]:
    """Return a, b, c of the variance a + b m + c m^2 of a reward with mean m.

    The variances of the exponential families here are quadratic in the mean (Morris 1982), and
    three means determine them. In these means all arithmetic is exact.
    """
    at_zero, at_half, at_one = families.get_optional(model, "variance")(np.array([0.0, 0.5, 1.0]))
    square = 2.0 * (at_zero + at_one - 2.0 * at_half)
    return float(at_zero), float(at_one - at_zero - square), float(square)


def _unit_coefficients(model: Family) -> tuple[float, float, float, float]:
    """Return a, b, c, d of the unit min(a + b m, c + d m) of the heterogeneity between sites."""
    unit = families.get_optional(model, "site_unit")
    at_zero, at_half, at_one = (float(value) for value in unit(np.array([0.0, 0.5, 1.0])))
    slopes = 2.0 * (at_half - at_zero), 2.0 * (at_one - at_half)
    return at_zero, slopes[0], at_one - slopes[1], slopes[1]


def _pooling_constants(algorithm: algorithms.PartialPooling, model: Family) -> tuple[float, ...]:
    """Return the constants of `kernels.pooling`, in its order."""
    nothing = sites.Sites(model, np.zeros((2, 1, 1)), algorithm.site_sd)
    multiples = nothing.multiples
    # a given tau has probability 1
    prior = sites.ACTING_PRIOR if algorithm.site_sd is None else np.ones(1)
    return (
        float(algorithm.refresh),
        *nothing.prior_pulls,
        float(families.get_optional(model, "observation_weight")),
        *_variance_coefficients(model),
        *_unit_coefficients(model),
        sites.SHARED_WEIGHT,
        *multiples.tolist(),
        *prior.tolist(),
    )


def _masses_vary(algorithm: Any, network: Network) -> bool:
    """Whether masses of PushSum differ from 1, or are needed to learn N.

    Otherwise, where all agents have equally many neighbours, PushSum is Algorithm 1 with max-degree
    weights, and its kernels serve.
    """
    realised = isinstance(network.dynamics, LinkFailure) and network.dynamics.normalise != "full"
    return (
        algorithm.learning_rate == "learnt"
        or network.is_directed
        or isinstance(network.rule, Matrix)
        or (len(np.unique(network.degrees)) > 1 and not isinstance(network.dynamics, Gossip))
        or realised
    )


def _plan_baseline(simulation: Simulation) -> dict[str, Any]:
    """Plan the running consensus algorithms and DDUCB."""
    algorithm: Any = simulation.algorithm
    algorithm.check_problem(simulation.build_problem(1))
    network = simulation.network
    staged = isinstance(algorithm, algorithms.DDUCB)
    merge = MERGE_KERNELS[type(network.dynamics)] if network.n_links else "merge_nothing"
    if staged and algorithm.uses_chebyshev(network):
        merge = "merge_chebyshev"
    return {
        "merge": merge,
        "choose": "choose_staged" if staged else "choose_consensus",
        "choose_eagerly": "choose_nothing",
        "posterior": "",  # these have no beliefs
        "prior": (0.0, 0.0),
        "rate": 1.0,
        "unmixed": simulation.bandit.n_arms,
        "staged": staged,
        "stage_length": algorithm.stage_length(network) if staged else 1,
        "store_width": 4 * simulation.bandit.n_arms if staged else 0,
    }


def _plan_rival(simulation: Simulation) -> dict[str, Any]:
    """Plan GosInE and Dist-UCB."""
    algorithm: Any = simulation.algorithm
    algorithm.check_problem(simulation.build_problem(1))
    merge, choose = RIVAL_KERNELS[type(algorithm)]
    forced = isinstance(algorithm, ForcedStart)
    n_arms = simulation.bandit.n_arms
    staged = choose == "choose_tracking"  # stores own counts and totals beside the estimates
    return {
        "merge": merge,
        "choose": choose,
        "choose_eagerly": "choose_nothing",
        "posterior": "",
        "prior": (0.0, 0.0),
        "rate": 1.0,
        "unmixed": n_arms if forced else 0,
        "staged": staged,
        "store_width": 4 * n_arms if staged else n_arms + 3,
    }


def _outright_level(plan: KernelPlan) -> float:
    """Return the bound of an arm's tail above which Thompson Sampling draws the arm outright."""
    from posse.lab.compiled.kernels import thompson

    # PushSum does not count evidence twice, so its agents stay uncertain for longer than others
    pushes = plan.merge in PUSH_KERNELS.values()
    return thompson.OUTRIGHT_IF_WIDE if pushes else thompson.OUTRIGHT


def contest_worth(plan: KernelPlan) -> int:
    """Return how many vectorised draws an arm costs that fails the quick test."""
    from posse.lab.compiled import posteriors

    if not plan.posterior:
        return 1
    worth = posteriors.POSTERIORS[plan.posterior].worth
    return (worth + 1) // 2 if plan.merge in PUSH_KERNELS.values() else worth


def choice_levels(simulation: Simulation, plan: KernelPlan, t: int, end: int) -> Any:
    """Return the level of the choice for each of the rounds t to end - 1: (end - t,)."""
    algorithm: Any = simulation.algorithm
    problem = simulation.build_problem(1)
    if isinstance(algorithm, OBSERVATION_ALGORITHMS):
        return np.array([observation_level(simulation, r) for r in range(t, end)])
    # index algorithms take their scale, after the forced rounds
    if not isinstance(algorithm, BAYESIAN_ALGORITHMS):
        forced = simulation.bandit.n_arms if isinstance(algorithm, ForcedStart) else 0
        return np.array(
            [algorithm.index_scale(problem, r) if r > forced else 0.0 for r in range(t, end)]
        )
    # the kernels of Bayes-UCB take the upper tail
    if isinstance(algorithm.policy, policies.BayesUCB):
        level = algorithm.policy.quantile_level
        return np.array([1.0 - level(round_, simulation.horizon) for round_ in range(t, end)])
    if isinstance(algorithm.policy, policies.RandUCB):
        return np.full(end - t, algorithm.policy.sampling)
    return np.full(end - t, _outright_level(plan))


def choice_table(simulation: Simulation, plan: KernelPlan) -> Any:
    """Return the table of constants of the choice."""
    from posse.lab.compiled import posteriors
    from posse.lab.compiled.kernels import baselines, thompson

    algorithm: Any = simulation.algorithm
    problem = simulation.build_problem(1)
    network = simulation.network
    if isinstance(algorithm, OBSERVATION_ALGORITHMS):
        return observation_table(simulation)
    if plan.choose == "choose_consensus":
        index = algorithm.build_index(problem)
        return np.concatenate([[index.shift, index.weight, index.growing], index.slack])
    if plan.choose == "choose_staged":
        table = np.zeros(4)
        table[baselines.UNACCELERATED] = algorithm.variant == "unaccelerated"
        table[baselines.PRACTICAL] = algorithm.variant == "practical"
        table[baselines.STAGE] = plan.stage_length
        accelerated = plan.merge == "merge_chebyshev"
        norm = (
            chebyshev_values(network.second_eigenvalue, plan.stage_length)[1]
            if accelerated
            else 1.0
        )
        table[baselines.NORM] = 1.0 / norm
        return table
    if type(algorithm) in RIVAL_KERNELS:
        kind = divergence_kind(simulation.bandit.family) if algorithm.index == "kl" else None
        return np.concatenate([kind or (-1.0, 0.0), network.degrees + 1.0])
    if plan.choose.startswith("choose_rand_ucb"):
        return np.array([algorithm.policy.width])
    # Thompson Sampling: the thresholds of the quick test
    factor = posteriors.POSTERIORS[plan.posterior].factor
    thresholds = thompson.thresholds_for(factor, _outright_level(plan), simulation.bandit.n_arms)
    if isinstance(algorithm.policy, policies.TopTwo):
        return np.append(thresholds, algorithm.policy.fraction)
    return thresholds


def compiled_parts() -> dict[str, list[str]]:
    """List the parts with kernels; a simulation of such parts runs on the compiled engine."""
    return {
        "algorithms": [cls.__name__ for cls in COMPILED_ALGORITHMS],
        "policies": [cls.__name__ for cls in POLICY_KERNELS],
        "families": [cls.__name__ for cls in POSTERIOR_KERNELS],
        "rewards": [cls.__name__ for cls in REWARD_KERNELS],
        "dynamics": [cls.__name__ for cls in MERGE_KERNELS],
    }
