"""What every policy supplies: a score per arm; the highest is played, ties broken at random."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from posse.families.family import (
    Family,
    Model,
    get_family_name,
    is_contextual,
    require_plain_family,
)
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
        """One score per arm at round t = 1, 2, ...: belief (D, ..., K) -> (..., K)."""

    def probabilities(
        self, belief: FloatArray, family: Family, t: int, horizon: int | None
    ) -> FloatArray | None:
        """With which probability each arm is chosen: one agent's belief (D, K) -> (K,).

        None where the policy cannot say. Only live agents ask, who log it with every decision and
        refuse a policy without it. One that has a further argument `race` is given theirs, a
        `posse.best_arm.Race`, whose chances of being the best are kept from belief to belief.
        """


Method = TypeVar("Method", bound=Callable[..., Any])


def timeless(scores: Method) -> Method:
    """Mark scores that do not depend on the round, so that live agents may draw a batch at once.

    The mark is the method's: a subclass with other scores has to say so itself.
    """
    scores.timeless = True  # type: ignore[attr-defined]
    return scores


def share_among_ties(scores: FloatArray) -> FloatArray:
    """The probabilities of a policy whose scores are not random: ties share them, (K,) -> (K,)."""
    tied = scores == scores.max()
    return np.asarray(tied / np.count_nonzero(tied))


def argmax(scores: FloatArray, generator: Randomness) -> NDArray[np.intp]:
    """The arm with the highest score, ties broken uniformly at random: (..., K) -> (...).

    Never by position: indices start equal, and all agents would move together.
    """
    # drawn whether needed or not, so that a tie in one run never shifts another run's stream
    uniform = generator.random(scores.shape[:-1])
    first = np.asarray(scores.argmax(axis=-1))  # NaN counts as the highest
    rows = np.arange(0, scores.size, scores.shape[-1]).reshape(first.shape)
    best = scores.reshape(-1).take(rows + first)[..., None]  # take_along_axis is slower
    if np.isnan(best).any():
        raise ValueError("a policy gave a score that is not a number (NaN)")
    tied = scores == best
    if np.count_nonzero(tied) == uniform.size:  # every best score is alone
        return first
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
    """The arms a policy plays: belief (D, ..., K) -> (...).

    contexts: where to read the belief of a family such as `posse.families.Linear`.

    >>> belief = np.array([[3.0, 1.0], [1.0, 3.0]])  # Beta(3, 1) and Beta(1, 3)
    >>> rng = np.random.default_rng(0)
    >>> int(policies.choose(posse.Greedy(), belief, posse.families.Bernoulli(), 1, None, rng))
    0
    """
    if is_contextual(family):
        if contexts is None:
            raise ValueError(f"contexts are needed to read a belief of family {family.name!r}")
        belief = family.at_context(belief, contexts)
        family = family.at_mean
    elif contexts is not None:
        raise ValueError(
            f"contexts are not for family {get_family_name(family)!r}, which knows none"
        )
    return argmax(
        policy.scores(belief, require_plain_family(family), t, horizon, generator), generator
    )
