"""Parts of the user's tried out before a comparison, so that nobody's runs are lost by them."""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from posse import algorithms, policies, validation
from posse.algorithms import (
    ALGORITHMS,
    CONTEXTUAL,
    Centralized,
    Decentralized,
    Flooding,
    PartialPooling,
)
from posse.algorithms.bayesian import BayesianAlgorithm, Timed
from posse.bandits import DELAYS, DRIFTS, AnyBandit, ContextualBandit, UniformMeans
from posse.families import CONTEXTUAL as CONTEXTUAL_FAMILIES
from posse.families import FAMILIES, Grid
from posse.families.family import check_family, get_family_name, is_contextual
from posse.lab.reference import engine as reference
from posse.lab.simulation import Simulation, model_of
from posse.networks.dynamics import is_user_defined
from posse.networks.network import Network
from posse.policies import POLICIES
from posse.randomness import create_generator
from posse.serialization.encode import find_repr_only

ROUNDS = 2  # the second plays with a state that `learn` gave


def rehearse(label: str, simulation: Simulation, runs: range) -> None:
    """Play the first rounds of up to two runs, and forget them; for what is not all ours.

    What a part does wrong is then said before the first round of any algorithm. Runs draw from
    streams of their own, so that nothing is used up.
    """
    if not _has_own_parts(simulation):
        return
    rounds = min(ROUNDS, simulation.horizon)
    short = dataclasses.replace(simulation, times=np.arange(1, rounds + 1))
    try:
        reference.simulate_block(short, runs, lambda steps: None, rounds)
    except ValueError:
        raise  # a sentence already
    except (Exception, SystemExit) as error:  # whatever a user's part may raise
        raise ValueError(
            f"{label} failed in its first {rounds} rounds: {type(error).__name__}: {error}"
        ) from error


def _has_own_parts(simulation: Simulation) -> bool:
    s = simulation
    policy: Any = getattr(s.algorithm, "policy", None)
    ours = (
        type(s.algorithm) in (*ALGORITHMS.values(), *algorithms.CONTEXTUAL.values())
        and (policy is None or type(policy) in POLICIES.values())
        and all(_is_our_family(family) for family in (s.bandit.family, s.model))
    )
    own_delay = s.bandit.delay is not None and type(s.bandit.delay) not in DELAYS.values()
    own_drift = s.bandit.drift is not None and type(s.bandit.drift) not in DRIFTS.values()
    return not ours or own_delay or own_drift or is_user_defined(s.network.dynamics)


def _is_our_family(family: Any) -> bool:
    ours = (*FAMILIES.values(), *CONTEXTUAL_FAMILIES.values())
    return type(family) in ours and not isinstance(family, Grid)  # of functions


# The parts of a simulation at the door: accepted, or refused before the first round.
#
# Nothing need be registered: whatever has the methods will do.

# What a policy reads beliefs by; one of the user's may read them by anything.
_READS = {
    policies.ThompsonSampling: ["sample_mean"],
    policies.BayesUCB: ["mean_quantile"],
    policies.Greedy: ["posterior_mean"],
    policies.TopTwo: ["sample_mean", "posterior_mean"],
    policies.RandUCB: ["mean_quantile"],
}


def check_problem(bandit: Any, network: Any) -> None:
    """Refuse what is not a bandit or a network, and rewards that nobody can draw."""
    if not isinstance(bandit, AnyBandit):
        raise ValueError(f"bandit must be a posse.Bandit, got {bandit!r}")
    if not isinstance(network, Network):
        raise ValueError(
            f"network must be a network such as posse.networks.cycle(10), got {network!r}"
        )
    bandit.check_agents(network.n_agents)
    drawn = bandit.family.at_mean if is_contextual(bandit.family) else bandit.family
    check_family("the bandit's family", drawn, ["draw_rewards"], ["means", "rewards"])


def check_means(bandit: AnyBandit, seed: int, runs: range) -> None:
    """Draw the means of all runs by a function of the user's: it may fail, or change K, in any."""
    if isinstance(bandit, ContextualBandit):
        return
    function = bandit.means_of_arms
    if not callable(function) or isinstance(function, UniformMeans):
        return
    once, again = (
        bandit.means_of_run(runs[0], create_generator(seed, runs[0], "means")) for _ in "12"
    )
    if not np.array_equal(once, again):
        raise ValueError(
            f"means: {validation.format_value(function)} "
            "must draw from the generator it is given and "
            "nothing else: a run must have the same means whenever it is played"
        )
    for run in runs:
        drawn = bandit.means_of_run(run, create_generator(seed, run, "means"))
        if drawn.shape != once.shape:
            agents = f"{len(once)} agents and " if once.ndim == 2 else ""
            raise ValueError(
                f"means: every run must have {agents}{once.shape[-1]} arms, as the first draw had"
            )


