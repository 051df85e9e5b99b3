"""The protocol of policies: a score per arm; the highest is played, ties broken at random."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from posse.families import Family, Model, get_family_name, is_contextual, require_plain_family
from posse.randomness import FloatArray, Randomness


class Policy(Protocol):
    """The paper's Bayes_MAB (Alg. 1): how an agent chooses an arm from its belief."""

    name: ClassVar[str]

    def scores(
        self,
        belief: FloatArray,
        family: Family,
        t: int,
        horizon: int | None,
        generator: Randomness,
    ) -> FloatArray:
        """Return one score per arm at round t = 1, 2, ...: belief (D, ..., K) -> (..., K)."""

    def probabilities(
        self, belief: FloatArray, family: Family, t: int, horizon: int | None
    ) -> FloatArray | None:
        """Return the propensities: the probability of choosing each arm, (D, K) -> (K,).

        None where the policy cannot compute them. Only live agents call this method: they log the
        propensity with every decision, for off-policy evaluation, and refuse a policy without it.
        A policy with a further argument `race` receives the agent's `posse.best_arm.Race`, which
        caches the probabilities of being the best from belief to belief.
        """


Method = TypeVar("Method", bound=Callable[..., Any])


def timeless(scores: Method) -> Method:
    """Mark scores that do not depend on the round, so that live agents may draw a batch at once.

    The mark belongs to the method: a subclass that overrides `scores` has to mark it again.
    """
    scores.timeless = True  # type: ignore[attr-defined]
    return scores


def share_among_ties(scores: FloatArray) -> FloatArray:
    """Return the propensities of a policy without random scores: ties share, (K,) -> (K,)."""
    tied = scores == scores.max()
    return np.asarray(tied / np.count_nonzero(tied))


def argmax(scores: FloatArray, generator: Randomness) -> NDArray[np.intp]:
    """Return the arm with the highest score, ties broken uniformly at random: (..., K) -> (...).

    Ties are never broken by position: scores start equal, and all agents would move together.
    """
    # One uniform per choice whether needed or not: a tie must not shift the stream of a run,
    # or algorithms would no longer share common random numbers.
    uniform = generator.random(scores.shape[:-1])
    first = np.asarray(scores.argmax(axis=-1))  # NaN counts as the highest
    rows = np.arange(0, scores.size, scores.shape[-1]).reshape(first.shape)
    best = scores.reshape(-1).take(rows + first)[..., None]  # take_along_axis is slower
    # argmax would return the NaN silently
    if np.isnan(best).any():
        raise ValueError("a policy gave a score that is not a number (NaN)")
    tied = scores == best
    # as many ties as choices: every best score is unique
    if np.count_nonzero(tied) == uniform.size:
        return first
    # the n-th of the tied arms, n uniform from 0 to their number - 1
    nth = np.floor(uniform * np.count_nonzero(tied, axis=-1))[..., None]
    return np.asarray((np.cumsum(tied, axis=-1) > nth).argmax(axis=-1))


def choose(
    policy: Policy,
    belief: FloatArray,
    family: Model,
    t: int,
    horizon: int | None,
    generator: Randomness,
    contexts: FloatArray | None = None,  # (..., d) or (..., K, d)
) -> NDArray[np.intp]:
    """Choose arms by a policy: belief (D, ..., K) -> (...).

    contexts: those of the choices, for a contextual family such as `posse.families.Linear`.

    >>> belief = np.array([[3.0, 1.0], [1.0, 3.0]])  # Beta(3, 1) and Beta(1, 3)
    >>> rng = np.random.default_rng(0)
    >>> int(policies.choose(posse.Greedy(), belief, posse.families.Bernoulli(), 1, None, rng))
    0
    """
    if is_contextual(family):
        if contexts is None:
            raise ValueError(f"contexts are missing: family {family.name!r} needs them")
        belief = family.at_context(belief, contexts)
        family = family.at_mean
    elif contexts is not None:
        raise ValueError(f"contexts are not for family {get_family_name(family)!r}, which has none")
    return argmax(
        policy.scores(belief, require_plain_family(family), t, horizon, generator), generator
    )
