"""Validation before the first round: parts, user-defined code (by a dry run), and memory.

User-defined parts need not be registered or subclass anything: whatever has the methods is
accepted. A part without them, and a problem that would not fit into memory, is refused in one
sentence.
"""

from __future__ import annotations

import bisect
import dataclasses
import inspect
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from posse import algorithms, policies
from posse.activity import Activity, copies_beliefs
from posse.algorithms import (
    ALGORITHMS,
    CONTEXTUAL,
    BayesianAlgorithm,
    Centralized,
    ComEx,
    CoopSE,
    Decentralized,
    EventTriggered,
    Flooding,
    FollowYourLeader,
    LinUCB,
    PartialPooling,
    PushSum,
    TimedAlgorithm,
    Tree,
    UCBNetwork,
)
from posse.bandits import (
    DELAYS,
    DRIFTS,
    AnyBandit,
    Bandit,
    ContextualBandit,
    Dataset,
    Environment,
    UniformMeans,
)
from posse.families import CONTEXTUAL as CONTEXTUAL_FAMILIES
from posse.families import (
    FAMILIES,
    VARIATIONAL,
    Grid,
    Interval,
    Model,
    check_family,
    get_family_name,
    is_contextual,
)
from posse.lab.reference import simulate_block
from posse.lab.simulation import (
    Job,
    Simulation,
    axis_sizes,
    count_coordinates,
    count_numbers_per_run,
    resolve_model,
)
from posse.networks import Gossip, Network, is_user_defined
from posse.policies import POLICIES
from posse.randomness import create_generator
from posse.serialization.encode import find_repr_only
from posse.validation import detect_memory, format_gigabytes, format_value, validate_methods

DRY_RUN_ROUNDS = 2  # the second plays with a state that `learn` returned


def dry_run(label: str, job: Job) -> None:
    """Play the first rounds of up to two runs as a dry run, where a part is user-defined.

    A mistake in a part is then reported before the first round of any algorithm. Every run draws
    from its own streams, so that the dry run changes no number.
    """
    if job.engine != "reference" or not _has_user_parts(job.simulation):
        return
    runs = job.runs[: 1 if job.simulation.network.is_recipe else 2]
    simulation = job.simulation.with_graph_of(runs[0])
    rounds = min(DRY_RUN_ROUNDS, simulation.horizon)
    short = dataclasses.replace(simulation, times=np.arange(1, rounds + 1))
    try:
        simulate_block(short, runs, lambda steps: None, rounds)
    except ValueError:
        raise  # its message is for users already
    except (Exception, SystemExit) as error:  # user-defined code may raise anything
        raise ValueError(
            f"{label} failed in its first {rounds} rounds: {type(error).__name__}: {error}"
        ) from error


def _has_user_parts(simulation: Simulation) -> bool:
    """Whether any part of a simulation is user-defined."""
    s = simulation
    policy: Any = getattr(s.algorithm, "policy", None)
    ours = (
        type(s.algorithm) in (*ALGORITHMS.values(), *algorithms.CONTEXTUAL.values())
        and (policy is None or type(policy) in POLICIES.values())
        and all(_is_library_family(family) for family in (s.bandit.family, s.model))
    )
    own_delay = s.bandit.delay is not None and type(s.bandit.delay) not in DELAYS.values()
    own_drift = s.bandit.drift is not None and type(s.bandit.drift) not in DRIFTS.values()
    return not ours or own_delay or own_drift or is_user_defined(s.network.dynamics)


def _is_library_family(family: Any) -> bool:
    """Whether all code of a family is the library's; a Grid calls functions of the user."""
    ours = (*FAMILIES.values(), *VARIATIONAL.values(), *CONTEXTUAL_FAMILIES.values())
    return type(family) in ours and not isinstance(family, Grid)


# The methods of a family that the library's policies call. A user-defined policy may call any
# method, so that nothing is required of its family here; the dry run finds what is missing.
_POLICY_NEEDS = {
    policies.ThompsonSampling: ["sample_mean"],
    policies.BayesUCB: ["mean_quantile"],
    policies.Greedy: ["posterior_mean"],
    policies.TopTwo: ["sample_mean", "posterior_mean"],
    policies.RandUCB: ["mean_quantile"],
    policies.Uniform: [],
}


