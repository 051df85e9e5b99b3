"""Contextual bandits: the mean of an arm depends on features of the visit or of the arm.

The module has the bandit itself, a distribution of arm features (`UnitFeatures`) and one of true
weights (`NormalWeights`). Schemas of visitor features are `posse.contexts.Contexts`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from posse import notebook_tables, rules, validation
from posse.bandits.delays import Delay, check_delay, resolve_delay
from posse.contexts import Contexts
from posse.families import ContextualFamily, is_contextual
from posse.randomness import FloatArray, Randomness


@dataclass(frozen=True)
class UnitFeatures:
    """Arm features: for each arm and visit a random direction of length 1.

    n_arms:   K
    features: d
    """

    n_arms: int
    features: int

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "n_arms", validation.validate_integer("n_arms", self.n_arms, at_least=2)
        )
        object.__setattr__(
            self, "features", validation.validate_integer("features", self.features, at_least=1)
        )

    def __call__(self, generator: Randomness, size: tuple[int, ...]) -> FloatArray:
        """Draw the features of all arms at some visits: (R, N) -> (R, N, K, d)."""
        drawn = np.asarray(generator.standard_normal((*size, self.n_arms, self.features)))
        return np.asarray(drawn / np.sqrt((drawn**2).sum(axis=-1, keepdims=True)))


# Distributions of contexts by their names in files, beside the schema of `posse.Contexts`; a
# user-defined one is 'module:function'.
CONTEXTS: dict[str, Any] = {"unit": UnitFeatures}

# True weights of features: random in each run, or given.


@dataclass(frozen=True)
class NormalWeights:
    """True weights of features, drawn N(0, sd^2) for each arm and feature in each run.

    n_arms:       K, the number of arms, also where all arms share one theta
    sd:           the standard deviation of every weight
    intercept:    the mean of the first weight (0 for all others), such as the log-odds of a rate
    intercept_sd: the standard deviation of the first weight; None: sd
    """

    n_arms: int
    sd: float = 1.0
    intercept: float = 0.0
    intercept_sd: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "n_arms", validation.validate_integer("n_arms", self.n_arms, at_least=2)
        )
        object.__setattr__(self, "sd", validation.validate_number("sd", self.sd, at_least=0))
        validation.validate_number("intercept", self.intercept)
        if self.intercept_sd is not None:
            validation.validate_number("intercept_sd", self.intercept_sd, at_least=0)

    def __call__(self, generator: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
        """Draw the weights once, a row for each arm: (rows, d)."""
        theta = generator.standard_normal(shape) * self.sd
        if self.intercept_sd is not None and self.sd > 0:
            theta[:, 0] *= self.intercept_sd / self.sd
        theta[:, 0] += self.intercept
        return theta


# Distributions of true weights by their names in files.
WEIGHTS: dict[str, Any] = {"normal": NormalWeights}

# The bandit.


@dataclass(frozen=True)
class ContextualBandit:
    """K arms whose means are linear in features of the visit (through the family's link).

    family:   `posse.families.Linear` or `Logistic`, with the prior of the agents
    contexts: `posse.Contexts`; `posse.bandits.UnitFeatures` for features of arms; or a function of
              a generator and a size (runs, agents) that returns (runs, agents, d), or with a row
              for each arm (runs, agents, K, d). Every agent gets a new context in every round.
    theta:    true weights: `posse.bandits.NormalWeights`, an array (K, d), or (runs, K, d); one row
              if all arms of the family share one theta
    delay:    when rewards arrive, as in `posse.Bandit`

    Regret is against the best arm for the context of the agent. An algorithm with a plain
    `family=` ignores contexts.

    >>> bandit = posse.ContextualBandit(
    ...     posse.families.Linear(sigma=1.0, prior_sd=0.3),
    ...     contexts=posse.Contexts({"country": ["de", "fr", "it"], "basket": (0, 500)}),
    ...     theta=posse.NormalWeights(n_arms=5, sd=0.3),
    ... )
    >>> bandit.n_arms, bandit.family.features
    (5, 5)
    """

    family: ContextualFamily
    contexts: Any
    theta: Any
    delay: Any = None

    def __post_init__(self) -> None:
        if not is_contextual(self.family) or isinstance(self.family, type):
            raise ValueError(
                "family must be one with contexts such as posse.families.Linear(), "
                f"got {validation.format_value(self.family)}"
            )
        if isinstance(self.contexts, dict):
            object.__setattr__(self, "contexts", Contexts(self.contexts))
        if rules.find_rules(self):  # their values are checked when they are known
            if not isinstance(self.theta, NormalWeights | validation.FrozenArray):
                object.__setattr__(self, "theta", validation.FrozenArray(np.atleast_2d(self.theta)))
            return
        object.__setattr__(self, "family", self.family.with_features(self.shape[-1]))
        if self.family.shared and len(self.shape) == 1:
            raise ValueError(
                "contexts must have a row for each arm, (runs, agents, K, d), where all arms share "
                "one theta: use posse.bandits.UnitFeatures, or shared=False"
            )
        object.__setattr__(self, "theta", self._validate_theta(self.theta))
        if len(self.shape) == 2 and self.shape[0] != self.n_arms:
            raise ValueError(
                f"contexts have features of {self.shape[0]} arms, but theta is of {self.n_arms}"
            )
        if self.delay is not None:
            check_delay(self.delay)

    def _repr_html_(self) -> str:
        values = {"family": self.family, "contexts": self.contexts, "theta": self.theta}
        delay = {} if self.delay is None else {"delay": self.delay}
        caption = f"Bandit with {self.n_arms} arms and contexts"
        return notebook_tables.render_fields(caption, values | delay)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of the context of one visit: (d,), or (K, d) if arms have features."""
        if not callable(self.contexts) or isinstance(self.contexts, type):
            raise ValueError(
                "contexts must be posse.Contexts({...}), or a function of a generator and a size "
                f"(runs, agents), got {validation.format_value(self.contexts)}"
            )
        # Known without a draw, which may be large.
        if type(self.contexts) is UnitFeatures:
            return (self.contexts.n_arms, self.contexts.features)
        # Two agents, so that a function that ignores the size is found out.
        size = (1, 2)
        try:
            drawn = self.contexts(np.random.default_rng(0), size)
            shape = np.asarray(drawn, dtype=float).shape
        except Exception as error:  # user code may raise anything
            raise ValueError(
                f"contexts: {self.contexts!r} failed when it drew contexts: {error}"
            ) from error
        if len(shape) not in (3, 4) or shape[:2] != size or 0 in shape:
            raise ValueError(
                f"contexts {validation.format_value(self.contexts)} "
                "must give numbers in shape (1, 2, d), or "
                f"with a row for each arm (1, 2, K, d), for size {size} (runs, agents), got {shape}"
            )
        return shape[2:]

    def draw_contexts(self, generator: Randomness, size: tuple[int, int]) -> FloatArray:
        """Draw the contexts of a round: (R, N) -> (R, N, d), or (R, N, K, d).

        The output of a user-defined function is validated in every round.
        """
        x = np.asarray(self.contexts(generator, size), dtype=float)
        if isinstance(self.contexts, Contexts) or type(self.contexts) in CONTEXTS.values():
            return x
        if x.shape != (*size, *self.shape) or not np.isfinite(x).all():
            raise ValueError(
                f"contexts {validation.format_value(self.contexts)} "
                "must give finite numbers in shape "
                f"{(*size, *self.shape)}, as they did at first, got {validation.format_value(x)}"
            )
        return x

    def _validate_theta(self, theta: Any) -> Any:
        """Return weights of the family's shape, in a form that compares and hashes."""
        if isinstance(theta, NormalWeights):
            return theta
        raw_theta = theta.values if isinstance(theta, validation.FrozenArray) else theta
        values = np.atleast_2d(validation.validate_array("theta", raw_theta, -1e30, 1e30))
        rows, features = values.shape[-2:]
        if values.ndim > 3 or features != self.family.features or not values.size:
            raise ValueError(
                f"theta must be weights of {self.family.features} features for each arm, (K, d) or "
                f"(runs, K, d), got shape {values.shape}"
            )
        if self.family.shared and rows != 1:
            raise ValueError(f"theta must be one row where all arms share it, got {rows} rows")
        if not self.family.shared and rows < 2:
            raise ValueError(f"theta must be of at least 2 arms, got shape {values.shape}")
        return validation.FrozenArray(values)

    def delayed(
        self, delay: Delay | None = None, *, mean: float | None = None, never: float = 0.0
    ) -> ContextualBandit:
        """Return the same bandit with delayed rewards, as `Bandit.delayed`."""
        return dataclasses.replace(self, delay=resolve_delay(delay, mean, never))

    @property
    def n_arms(self) -> int:
        """K, the number of arms."""
        if isinstance(self.theta, NormalWeights):
            return self.theta.n_arms
        return self.shape[0] if self.family.shared else int(self.theta.values.shape[-2])

    @property
    def per_agent(self) -> bool:
        """Whether the means differ between agents: always, since every agent has its own visits."""
        return True

    @property
    def drift(self) -> None:
        """None: the weights are stationary."""
        return None

    @property
    def gaps(self) -> FloatArray:
        """Refused: the gaps depend on the context."""
        raise ValueError("gaps differ from visit to visit: the means of this bandit have contexts")

    def theta_of_run(self, run: int, generator: np.random.Generator) -> FloatArray:
        """Return the true weights of one run, a row for each arm (one row if shared): (K, d)."""
        if isinstance(self.theta, NormalWeights):
            rows = 1 if self.family.shared else self.n_arms
            return self.theta(generator, (rows, self.family.features))
        values = self.theta.values
        return np.asarray(values if values.ndim == 2 else values[run])

    def means(self, contexts: FloatArray, theta: FloatArray) -> FloatArray:
        """Return the mean of each arm: (R, N, d) or (R, N, K, d), (R, K, d) -> (R, N, K)."""
        x = contexts if contexts.ndim == 4 else contexts[:, :, None, :]
        weights = theta[:, None]
        # Feature by feature: a matrix product would round differently in blocks of another size,
        # and a run must have the same digits in every block.
        predictor = x[..., 0] * weights[..., 0]
        for j in range(1, x.shape[-1]):
            predictor = predictor + x[..., j] * weights[..., j]
        return self.family.inverse_link(predictor)

    def check_runs(self, runs: int) -> None:
        """Refuse more runs than there are weights for."""
        if isinstance(self.theta, NormalWeights) or self.theta.values.ndim == 2:
            return
        if runs > len(self.theta.values):
            raise ValueError(
                f"runs is {runs}, but theta is given for {len(self.theta.values)} runs only"
            )

    def check_agents(self, n_agents: int) -> None:
        """Accept any number of agents: contexts are drawn for all of them."""