def check_algorithm(label: str, algorithm: Any, bandit: AnyBandit, keep: tuple[str, ...]) -> None:
    """Refuse what is no algorithm, a model that it cannot learn by, and what it cannot tell."""
    validation.validate_methods(
        label,
        algorithm,
        ["init", "choose", "learn"],
        "posse.Decentralized(posse.ThompsonSampling())",
    )
    own = getattr(algorithm, "family", None)
    if type(algorithm) in CONTEXTUAL.values() and not isinstance(bandit, ContextualBandit):
        raise ValueError(
            f"{label} is {type(algorithm).__name__}, which needs contexts: give a "
            "posse.ContextualBandit"
        )
    if own is not None and is_contextual(own) and not isinstance(bandit, ContextualBandit):
        raise ValueError(
            f"the family of {label} is {get_family_name(own)!r}, which needs contexts: give a "
            "posse.ContextualBandit"
        )
    model: Any = model_of(algorithm, bandit)
    who = f"the family of {label}" if own else f"the bandit's family, the model of {label},"
    if isinstance(algorithm, BayesianAlgorithm):
        reads = _READS.get(type(algorithm.policy), [])
        if is_contextual(model):
            check_family(who, model.at_mean, reads)
            reads = []
        check_family(who, model, ["prior", "statistic", *reads], ["rewards"])
    elif own:
        check_family(who, model, [], ["rewards"])
    if not model.rewards.covers(bandit.family.rewards):
        raise ValueError(
            f"family {get_family_name(model)!r} learns from rewards in {model.rewards}, "
            "but the bandit's "
            f"{get_family_name(bandit.family)!r} rewards lie in {bandit.family.rewards}"
        )
    if is_contextual(model):
        _check_contexts(label, algorithm, model, bandit, keep)
    if bandit.delay is not None:
        _check_late(label, algorithm, model, bandit, keep)
    if "messages" in keep and not callable(getattr(algorithm, "numbers_sent", None)):
        raise ValueError(
            f"keep: {label} does not say how many numbers it sends: give "
            f"{type(algorithm).__name__} a method numbers_sent(state, t, links)"
        )
    ours = type(algorithm) in (*ALGORITHMS.values(), *CONTEXTUAL.values())
    without = ours and not isinstance(algorithm, BayesianAlgorithm)
    if "signs" in keep and not isinstance(algorithm, Decentralized):
        raise ValueError(
            f"keep: {label} is {type(algorithm).__name__}, and signs are kept of Decentralized "
            "only, whose beliefs are tempered"
        )
    if "beliefs" in keep and without:
        raise ValueError(f"keep: {label} is {type(algorithm).__name__}, which has no beliefs")


def _check_contexts(
    label: str, algorithm: Any, model: Any, bandit: AnyBandit, keep: tuple[str, ...]
) -> None:
    """Refuse who cannot see contexts, and what is not known of beliefs with them."""
    kind = type(algorithm).__name__
    if isinstance(algorithm, PartialPooling):
        raise ValueError(
            f"{label} is {kind}, which knows no contexts: make the site a category of the context "
            "instead, whose prior_sd says how much sites differ"
        )
    methods = [getattr(algorithm, name) for name in ("choose", "learn")]
    if not all("contexts" in inspect.signature(method).parameters for method in methods):
        raise ValueError(
            f"{label} is {kind}, which knows no contexts: use Decentralized, Isolated, "
            "Centralized, Flooding or Tree"
        )
    if model.shared and len(getattr(bandit, "shape", ())) < 2:
        raise ValueError(
            f"the family of {label} shares one theta among all arms, whose features are not among "
            "these contexts: use shared=False"
        )
    if "signs" in keep:
        raise ValueError(
            "keep: signs are not kept with contexts: how sure evidence makes differs by context"
        )


def _definer(algorithm: Any, method: str) -> Any:
    """The class that a method comes from."""
    return next((cls for cls in type(algorithm).__mro__ if method in vars(cls)), object)


def _check_late(
    label: str, algorithm: Any, model: Any, bandit: AnyBandit, keep: tuple[str, ...]
) -> None:
    """Refuse who cannot hear late rewards, and what is not known of those that are open."""
    if not callable(getattr(algorithm, "hear", None)):
        raise ValueError(
            f"{label} is {type(algorithm).__name__}, which cannot hear late rewards: delayed "
            "bandits are for Decentralized, Isolated, Centralized and Flooding"
        )
    if _definer(algorithm, "learn") not in _definer(algorithm, "hear").__mro__:
        raise ValueError(
            f"{label} is {type(algorithm).__name__}, which has a learn of its own: give it hear "
            "too, which takes its place where rewards come late"
        )
    counts = isinstance(algorithm, Timed) and algorithm.open == "count"
    if counts and is_contextual(model):
        raise ValueError(
            f"open='count' of {label} is not known with contexts, where what an open pull counts "
            "as depends on its visit: use open='wait'"
        )
    if counts and algorithm.assumed(bandit.family.rewards.low, model) is None:
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
            f"{type(algorithm).__name__} tells of rewards when they come"
        )


def warn_of_short_memory(
    algorithm: Any, network: Network, keep: tuple[str, ...], stacklevel: int
) -> None:
    """Say that beliefs will be surer than their evidence: it fades before it has mixed.

    Regret hardly suffers, so only who keeps beliefs is told, and not who calibrates them.
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


def warn_of_what_cannot_be_rerun(settings: Sequence[Mapping[str, Any]], stacklevel: int) -> None:
    """Say before the first round, not after the last, what a file will only show."""
    shown = sorted(set(find_repr_only(list(settings)).values()))
    if shown:
        it = "it" if len(shown) == 1 else "each"
        warnings.warn(
            f"{', '.join(shown)} can be saved but not rerun from the file: define {it} in a "
            "module, as a function or a frozen dataclass of plain fields",
            stacklevel=stacklevel + 1,
        )
