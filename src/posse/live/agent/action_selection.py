"""Action selection: the policy's probabilities, the shares, and an arm drawn by the result.

Shares are two rules, applied in this order: new arms get at most one share together, and no arm
gets less than a least share. The probabilities after both rules are those drawn from and those
recorded, so that logged propensities are exact for off-policy evaluation.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from posse import best_arm, validation
from posse.best_arm import Race
from posse.divergences import kl_bernoulli
from posse.families import Family, Gaussian
from posse.live.agent.evidence import PROBES
from posse.live.agent.posterior import ArmSubset, Posteriors
from posse.live.agent.rendezvous_hashing import VisitorHash
from posse.policies import BayesUCB, Greedy, Policy, ThompsonSampling, TopTwo, Uniform, argmax
from posse.randomness import FloatArray, Randomness


@dataclass(frozen=True)
class Shares:
    """The least share of every arm and the largest total share of new arms.

    min_share: the least probability of an arm; 0 is none. new_arm_share: the largest total
    probability of arms with fewer than new_arm_pulls closed decisions while there are other arms;
    None is no limit.
    """

    min_share: float = 0.0
    new_arm_share: float | None = None
    new_arm_pulls: int = 100

    def __post_init__(self) -> None:
        validation.validate_number("min_share", self.min_share, at_least=0, at_most=1)
        if self.new_arm_share is not None:
            validation.validate_number("new_arm_share", self.new_arm_share, above=0, at_most=1)
        validation.validate_integer("new_arm_pulls", self.new_arm_pulls, at_least=1)

    def check_arm_count(self, n_arms: int) -> None:
        """Refuse a least share that this number of arms cannot all have."""
        if self.min_share * n_arms > 1 + 1e-9:  # 0.1 of ten arms may round to more
            raise ValueError(
                f"min_share must be at most 1/{n_arms} for {n_arms} arms, which cannot all have "
                f"{self.min_share}"
            )

    def find_new_arms(
        self, closed: Sequence[float], places: NDArray[np.intp] | None = None
    ) -> NDArray[np.bool_] | None:
        """Return a mask of the new arms at these places; None if the cap is idle."""
        if self.new_arm_share is None or min(closed) >= self.new_arm_pulls:
            return None
        new = np.asarray(closed) < self.new_arm_pulls
        new = new if places is None else new[places]
        return new if new.any() and not new.all() else None

    def mix_probabilities(
        self,
        probabilities: FloatArray,
        new: NDArray[np.bool_] | None,
        established: Callable[[], FloatArray],
    ) -> FloatArray:
        """Apply both rules to the policy's probabilities, (K,) -> (K,).

        new: mask of the new arms. established: computes the policy's probabilities if there were
        only the other arms, (S,). Returns the same array if neither rule changes anything.
        """
        if new is not None and self.new_arm_share is not None:
            together = probabilities[new].sum()
            if together > self.new_arm_share:
                probabilities = cap_new_arms(probabilities, new, self.new_arm_share, established())
        return (
            mix_with_uniform(probabilities, self.min_share) if self.min_share > 0 else probabilities
        )


def cap_new_arms(
    probabilities: FloatArray, new: NDArray[np.bool_], share: float, established: FloatArray
) -> FloatArray:
    """Give new arms this share together, in the policy's proportions: (K,) -> (K,).

    The other arms get the rest as the policy would choose between them alone, established (S,):
    their probabilities beside new arms may be too small to tell one from another, or zero.
    """
    result = np.empty_like(probabilities)
    result[new] = share * (probabilities[new] / probabilities[new].sum())
    result[~new] = (1.0 - share) * established
    return result


def mix_with_uniform(probabilities: FloatArray, least: float) -> FloatArray:
    """Mix with a uniform choice so that every arm has at least `least`: (K,) -> (K,)."""
    n_arms = len(probabilities)
    if n_arms * least >= 1.0:
        return np.full(n_arms, 1.0 / n_arms)
    return (1.0 - n_arms * least) * probabilities + least


def draw_arms(probabilities: FloatArray, count: int, generator: Randomness) -> list[int]:
    """Draw this number of arms by their probabilities, never an arm of probability 0."""
    up_to = np.cumsum(probabilities)
    # A uniform number below 1 times the sum stays below the sum, however it is rounded, so that
    # the index is always in range and an arm of probability 0 is never drawn.
    below = generator.random((count,)) * up_to[-1]
    return np.searchsorted(up_to, below, side="right").tolist()  # type: ignore[no-any-return]


# ---- Choosing by a policy and shares

# The trial of a policy's honesty: number of choices, round, and probability of a false alarm.
HONESTY_TRIES = 300
HONESTY_ROUND = 10
HONESTY_ERROR = 1e-9
# Tests show that these are honest for all families: a trial would only take milliseconds.
HONEST_POLICIES = ThompsonSampling, BayesUCB, Greedy, TopTwo, Uniform
MOST_RACING_ARMS = 10  # arms up to which they race at many contexts at once; more take longer so
GAUSSIAN = Gaussian()  # of log-odds, too: a race does not mind a monotone map


class Choice(NamedTuple):
    """A chosen arm, its propensity, and the propensities of all allowed arms."""

    arm: str
    probability: float
    allowed: tuple[str, ...]
    probabilities: FloatArray  # of those allowed, in their order; many choices may share it


class Chooser:
    """Chooses arms by a policy and shares; it draws from exactly the probabilities it reports."""

    def __init__(
        self,
        policy: Policy,
        family: Family,
        horizon: int | None,
        shares: Shares,
        visitor_hash: VisitorHash,
    ) -> None:
        validation.validate_methods("policy", policy, ["scores"], "posse.ThompsonSampling()")
        self.policy = policy
        self.family = family
        self.horizon = horizon
        self.shares = shares
        self._visitor_hash = visitor_hash
        self.timeless = getattr(policy.scores, "timeless", False)
        self._uses_race = _takes_race(policy)

    def choose_arms(
        self,
        beliefs: Posteriors,
        subset: ArmSubset,
        t: int,
        visitors: Sequence[str | None],
        generator: np.random.Generator,
    ) -> list[Choice]:
        """Choose for each visitor (None: unknown) at round t between the arms of a subset.

        It draws from the probabilities: the highest of random scores has the same law, and costs
        more.
        """
        return self._choose_by(
            self.probabilities(beliefs, subset, t), subset.names, visitors, generator
        )

    def choose_arms_at(
        self,
        beliefs: Posteriors,
        subset: ArmSubset,
        x: FloatArray,
        t: int,
        visitors: Sequence[str | None],
        generator: Randomness,
    ) -> list[Choice]:
        """Choose for visitors at their contexts, (B, d), the first of them at round t."""
        choices = []
        rows = self.probabilities_at(beliefs, subset, x, t)
        for probabilities, visitor in zip(rows, visitors, strict=True):
            choices += self._choose_by(probabilities, subset.names, [visitor], generator)
        return choices

    def _choose_by(
        self,
        probabilities: FloatArray,
        names: tuple[str, ...],
        visitors: Sequence[str | None],
        generator: Randomness,
    ) -> list[Choice]:
        """Choose by the probabilities of arms: for a visitor by hash, otherwise at random."""
        chances = probabilities.tolist()
        drawn = iter(draw_arms(probabilities, visitors.count(None), generator))
        arms = [
            next(drawn)
            if visitor is None
            else self._visitor_hash.choose_arm(visitor, names, chances)
            for visitor in visitors
        ]
        return [Choice(names[arm], chances[arm], names, probabilities) for arm in arms]

    def choose_all_at(
        self,
        beliefs: Posteriors,
        subsets: Sequence[ArmSubset],
        x: Sequence[FloatArray],
        t: int,
        visitors: Sequence[str | None],
        generator: Randomness,
    ) -> list[Choice]:
        """Choose between each of some subsets at its context, equal subsets in one batch."""
        places_by_subset: dict[ArmSubset, list[int]] = {}
        for place, subset in enumerate(subsets):
            places_by_subset.setdefault(subset, []).append(place)
        choices = {}
        for subset, places in places_by_subset.items():
            rows = np.array([x[place] for place in places])
            asking = [visitors[place] for place in places]
            choices[subset] = iter(self.choose_arms_at(beliefs, subset, rows, t, asking, generator))
            t += len(places)
        return [next(choices[subset]) for subset in subsets]

    def probabilities(self, beliefs: Posteriors, subset: ArmSubset, t: int) -> FloatArray:
        """Return the probability of each arm of a subset at round t."""
        if len(subset.names) == 1:
            return np.ones(1)
        policy_probabilities = self._policy_probabilities(subset.belief, t, subset.race)
        return self._apply_shares(
            beliefs,
            subset,
            policy_probabilities,
            partial(self._probabilities_between, beliefs, subset, t),
        )

    def probabilities_at(
        self, beliefs: Posteriors, subset: ArmSubset, x: FloatArray, t: int
    ) -> list[FloatArray]:
        """Return the probabilities at each of some contexts, (B, d), from round t on."""
        if len(subset.names) == 1:
            return [np.ones(1)] * len(x)
        at = beliefs.belief_at(x)  # (2, B, K)
        at = at if subset.places is None else at[:, :, subset.places]
        probabilities = []
        for row, race in enumerate(self._races_at(at)):
            belief = at[:, row]
            now = t + row
            between = partial(self._probabilities_between_at, belief, now)
            probabilities.append(
                self._apply_shares(
                    beliefs, subset, self._policy_probabilities(belief, now, race), between
                )
            )
        return probabilities

    def _races_at(self, at: FloatArray) -> list[Any]:
        """Return for each of some beliefs, (2, B, K), a function that gives P(best) of its arms."""
        if not self._uses_race or at.shape[2] > MOST_RACING_ARMS:
            return [Race(GAUSSIAN)] * at.shape[1]
        chances = best_arm.gaussian_probability_best(at[0] / at[1], np.sqrt(1.0 / at[1]))
        return [lambda _, row=row: row for row in chances]

    def _apply_shares(
        self,
        beliefs: Posteriors,
        subset: ArmSubset,
        policy_probabilities: FloatArray,
        between: Callable[[list[int]], FloatArray],
    ) -> FloatArray:
        """Apply the shares to the policy's probabilities; the same array if nothing changes.

        between: computes the policy's probabilities between some arms, given by places.
        """
        new = self.shares.find_new_arms(beliefs.closed, subset.places)
        if new is None and self.shares.min_share == 0:
            return policy_probabilities
        return self.shares.mix_probabilities(
            policy_probabilities, new, lambda: between(_established_arms(new))
        )

    def _probabilities_between_at(self, belief: FloatArray, t: int, arms: list[int]) -> FloatArray:
        """Return the policy's probabilities at a context if there were only these arms."""
        few = belief[:, arms]
        return self._policy_probabilities(few, t, Race(GAUSSIAN)) if len(arms) > 1 else np.ones(1)

    def _probabilities_between(
        self, beliefs: Posteriors, subset: ArmSubset, t: int, arms: list[int]
    ) -> FloatArray:
        """Return the policy's probabilities if there were only these arms of a subset."""
        names = [subset.names[k] for k in arms]
        if len(names) == 1:
            return np.ones(1)
        key = tuple(names)
        few = beliefs.find_subset(key) or beliefs.add_subset(key, names)
        return self._policy_probabilities(few.belief, t, few.race)

    def _policy_probabilities(self, belief: FloatArray, t: int, race: Race) -> FloatArray:
        """Return the policy's probability of each arm; `check_policy` has made sure it has them."""
        return np.asarray(self._call_policy(belief, t, race), dtype=float)

    def _call_policy(self, belief: FloatArray, t: int, race: Race) -> FloatArray | None:
        say: Any = getattr(self.policy, "probabilities", None)
        if self._uses_race:
            say = partial(say, race=race)
        return say(belief, self.family, t, self.horizon) if callable(say) else None

    def check_policy(self, n_arms: int, contexts: bool = False) -> None:
        """Refuse a policy without probabilities, or whose scores follow other probabilities.

        contexts: there the trial would need beliefs at contexts, and is left out.
        """
        self._checked_probabilities(np.repeat(self.family.prior()[:, None], n_arms, axis=1), 1)
        if type(self.policy) not in HONEST_POLICIES and not contexts:
            self.check_honesty()

    def _checked_probabilities(self, belief: FloatArray, t: int) -> FloatArray:
        """Return the policy's probabilities of the arms, validated."""
        answer = self._call_policy(belief, t, Race(self.family))
        n_arms = belief.shape[1]
        policy = validation.format_value(self.policy)
        if answer is None:
            raise ValueError(
                f"policy {policy} cannot decide for a live agent, which logs the propensity of "
                "every choice: give it a method probabilities(belief, family, t, horizon)"
            )
        values = np.asarray(answer)
        if not (
            values.shape == (n_arms,)
            and np.issubdtype(values.dtype, np.number)
            and np.all(values >= 0)
            and abs(values.sum() - 1.0) < 1e-6
        ):
            raise ValueError(
                f"policy {policy} must return one probability for each of the {n_arms} arms, "
                f"with sum 1, got {validation.format_value(answer)}"
            )
        return values

    def check_honesty(self) -> None:
        """Refuse a policy whose scores do not choose by the probabilities that it reports.

        An agent draws from the probabilities, the lab from the scores: both must be one policy. By
        Chernoff's bound an honest policy is refused with probability below `HONESTY_ERROR`;
        the random numbers of the trial are fixed, so the outcome is the same every time.
        """
        rewards = [y for y in PROBES if self.family.rewards.contains(np.array(y))][:3]
        if len(rewards) < 2:  # then arms cannot be told apart
            return
        belief = self.family.prior()[:, None] + self.family.statistic(np.array(rewards))
        stated = self._checked_probabilities(belief, HONESTY_ROUND)
        generator = np.random.default_rng(0)
        counts = np.zeros(len(stated))
        for _ in range(HONESTY_TRIES):
            scores = self.policy.scores(belief, self.family, HONESTY_ROUND, self.horizon, generator)
            counts[argmax(scores, generator)] += 1
        surprise = HONESTY_TRIES * kl_bernoulli(counts / HONESTY_TRIES, np.minimum(stated, 1.0))
        if (surprise > np.log(2 * len(stated) / HONESTY_ERROR)).any():
            raise ValueError(
                f"policy {validation.format_value(self.policy)} "
                "must choose by the probabilities that it "
                f"reports: it reported {validation.format_value(stated.round(3).tolist())}, "
                f"and of "
                f"{HONESTY_TRIES} choices these fell on each arm: "
                f"{validation.format_value(counts.astype(int).tolist())}"
            )


def _established_arms(new: NDArray[np.bool_] | None) -> list[int]:
    return [] if new is None else np.flatnonzero(~new).tolist()


def _takes_race(policy: Policy) -> bool:
    """Whether the policy's probabilities can use a cached race."""
    try:
        return "race" in inspect.signature(policy.probabilities).parameters
    except (AttributeError, TypeError, ValueError):  # it has none, or none that Python can read
        return False