def check_types(bandit: Any, network: Any) -> None:
    """Refuse a bandit or network of a wrong type."""
    if not isinstance(bandit, AnyBandit):
        raise ValueError(f"bandit must be a posse.Bandit, got {bandit!r}")
    if not isinstance(network, Network):
        raise ValueError(
            f"network must be a network such as posse.networks.cycle(10), got {network!r}"
        )


def check_problem(bandit: AnyBandit, network: Network) -> None:
    """Refuse a bandit for another number of agents, and a family that cannot draw rewards."""
    bandit.check_agents(network.n_agents)
    if isinstance(bandit, Dataset | Environment):
        return  # their rewards are not drawn by a family
    drawn = bandit.family.at_mean if is_contextual(bandit.family) else bandit.family
    check_family("the bandit's family", drawn, ["draw_rewards"], ["means", "rewards"])


def check_means(bandit: AnyBandit, seed: int, runs: range) -> None:
    """Draw the means of all runs by a user-defined function, which may fail in any of them.

    It must be a function of its generator alone, and return as many arms in every run.
    """
    if not isinstance(bandit, Bandit):
        return
    function = bandit.means_of_arms
    if not callable(function) or isinstance(function, UniformMeans):
        return
    first_draw, second_draw = (
        bandit.means_of_run(runs[0], create_generator(seed, runs[0], "means")) for _ in "12"
    )
    if not np.array_equal(first_draw, second_draw):
        raise ValueError(
            f"means: {format_value(function)} must draw from the generator it is given and "
            "nothing else: a run must have the same means whenever it is played"
        )
    for run in runs:
        drawn = bandit.means_of_run(run, create_generator(seed, run, "means"))
        if drawn.shape != first_draw.shape:
            agents = f"{len(first_draw)} agents and " if first_draw.ndim == 2 else ""
            raise ValueError(
                f"means: every run must have {agents}{first_draw.shape[-1]} arms, as the first "
                "draw had"
            )


def check_algorithm(label: str, algorithm: Any, bandit: AnyBandit, keep: tuple[str, ...]) -> None:
    """Refuse an algorithm without the methods, a wrong reward model, and unavailable `keep=`."""
    validate_methods(
        label,
        algorithm,
        ["init", "choose", "learn"],
        "posse.Decentralized(posse.ThompsonSampling())",
    )
    own_family = getattr(algorithm, "family", None)
    if type(algorithm) in CONTEXTUAL.values() and not is_contextual(bandit.family):
        raise ValueError(
            f"{label} is {type(algorithm).__name__}, which needs contexts: give a "
            "posse.ContextualBandit"
        )
    if own_family is not None and is_contextual(own_family) and not is_contextual(bandit.family):
        raise ValueError(
            f"the family of {label} is {get_family_name(own_family)!r}, which needs contexts: "
            "give a "
            "posse.ContextualBandit"
        )
    # The model may be the bandit's family, or another one: misspecification is a valid experiment,
    # as long as the model accepts all rewards of the bandit.
    model: Any = resolve_model(algorithm, bandit)
    family_label = (
        f"the family of {label}" if own_family else f"the bandit's family, the model of {label},"
    )
    if isinstance(algorithm, BayesianAlgorithm):
        reads = _POLICY_NEEDS.get(type(algorithm.policy), [])
        if is_contextual(model):
            check_family(family_label, model.at_mean, reads)
            reads = []
        check_family(family_label, model, ["prior", "statistic", *reads], ["rewards"])
    elif own_family:
        check_family(family_label, model, [], ["rewards"])
    if isinstance(bandit, Dataset):
        rewards = bandit.rewards.values  # all that agents can meet, whatever its family allows
        paid = Interval(float(rewards.min()), float(rewards.max()), closed=True)
    else:
        paid = bandit.family.rewards
    if not model.rewards.covers(paid):
        raise ValueError(
            f"family {get_family_name(model)!r} learns from rewards in {model.rewards}, "
            "but the bandit's "
            f"{get_family_name(bandit.family)!r} rewards lie in {paid}"
        )
    if is_contextual(model):
        _check_contexts(label, algorithm, model, bandit, keep)
    if isinstance(bandit, Environment) and bandit.means is None:
        _check_unknown_means(label, algorithm, keep)
    if bandit.delay is not None:
        _check_delayed(label, algorithm, model, bandit, keep)
    if "messages" in keep and not callable(getattr(algorithm, "numbers_sent", None)):
        raise ValueError(
            f"keep: {label} does not count the numbers it sends: give "
            f"{type(algorithm).__name__} a method numbers_sent(state, t, links)"
        )
    ours = type(algorithm) in (*ALGORITHMS.values(), *CONTEXTUAL.values())
    without = ours and not isinstance(algorithm, BayesianAlgorithm)
    merges_all = isinstance(algorithm, Decentralized) and not isinstance(algorithm, EventTriggered)
    if "signs" in keep and not merges_all:
        raise ValueError(
            f"keep: {label} is {type(algorithm).__name__}, and signs are kept of Decentralized "
            "only, whose beliefs are tempered"
        )
    if "beliefs" in keep and without:
        raise ValueError(f"keep: {label} is {type(algorithm).__name__}, which has no beliefs")


