"""The paper's two equations for every family: observe and merge, both linear in a belief array.

For non-stationary means there is a third linear equation, `fade`, which commutes with the merge.

A belief has shape (D, ..., K): D coordinates first, arms last, agents (and runs) between.  Its
coordinates are affine in the natural parameters of the posterior, so multiplying by a likelihood
adds a statistic, and averaging log-densities averages coordinates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from posse.families import (
    Model,
    get_family_name,
    get_optional,
    is_contextual,
    require_plain_family,
)
from posse.randomness import FloatArray


def prior(family: Model, n_agents: int | tuple[int, ...], n_arms: int) -> FloatArray:
    """Return the prior q_0 of every agent and arm: (D, N, K), or n_agents = (R, N) for runs.

    >>> beliefs.prior(posse.families.Bernoulli(alpha=1, beta=2), n_agents=2, n_arms=3).tolist()
    [[[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]], [[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]]
    """
    between = n_agents if isinstance(n_agents, tuple) else (n_agents,)
    coordinates = family.prior()  # (D,)
    shape = (len(coordinates), *between, n_arms)
    return np.broadcast_to(coordinates.reshape(-1, *[1] * (len(shape) - 1)), shape).copy()


def observe(
    belief: FloatArray,  # (D, ..., K)
    arms: NDArray[np.integer] | int,  # (...)
    rewards: FloatArray | float,  # (...)
    family: Model,
    learning_rate: float | FloatArray,  # one, or one for each agent (N,)
    contexts: FloatArray | None = None,  # (..., d) or (..., K, d)
    acted_on: FloatArray | None = None,  # (D, ..., K)
) -> FloatArray:
    """Return the tempered posterior of the arms played (eq. `posterior_update`), a new belief.

    contexts: those of the pulls, for a family such as `posse.families.Linear`.
    acted_on: the belief from which the arms were chosen, if it differs from the one to update;
              rewards are approximated at it (`posse.families.Logistic`, `StudentT`).

    >>> family = posse.families.Bernoulli()
    >>> belief = beliefs.prior(family, n_agents=2, n_arms=2)
    >>> beliefs.observe(belief, np.array([0, 1]), np.array([1.0, 0.0]), family, 1.0)[:, 0].tolist()
    [[2.0, 1.0], [1.0, 1.0]]
    """
    columns, rows = _collect_evidence(
        belief, arms, rewards, family, learning_rate, contexts, acted_on
    )
    n_coordinates = len(rows)
    updated = belief.copy()
    cells = updated.reshape(n_coordinates, -1)  # a view: (D, agents * K)
    # Every agent plays one arm, so no column repeats and `+=` with an index array is exact.
    if n_coordinates > 8:  # many coordinates, as those of contexts, are faster all at once
        cells[:, columns] += rows
    else:  # two coordinates are twice as fast one by one
        for row, added in zip(cells, rows, strict=True):
            row[columns] += added
    return updated


def _collect_evidence(
    belief: FloatArray,
    arms: NDArray[np.integer] | int,
    rewards: FloatArray | float,
    family: Model,
    learning_rate: float | FloatArray,
    contexts: FloatArray | None,
    acted_on: FloatArray | None,
) -> tuple[NDArray[np.integer], FloatArray]:
    """Return what observations add, and where: cells (agents,) of (..., K), and (D, agents)."""
    arms = np.asarray(arms)
    rewards = np.asarray(rewards, dtype=float)
    _check_observation(arms, rewards, family, belief.shape, contexts)
    believed = belief if acted_on is None else acted_on
    evidence = learning_rate * statistic(believed, arms, rewards, family, contexts)  # (D, ...)
    return _find_columns(belief, arms), evidence.reshape(len(belief), -1)


def observe_and_merge(
    belief: FloatArray,  # (D, ..., N, K)
    arms: NDArray[np.integer],  # (..., N)
    rewards: FloatArray,  # (..., N)
    family: Model,
    learning_rate: float | FloatArray,  # one, or one for each agent (N,)
    weights: Any,
    contexts: FloatArray | None = None,  # (..., N, d) or (..., N, K, d)
) -> FloatArray:
    """Return `merge(observe(...), weights)`, a round of Algorithm 1, as a new belief.

    Weights with a method `merge_evidence`, as the lab has for contexts, do both in one pass.
    """
    merge_evidence = getattr(weights, "merge_evidence", None)
    if merge_evidence is None:
        updated = observe(belief, arms, rewards, family, learning_rate, contexts)
        return merge(updated, weights)
    evidence = _collect_evidence(belief, arms, rewards, family, learning_rate, contexts, None)
    merged: FloatArray = merge_evidence(belief, *evidence)
    return merged


def statistic(
    belief: FloatArray,  # (D, ..., K)
    arms: NDArray[np.integer],  # (...)
    rewards: FloatArray,  # (...)
    family: Model,
    contexts: FloatArray | None = None,  # (..., d) or (..., K, d)
) -> FloatArray:
    """Return what rewards add to the belief about the arms played at rate 1: (D, ...)."""
    if not is_contextual(family):
        plain: Any = require_plain_family(family)
        if not get_optional(plain, "anchored"):
            return np.asarray(plain.statistic(rewards))
        return np.asarray(plain.statistic(rewards, at=_take_arms(belief, arms)[..., 0]))
    x = np.asarray(contexts, dtype=float)
    if x.ndim == belief.ndim:  # features of arms
        x = np.take_along_axis(x, arms[..., None, None], axis=-2)[..., 0, :]
    if not family.anchored:
        return family.statistic(rewards, x)
    arm_belief = _take_arms(belief, arms)
    return family.statistic(rewards, x, family.at_context(arm_belief, x)[..., 0])


def _take_arms(belief: FloatArray, arms: NDArray[np.integer]) -> FloatArray:
    """Return the beliefs about the arms played: (D, ..., K), (...) -> (D, ..., 1)."""
    # a third of the time of take_along_axis
    taken = belief.reshape(len(belief), -1).take(_find_columns(belief, arms), axis=1)
    return taken.reshape(len(belief), *arms.shape, 1)


def _find_columns(belief: FloatArray, arms: NDArray[np.integer]) -> NDArray[np.integer]:
    """Return the cell of each agent's arm in (..., K) flattened: (...) -> (agents,)."""
    index = np.ravel(get_belief_index(belief, arms))
    n_arms = belief.shape[-1]
    return np.arange(0, index.size * n_arms, n_arms) + index


def get_belief_index(belief: FloatArray, arms: NDArray[np.integer]) -> NDArray[np.integer]:
    """Return the index of the belief about each arm: the arm, or 0 for a shared theta."""
    return arms if belief.shape[-1] > 1 else np.zeros_like(arms)


def _check_observation(
    arms: NDArray[Any],
    rewards: NDArray[Any],
    family: Model,
    shape: tuple[int, ...],
    contexts: FloatArray | None,
) -> None:
    """Refuse observations that would corrupt a belief: wrong shapes, arms or rewards."""
    n_arms = shape[-1]
    if is_contextual(family):
        n_arms = _check_contexts(np.asarray(contexts), family.features, shape)
    elif contexts is not None:
        raise ValueError(f"contexts are not for family {get_family_name(family)!r}, which has none")
    if arms.shape != shape[1:-1] or rewards.shape != shape[1:-1]:
        raise ValueError(
            f"arms and rewards must have the shape {shape[1:-1]} of the agents, "
            f"got {arms.shape} and {rewards.shape}"
        )
    if arms.dtype.kind not in "iu" or (arms.size and not 0 <= arms.min() <= arms.max() < n_arms):
        raise ValueError(f"arms must be whole numbers from 0 to {n_arms - 1}")
    if not family.rewards.contains(rewards).all():
        raise ValueError(
            f"rewards must be finite numbers in {family.rewards} for family {family.name!r}"
        )


def _check_contexts(contexts: NDArray[Any], features: int, shape: tuple[int, ...]) -> int:
    """Refuse contexts that are not finite numbers of the right shape; return the number of arms."""
    between = shape[1:-1]
    of_arms = contexts.shape[:-2] == between and contexts.ndim == len(shape)
    n_arms = contexts.shape[-2] if of_arms else shape[-1]
    if (
        contexts.dtype.kind not in "iuf"
        or contexts.shape not in ((*between, features), (*between, n_arms, features))
        or shape[-1] not in (1, n_arms)
        or not np.isfinite(contexts).all()
    ):
        raise ValueError(
            f"contexts must be finite numbers of shape {(*between, features)}, or with one row for "
            f"each arm, got {contexts.dtype} of shape {contexts.shape}"
        )
    return n_arms


def fade(belief: FloatArray, family: Model, factor: float) -> FloatArray:
    """Return a new belief with the evidence discounted by this factor, toward the prior.

    prior + factor (belief - prior): linear, so agents may fade before they merge or after. A
    half-life of H rounds is a factor of 2^(-1/H) every round; 1 is the belief itself, to the bit.

    >>> belief = np.array([[[9.0, 1.0]], [[5.0, 1.0]]])  # alpha and beta of two arms
    >>> beliefs.fade(belief, posse.families.Bernoulli(alpha=1, beta=1), 0.5).tolist()
    [[[5.0, 1.0]], [[3.0, 1.0]]]
    """
    if factor == 1.0:
        return belief
    start = family.prior().reshape(-1, *[1] * (belief.ndim - 1))
    return np.asarray(start + factor * (belief - start))


def merge(belief: FloatArray, weights: Any) -> FloatArray:
    """Pool log-linearly with the neighbours (eq. `merge_posteriors`): weights @ belief.

    belief: (D, ..., N, K); weights: (N, N) as an array, a SciPy sparse matrix, or the operator that
    a network's sampler returns.

    >>> belief = np.array([[[4.0, 1.0], [2.0, 3.0]]])  # one coordinate, two agents, two arms
    >>> beliefs.merge(belief, np.full((2, 2), 0.5)).tolist()
    [[[3.0, 2.0], [3.0, 2.0]]]
    """
    from posse.networks import as_operator

    merged: FloatArray = as_operator(weights) @ belief
    return merged
