"""Shares: what an agent makes of its policy's probabilities before it draws an arm.

Two rules, one after the other: arms that are new get no more than a share together, and no arm
gets less than a share. What they give is what is drawn from and what is recorded.
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
from posse.families.family import Family
from posse.families.gaussian import Gaussian
from posse.live.agent.evidence import PROBES
from posse.live.agent.posterior import Beliefs, Subset
from posse.policies import BayesUCB, Greedy, ThompsonSampling, TopTwo
from posse.policies.policy import Policy, argmax
from posse.randomness import FloatArray, Randomness


@dataclass(frozen=True)
class Shares:
    """The least share of every arm, and the most that new arms get together.

    min_share: the least probability of an arm; 0 is none. new_arm_share: the most that arms of
    fewer than new_arm_pulls closed decisions get together while there are others; None is no
    limit.
    """

    min_share: float = 0.0
    new_arm_share: float | None = None
    new_arm_pulls: int = 100

    def __post_init__(self) -> None:
        validation.validate_number("min_share", self.min_share, at_least=0, at_most=1)
        if self.new_arm_share is not None:
            validation.validate_number("new_arm_share", self.new_arm_share, above=0, at_most=1)
        validation.validate_integer("new_arm_pulls", self.new_arm_pulls, at_least=1)

    def check(self, n_arms: int) -> None:
        """Refuse a least share that so many arms cannot all have."""
        if self.min_share * n_arms > 1 + 1e-9:  # 0.1 of ten arms may round to more
            raise ValueError(
                f"min_share must be at most 1/{n_arms} for {n_arms} arms, which cannot all have "
                f"{self.min_share}"
            )

    def new(
        self, closed: Sequence[float], places: NDArray[np.intp] | None = None
    ) -> NDArray[np.bool_] | None:
        """Which arms at these places the cap may act on, by closed decisions; None if on none."""
        if self.new_arm_share is None or min(closed) >= self.new_arm_pulls:
            return None
        new = np.asarray(closed) < self.new_arm_pulls
        new = new if places is None else new[places]
        return new if new.any() and not new.all() else None

    def mixed(
        self,
        probabilities: FloatArray,
        new: NDArray[np.bool_] | None,
        settled: Callable[[], FloatArray],
    ) -> FloatArray:
        """The probabilities of a choice from those of the policy, (K,) -> (K,).

        new: which arms are; settled: how the policy would choose if there were only the others,
        (S,). The same array where neither rule changes anything.
        """
        if new is not None and self.new_arm_share is not None:
            together = probabilities[new].sum()
            if together > self.new_arm_share:
                probabilities = capped(probabilities, new, self.new_arm_share, settled())
        return floored(probabilities, self.min_share) if self.min_share > 0 else probabilities


def capped(
    probabilities: FloatArray, new: NDArray[np.bool_], share: float, settled: FloatArray
) -> FloatArray:
    """The new arms together at this share, in the policy's proportions: (K,) -> (K,).

    The others get the rest as the policy would choose between them alone, settled (S,): what it
    says of them beside new arms may be too little to tell one from another, or nothing.
    """
    result = np.empty_like(probabilities)
    result[new] = share * (probabilities[new] / probabilities[new].sum())
    result[~new] = (1.0 - share) * settled
    return result


def floored(probabilities: FloatArray, least: float) -> FloatArray:
    """Mixed with a uniform choice so that every arm has the least, at most 1/K: (K,) -> (K,)."""
    n_arms = len(probabilities)
    if n_arms * least >= 1.0:
        return np.full(n_arms, 1.0 / n_arms)
    return (1.0 - n_arms * least) * probabilities + least


def draw(probabilities: FloatArray, count: int, generator: Randomness) -> list[int]:
    """So many arms drawn by their probabilities, never one of probability 0."""
    up_to = np.cumsum(probabilities)
    # a uniform below 1 times the sum is below the sum, however it is rounded
    below = generator.random((count,)) * up_to[-1]
    return np.searchsorted(up_to, below, side="right").tolist()  # type: ignore[no-any-return]


# How an agent chooses: its policy's probabilities, its shares, and an arm drawn by them.

# choices by which a policy is tried, in which round
TRIES = 300
TIME = 10
ERROR = 1e-9
# as tests show for all families: to try them again takes milliseconds
HONEST = ThompsonSampling, BayesUCB, Greedy, TopTwo
FEW = 10  # arms up to which they race at many contexts at once; more take longer so
GAUSSIAN = Gaussian()  # of log-odds, too: a race does not mind a monotone map


class Choice(NamedTuple):
    """An arm, the probability with which it was chosen, and those of all that were allowed."""

    arm: str
    probability: float
    allowed: tuple[str, ...]
    probabilities: FloatArray  # of those allowed, in their order; many choices may share it


class Chooser:
    """Chooses by a policy and shares; what it says of probabilities is what it draws by."""

    def __init__(self, policy: Policy, family: Family, horizon: int | None, shares: Shares) -> None:
        validation.validate_methods("policy", policy, ["scores"], "posse.ThompsonSampling()")
        self.policy = policy
        self.family = family
        self.horizon = horizon
        self.shares = shares
        self.timeless = getattr(policy.scores, "timeless", False)
        self._races = _takes_race(policy)

    def choose(
        self, beliefs: Beliefs, subset: Subset, t: int, count: int, generator: np.random.Generator
    ) -> list[Choice]:
        """So many choices at round t between the arms of a subset."""
        if len(subset.names) == 1:
            return [Choice(subset.names[0], 1.0, subset.names, np.ones(1))] * count
        belief = subset.belief
        said = self._said(belief, t, subset.race)
        between = partial(self._between, beliefs, subset, t)
        probabilities = self._mixed(beliefs, subset, said, between)
        if probabilities is said:
            if count > 1:
                belief = np.broadcast_to(belief[:, None], (len(belief), count, len(said)))
            scores = self.policy.scores(belief, self.family, t, self.horizon, generator)
            arms = argmax(scores, generator).reshape(-1).tolist()
        else:
            arms = draw(probabilities, count, generator)
        names = subset.names
        chances = probabilities.tolist()
        choices = []
        for arm in arms:
            if chances[arm] <= 0.0:  # less than can be told, but who evaluates divides by it
                (arm,) = draw(probabilities, 1, generator)
            choices.append(Choice(names[arm], chances[arm], names, probabilities))
        return choices

    def choose_at(
        self, beliefs: Beliefs, subset: Subset, x: FloatArray, t: int, generator: Randomness
    ) -> list[Choice]:
        """A choice at each of some contexts, (B, d), the first of them at round t.

        By the probabilities themselves: those of samples would be the same, and cost more.
        """
        names = subset.names
        choices = []
        for probabilities in self.probabilities_at(beliefs, subset, x, t):
            (arm,) = draw(probabilities, 1, generator)
            choices.append(Choice(names[arm], float(probabilities[arm]), names, probabilities))
        return choices

    def choose_all_at(
        self,
        beliefs: Beliefs,
        subsets: Sequence[Subset],
        x: Sequence[FloatArray],
        t: int,
        generator: Randomness,
    ) -> list[Choice]:
        """A choice between each of some subsets at its context; those of the same arms at once."""
        together: dict[Subset, list[FloatArray]] = {}
        for subset, each in zip(subsets, x, strict=True):
            together.setdefault(subset, []).append(each)
        made = {}
        for subset, asked in together.items():
            made[subset] = iter(self.choose_at(beliefs, subset, np.array(asked), t, generator))
            t += len(asked)
        return [next(made[subset]) for subset in subsets]

    def probabilities(self, beliefs: Beliefs, subset: Subset, t: int) -> FloatArray:
        """With which probability each arm of a subset would be chosen at round t."""
        if len(subset.names) == 1:
            return np.ones(1)
        said = self._said(subset.belief, t, subset.race)
        return self._mixed(beliefs, subset, said, partial(self._between, beliefs, subset, t))

    def probabilities_at(
        self, beliefs: Beliefs, subset: Subset, x: FloatArray, t: int
    ) -> list[FloatArray]:
        """The same at each of some contexts, (B, d), the first of them at round t."""
        if len(subset.names) == 1:
            return [np.ones(1)] * len(x)
        at = beliefs.at(x)  # (2, B, K)
        at = at if subset.places is None else at[:, :, subset.places]
        found = []
        for row, race in enumerate(self._races_at(at)):
            belief = at[:, row]
            now = t + row
            between = partial(self._between_at, belief, now)
            found.append(self._mixed(beliefs, subset, self._said(belief, now, race), between))
        return found

    def _races_at(self, at: FloatArray) -> list[Any]:
        """For each of some beliefs (2, B, K) what says of its arms which is the best."""
        if not self._races or at.shape[2] > FEW:
            return [Race(GAUSSIAN)] * at.shape[1]
        found = best_arm.gaussian_probability_best(at[0] / at[1], np.sqrt(1.0 / at[1]))
        return [lambda _, row=row: row for row in found]

    def _mixed(
        self,
        beliefs: Beliefs,
        subset: Subset,
        said: FloatArray,
        between: Callable[[list[int]], FloatArray],
    ) -> FloatArray:
        """What the shares make of the policy's probabilities; the same array if nothing.

        between: how it would choose if there were only some of the arms, by their places.
        """
        new = self.shares.new(beliefs.closed, subset.places)
        if new is None and self.shares.min_share == 0:
            return said
        return self.shares.mixed(said, new, lambda: between(_others(new)))

    def _between_at(self, belief: FloatArray, t: int, others: list[int]) -> FloatArray:
        """How the policy would choose at a context if there were only these arms."""
        few = belief[:, others]
        return self._said(few, t, Race(GAUSSIAN)) if len(others) > 1 else np.ones(1)

    def _between(self, beliefs: Beliefs, subset: Subset, t: int, others: list[int]) -> FloatArray:
        """How the policy would choose if there were only these arms of a subset."""
        names = [subset.names[k] for k in others]
        if len(names) == 1:
            return np.ones(1)
        key = tuple(names)
        few = beliefs.of(key) or beliefs.add(key, names)
        return self._said(few.belief, t, few.race)

    def _said(self, belief: FloatArray, t: int, race: Race) -> FloatArray:
        """With which probability the policy chooses each arm; it says them, as was checked."""
        return np.asarray(self._ask(belief, t, race), dtype=float)

    def _ask(self, belief: FloatArray, t: int, race: Race) -> FloatArray | None:
        say: Any = getattr(self.policy, "probabilities", None)
        if self._races:
            say = partial(say, race=race)
        return say(belief, self.family, t, self.horizon) if callable(say) else None

    def check(self, n_arms: int, contexts: bool = False) -> None:
        """Refuse a policy whose decisions could not be logged with their probabilities.

        contexts: at these it is held to what it says, see `choose_at`.
        """
        self._checked(np.repeat(self.family.prior()[:, None], n_arms, axis=1), 1)
        if type(self.policy) not in HONEST and not contexts:
            self.check_honesty()

    def _checked(self, belief: FloatArray, t: int) -> FloatArray:
        """What the policy says of the arms, each of them with a probability."""
        said = self._ask(belief, t, Race(self.family))
        n_arms = belief.shape[1]
        policy = validation.format_value(self.policy)
        if said is None:
            raise ValueError(
                f"policy {policy} cannot decide for a live agent, which logs the probability of "
                "every choice: its method probabilities(belief, family, t, horizon) must give them"
            )
        values = np.asarray(said)
        if not (
            values.shape == (n_arms,)
            and np.issubdtype(values.dtype, np.number)
            and np.all(values >= 0)
            and abs(values.sum() - 1.0) < 1e-6
        ):
            raise ValueError(
                f"policy {policy} must say one probability for each of the {n_arms} arms, "
                f"1 in sum, got {validation.format_value(said)}"
            )
        return values

    def check_honesty(self) -> None:
        """Refuse a policy that does not choose as it says, about arms of one reward each.

        By Chernoff's bound an honest one is refused with a probability below `ERROR`; what it is
        tried by is the same each time.
        """
        rewards = [y for y in PROBES if self.family.rewards.contains(np.array(y))][:3]
        if len(rewards) < 2:  # then arms cannot be told apart
            return
        belief = self.family.prior()[:, None] + self.family.statistic(np.array(rewards))
        said = self._checked(belief, TIME)
        generator = np.random.default_rng(0)
        counts = np.zeros(len(said))
        for _ in range(TRIES):
            scores = self.policy.scores(belief, self.family, TIME, self.horizon, generator)
            counts[argmax(scores, generator)] += 1
        surprise = TRIES * kl_bernoulli(counts / TRIES, np.minimum(said, 1.0))
        if (surprise > np.log(2 * len(said) / ERROR)).any():
            raise ValueError(
                f"policy {validation.format_value(self.policy)} "
                "must choose with the probabilities that it "
                f"says: it said {validation.format_value(said.round(3).tolist())}, "
                f"and of {TRIES} choices "
                f"these fell on each arm: {validation.format_value(counts.astype(int).tolist())}"
            )


def _others(new: NDArray[np.bool_] | None) -> list[int]:
    return [] if new is None else np.flatnonzero(~new).tolist()


def _takes_race(policy: Policy) -> bool:
    """Whether its probabilities can make use of a race that is kept."""
    try:
        return "race" in inspect.signature(policy.probabilities).parameters
    except (AttributeError, TypeError, ValueError):  # it has none, or none that Python can read
        return False