def check_direction(label: str, algorithm: Any, network: Network) -> None:
    """Refuse a directed network for algorithms of the library that need W, or links both ways.

    A user-defined algorithm is given the column-stochastic shares of the round in place of W(t).
    """
    ours = isinstance(algorithm, (*ALGORITHMS.values(), *CONTEXTUAL.values()))
    if network.is_directed and ours and not getattr(algorithm, "accepts_directed", False):
        raise ValueError(
            f"{label} is {type(algorithm).__name__}, which needs links in both directions, and "
            f"{network.graph} is directed: use PushSum, Isolated or Centralized"
        )


def _check_contexts(
    label: str, algorithm: Any, model: Any, bandit: AnyBandit, keep: tuple[str, ...]
) -> None:
    """Refuse algorithms without contexts, and `keep=` that is undefined with contexts."""
    kind = type(algorithm).__name__
    if isinstance(algorithm, PartialPooling):
        raise ValueError(
            f"{label} is {kind}, which knows no contexts: make the site a category of the context "
            "instead, whose prior_sd says how much sites differ"
        )
    # User-defined algorithms say by their signatures whether they take contexts.
    methods = [getattr(algorithm, name) for name in ("choose", "learn")]
    if not all("contexts" in inspect.signature(method).parameters for method in methods):
        raise ValueError(
            f"{label} is {kind}, which knows no contexts: use Decentralized, Isolated, "
            "Centralized, Flooding, Tree, PushSum or EventTriggered"
        )
    if model.shared and len(getattr(bandit, "shape", ())) < 2:
        raise ValueError(
            f"the family of {label} shares one theta among all arms, whose features are not among "
            "these contexts: use shared=False"
        )
    if "signs" in keep:
        raise ValueError(
            "keep: signs are not kept with contexts: the certainty of a belief differs by context"
        )


def _check_unknown_means(label: str, algorithm: Any, keep: tuple[str, ...]) -> None:
    """Refuse what needs true means, or gaps, where there are rewards only."""
    if needing := [name for name in keep if name in ("agents", "means")]:
        raise ValueError(
            f"keep: {' and '.join(needing)} need true means, and the environment has none: give it "
            "means="
        )
    if not getattr(algorithm, "charge_initial", True):
        raise ValueError(
            f"charge_initial of {label} must be True where means are unknown: every reward counts"
        )


def _find_definer(algorithm: Any, method: str) -> Any:
    """Find the class that defines a method."""
    return next((cls for cls in type(algorithm).__mro__ if method in vars(cls)), object)


def _check_overrides(label: str, algorithm: Any, where: str) -> None:
    """Refuse a subclass that overrides learn alone: its learn_delayed would not match it."""
    if _find_definer(algorithm, "learn") not in _find_definer(algorithm, "learn_delayed").__mro__:
        raise ValueError(
            f"{label} is {type(algorithm).__name__}, which overrides learn: override "
            f"learn_delayed too, which replaces it {where}"
        )


def _check_delayed(
    label: str, algorithm: Any, model: Any, bandit: AnyBandit, keep: tuple[str, ...]
) -> None:
    """Refuse algorithms that cannot learn from delayed rewards, and undefined options.

    A pull is open until its reward arrives.
    """
    if not callable(getattr(algorithm, "learn_delayed", None)):
        raise ValueError(
            f"{label} is {type(algorithm).__name__}, which cannot learn from delayed rewards: "
            "use Decentralized, Isolated, Centralized, Flooding, Tree, PushSum or EventTriggered"
        )
    _check_overrides(label, algorithm, "where rewards are delayed")
    counts = isinstance(algorithm, TimedAlgorithm) and algorithm.open == "count"
    if counts and is_contextual(model):
        raise ValueError(
            f"open='count' of {label} is undefined with contexts, where the count of an open pull "
            "depends on its context: use open='wait'"
        )
    if counts and algorithm.open_pull_statistic(bandit.family.rewards.low, model) is None:
        raise ValueError(
            f"open='count' of {label} needs rewards with a lowest value that its model can learn "
            f"from, and those of family {get_family_name(bandit.family)!r} "
            f"lie in {bandit.family.rewards}: "
            "use open='wait'"
        )
    if "signs" in keep:
        raise ValueError("keep: signs are not kept of a delayed bandit, whose open pulls have none")
    if "messages" in keep and isinstance(algorithm, Centralized | Flooding):
        raise ValueError(
            f"keep: messages of {label} are not counted for a delayed bandit: "
            f"{type(algorithm).__name__} sends rewards when they arrive"
        )


# Algorithms that send observations, of which there are fewer where agents sleep.
SENDS_OBSERVATIONS = (
    Centralized, Flooding, PartialPooling, UCBNetwork, FollowYourLeader, ComEx, CoopSE, LinUCB,
)  # fmt: skip


def check_idle(
    label: str,
    algorithm: Any,
    activity: Activity | None,
    network: Network,
    keep: tuple[str, ...],
) -> None:
    """Refuse algorithms that are not defined where agents do not play, and undefined options."""
    if activity is None:
        return
    kind = type(algorithm).__name__
    if not getattr(algorithm, "accepts_idle", False):
        if not callable(getattr(algorithm, "learn_delayed", None)):
            raise ValueError(
                f"activity: {label} is {kind}, which is defined for agents that play in every "
                "round: your own algorithm needs the method learn_delayed, or accepts_idle = True"
            )
        _check_overrides(label, algorithm, "where agents sleep")
    if not getattr(algorithm, "charge_initial", True):
        raise ValueError(
            f"activity: charge_initial of {label} must be True where agents sleep, since not all "
            "of them play in the forced rounds"
        )
    if not activity.relays and getattr(algorithm, "needs_fixed_links", False):
        raise ValueError(
            f"activity: {label} is {kind}, which needs links that do not change: use relays=True"
        )
    if copies_beliefs(activity) and not isinstance(algorithm, Decentralized):
        raise ValueError(
            f"activity: copies is for Decentralized, and {label} is {kind}, which counts every "
            "observation once: use copies=False"
        )
    if not activity.relays and network.is_directed:
        raise ValueError(
            f"activity: relays=False needs links in both directions, and {network.graph} is "
            "directed: use relays=True"
        )
    if not activity.relays and isinstance(algorithm, Tree) and isinstance(network.dynamics, Gossip):
        raise ValueError(f"activity: {label} is Tree, which cannot play under gossip")
    if "signs" in keep:
        raise ValueError("keep: signs are not kept where agents sleep: drop activity or signs")
    if "messages" in keep and isinstance(algorithm, SENDS_OBSERVATIONS):
        raise ValueError(
            f"keep: messages of {label} are not counted where agents sleep: {kind} sends "
            "observations, of which there are fewer then"
        )


def warn_short_half_life(
    algorithm: Any, network: Network, keep: tuple[str, ...], stacklevel: int
) -> None:
    """Warn that beliefs will be more certain than their evidence, which fades before it has mixed.

    Regret hardly suffers, so that only keep="beliefs" warns, and not with "signs", by which
    beliefs are calibrated.
    """
    half_life = algorithm.half_life if isinstance(algorithm, Decentralized) else None
    if (
        half_life is None
        or "beliefs" not in keep
        or "signs" in keep
        or is_user_defined(network.dynamics)
    ):
        return
    if half_life * network.spectral_gap < 1:
        warnings.warn(
            f"half_life is {half_life:g} rounds, below the mixing time of the network "
            f"(1/gap = {1 / network.spectral_gap:.3g}): intervals of these beliefs are too "
            "narrow; keep signs too, for posse.calibrate",
            stacklevel=stacklevel + 1,
        )


def warn_not_rerunnable(settings: Sequence[Mapping[str, Any]], stacklevel: int) -> None:
    """Warn before the first round, not after the last, of parts that a file cannot rebuild."""
    part_names = sorted(set(find_repr_only(list(settings)).values()))
    if part_names:
        pronoun = "it" if len(part_names) == 1 else "each"
        warnings.warn(
            f"{', '.join(part_names)} can be saved but not rerun from the file: define {pronoun} "
            "in a module, as a function or a frozen dataclass of plain fields",
            stacklevel=stacklevel + 1,
        )


def check_size(
    bandit: AnyBandit,
    network: Network,
    runs: int,
    points: int,
    keep: tuple[str, ...] = (),
    models: Sequence[Model] = (),
) -> None:
    """Refuse results that do not fit into memory, and name settings with which they would.

    models: the reward model of every algorithm; the bandit's family, once, if not given
    """
    models = models or [bandit.family]

    def count_bytes(runs: int, points: int, keep: tuple[str, ...]) -> float:
        sizes_of_results = []
        for model in models:
            sizes = axis_sizes(bandit, network, points, model)
            extra = sum(count_numbers_per_run(name, sizes, bandit) for name in keep)
            pulls = sizes["agent"] * sizes["arm"] / 2  # a count has 4 bytes, a float 8
            sizes_of_results.append(8.0 * runs * (points + pulls + extra))
        # Runs are played in blocks, and joining the blocks of one algorithm copies them.
        joined = max(sizes_of_results) if runs > 1 else 0.0
        return 8 * points + sum(sizes_of_results) + joined

    room = detect_memory() * 1e9
    needed = count_bytes(runs, points, keep)
    if needed <= room:
        return
    levers = []
    if most_runs := _find_largest(runs, lambda value: count_bytes(value, points, keep) <= room):
        levers.append(f"take at most {most_runs} runs")
    if most_points := _find_largest(points, lambda value: count_bytes(runs, value, keep) <= room):
        levers.append(f"keep fewer rounds with record={min(most_points, 1000)}")
    if keep and count_bytes(runs, points, ()) <= room:
        levers.append("keep less with keep=")
    if not levers:
        smallest = count_bytes(1, 1, ()) <= room
        levers = [
            "take fewer runs and keep fewer rounds with record="
            if smallest
            else f"take fewer than {bandit.n_arms} arms or {network.n_agents} agents"
        ]
    arrays = ", ".join(["curves", "pulls", *keep])
    raise ValueError(
        f"runs is {runs}, whose {arrays} take {format_gigabytes(needed / 1e9)} of "
        f"{format_gigabytes(room / 1e9)} of memory: {', or '.join(levers)}"
    )


def check_run(
    bandit: AnyBandit, network: Network, algorithm: Any = None, model: Any = None
) -> None:
    """Refuse a problem of which one run does not fit into memory.

    This is a lower bound, of what every engine holds at the same time: the true means, their gaps
    and the order of the arms; the contexts of a round; pulls; the beliefs (or ridge regressions)
    of an algorithm of the library.

    algorithm, model: whose beliefs count, and its reward model; None counts the problem alone
    """
    n_agents = network.n_agents
    n_arms = bandit.n_arms
    n_features = 0
    numbers = 3.0 * n_arms * (n_agents if bandit.per_agent else 1) + n_agents * n_arms / 2
    if isinstance(bandit, ContextualBandit | Dataset) and bandit.shape:
        n_features = bandit.shape[-1]
        numbers += n_agents * math.prod(bandit.shape)
    bayesian = isinstance(algorithm, BayesianAlgorithm)
    if type(algorithm) in CONTEXTUAL.values() or (
        bayesian and type(algorithm) in ALGORITHMS.values()
    ):
        contextual = is_contextual(model)
        n_beliefs = 1 if contextual and model.shared else n_arms
        # The kernels of Centralized store one belief for all agents; contexts have no kernels.
        n_believers = 1 if isinstance(algorithm, Centralized) and not contextual else n_agents
        # A merge reads the old beliefs while it writes the new ones.
        copies = 2 if isinstance(algorithm, Decentralized | PushSum) else 1
        numbers += copies * count_coordinates(model) * float(n_believers) * n_beliefs
    needed = 8 * numbers / 1e9
    room = detect_memory()
    if needed > room:
        sizes = {"agents": n_agents, "arms": n_arms, "features": n_features}
        plural_sizes = {name: size for name, size in sizes.items() if size > 1}
        listing = ", ".join(f"{size} {name}" for name, size in plural_sizes.items())
        raise ValueError(
            f"one run of {listing} takes {format_gigabytes(needed)} of {format_gigabytes(room)} of "
            f"memory: take fewer {' or '.join(plural_sizes)}"
        )


def _find_largest(below: int, fits: Callable[[int], bool]) -> int:
    """Find the largest whole number from 1 to below - 1 that fits, or 0, by bisection."""
    return bisect.bisect_left(range(1, below), True, key=lambda value: not fits(value))
