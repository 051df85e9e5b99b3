"""Data sets as bandits: a table with the reward of every arm in every row.

A classification problem is one: the reward of an arm is 1 if it is the label of the row, else 0.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posse import notebook_tables, validation
from posse.families import Bernoulli, Logistic, Model, get_family_name, is_contextual
from posse.randomness import FloatArray, Randomness


@dataclass(frozen=True, repr=False)
class Dataset:
    """Rows with features and the reward of every arm; in every round each agent draws a row.

    contexts: features of the rows, (rows, d), or with a row for each arm (rows, K, d); None for a
              table without features. `posse.families.Linear` and `Logistic` take the first feature
              for the intercept: let it be 1.
    rewards:  the reward of every arm, (rows, K)
    shards:   the site of every row, (rows,): numbers or names. Agent i draws from the rows of the
              i-th site in sorted order, so that the network has as many agents as there are sites.
              None: all agents draw from all rows.
    family:   the reward model of the agents, with its prior: `Linear` or `Logistic` with contexts,
              else such as `Bernoulli` or `Gaussian`. None, where all rewards are 0 or 1: `Logistic`
              with the mean reward of the table as its rate, or `Bernoulli`.
    name:     a name for files; 'module:function' names a function that returns the data set, so
              that experiment files and results can be played again

    Rows are drawn with replacement. Regret is against the best arm of the row. Arms are played in
    the order of the columns, in every run: an algorithm that breaks ties by position is not found
    out.

    >>> labels = np.array([0, 2, 1, 2])
    >>> features = np.column_stack([np.ones(4), [0.1, 0.9, 0.4, 0.8]])
    >>> posse.bandits.Dataset(features, rewards=np.eye(3)[labels], name="four rows")
    Dataset('four rows', 4 rows, 3 arms, 2 features, digest '7cf787677e1a')
    """

    contexts: Any
    rewards: Any
    shards: Any = None
    family: Any = field(default=None, kw_only=True)
    name: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        rewards = _freeze_table("rewards", self.rewards, (2,), "(rows, K)")
        if rewards.values.shape[1] < 2:
            raise ValueError(f"rewards must be of at least 2 arms, got {rewards.values.shape[1]}")
        n_rows, n_arms = rewards.values.shape
        contexts = self.contexts
        if contexts is not None:
            contexts = _freeze_table("contexts", contexts, (2, 3), "(rows, d) or (rows, K, d)")
            shape = contexts.values.shape
            if shape[0] != n_rows or (len(shape) == 3 and shape[1] != n_arms):
                raise ValueError(
                    f"contexts must be of the {n_rows} rows and {n_arms} arms of the rewards, got "
                    f"shape {shape}"
                )
        if not isinstance(self.name, str) or not self.name.isprintable():
            raise ValueError(f"name must be printable text, got {self.name!r}")
        fields = {"contexts": contexts, "rewards": rewards, "shards": self._freeze_shards(n_rows)}
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "family", self._validate_family())

    def _freeze_shards(self, n_rows: int) -> validation.FrozenArray | None:
        if self.shards is None or isinstance(self.shards, validation.FrozenArray):
            return self.shards
        labels = np.asarray(self.shards)
        if labels.dtype == object:  # as pandas stores text
            labels = labels.astype(str)
        missing = labels.dtype.kind == "f" and not np.isfinite(labels).all()
        if labels.shape != (n_rows,) or labels.dtype.kind not in "biufU" or missing:
            raise ValueError(
                f"shards must be the site of each of the {n_rows} rows, numbers or names, got "
                f"{validation.format_value(self.shards)}"
            )
        return validation.FrozenArray(labels)

    def _validate_family(self) -> Model:
        """Return the reward model, with the number of features of the contexts."""
        family = self.family
        rewards = self.rewards.values
        if family is None:
            if not np.isin(rewards, (0.0, 1.0)).all():
                like = "Linear(sigma=...)" if self.contexts is not None else "Gaussian(sigma=...)"
                raise ValueError(
                    "family must be given where rewards are not all 0 or 1, such as "
                    f"posse.families.{like} with a prior that fits them"
                )
            family = Bernoulli()
            if self.contexts is not None:
                family = Logistic(rate=float(np.clip(rewards.mean(), 0.001, 0.999)))
        validation.validate_methods("family", family, ["statistic"], "posse.families.Bernoulli()")
        if is_contextual(family) != (self.contexts is not None):
            need = "Linear() or Logistic()" if self.contexts is not None else "Bernoulli()"
            raise ValueError(
                f"family must be such as posse.families.{need} for a data set "
                f"{'with' if self.contexts is not None else 'without'} contexts, got "
                f"{get_family_name(family)!r}"
            )
        inside = family.rewards.contains(rewards)
        if not inside.all():
            raise ValueError(
                f"rewards must lie in {family.rewards} for family {get_family_name(family)!r}, got "
                f"{float(rewards[~inside][0])!r}"
            )
        if self.contexts is None:
            model: Model = family
            return model
        if family.shared and len(self.shape) == 1:
            raise ValueError(
                "contexts must have a row for each arm, (rows, K, d), where all arms share one "
                "theta: use shared=False"
            )
        contextual: Model = family.with_features(self.shape[-1])
        return contextual

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the table: contexts, rewards and shards."""
        tables = (self.contexts, self.rewards, self.shards)
        digests = ["none" if table is None else table.digest for table in tables]
        return hashlib.sha256(" ".join(digests).encode()).hexdigest()

    @cached_property
    def sites(self) -> tuple[Any, ...]:
        """The names of the sites in the order of the agents; empty if there are no shards."""
        return () if self.shards is None else tuple(np.unique(self.shards.values).tolist())

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the context of one row: (d,), (K, d), or () without contexts."""
        return () if self.contexts is None else tuple(self.contexts.values.shape[1:])

    @property
    def n_arms(self) -> int:
        """K, the number of arms."""
        return int(self.rewards.values.shape[1])

    @property
    def per_agent(self) -> bool:
        """Whether the means differ between agents: always, since every agent draws its own rows."""
        return True

    @property
    def drift(self) -> None:
        """None: rows are drawn from the same table in all rounds."""
        return None

    @property
    def delay(self) -> Any:
        """None: rewards arrive at once."""
        return None

    @cached_property
    def _rows_by_site(self) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """The rows sorted by site, with the first place and the number of rows of each site."""
        if self.shards is None:
            n_rows = len(self.rewards.values)
            return np.arange(n_rows), np.zeros(1, dtype=np.intp), np.array([n_rows])
        _, site, sizes = np.unique(self.shards.values, return_inverse=True, return_counts=True)
        return np.argsort(site, kind="stable"), np.cumsum(sizes) - sizes, sizes

    def draw_rows(self, generator: Randomness, size: tuple[int, int]) -> NDArray[np.intp]:
        """Draw a row of its own site for every agent, uniformly: (R, N)."""
        order, first, sizes = self._rows_by_site
        # One uniform an agent whatever the sizes of the sites: common random numbers.
        places = first + (np.asarray(generator.random(size)) * sizes).astype(np.intp)
        return np.asarray(order[places])

    def check_runs(self, runs: int) -> None:
        """Accept any number of runs: rows are drawn in each."""

    def check_agents(self, n_agents: int) -> None:
        """Refuse a network of another number of agents than there are sites."""
        if self.shards is not None and len(self.sites) != n_agents:
            raise ValueError(
                f"shards have {len(self.sites)} sites, but the network has {n_agents} agents: "
                "each site is an agent"
            )

    def __repr__(self) -> str:
        sizes = [f"{len(self.rewards.values)} rows", f"{self.n_arms} arms"]
        if self.contexts is not None:
            sizes.append(f"{self.shape[-1]} features")
        if self.shards is not None:
            sizes.append(f"{len(self.sites)} sites")
        return f"Dataset({self.name!r}, {', '.join(sizes)}, digest {self.digest[:12]!r})"

    def _repr_html_(self) -> str:
        values = {
            "rows": len(self.rewards.values),
            "features": self.shape[-1] if self.shape else 0,
            "sites": len(self.sites) or "all rows for every agent",
            "family": self.family,
            "digest": self.digest[:12],
        }
        caption = f"Data set {self.name!r} with {self.n_arms} arms"
        return notebook_tables.render_fields(caption, values)


def _freeze_table(
    name: str, values: ArrayLike | validation.FrozenArray, ndims: tuple[int, ...], allowed: str
) -> validation.FrozenArray:
    """Validate a table of finite numbers with at least one row, in a form that compares."""
    if isinstance(values, validation.FrozenArray):
        return values
    table: FloatArray = validation.validate_array(name, values)
    if table.ndim not in ndims or not table.size:
        raise ValueError(f"{name} must have shape {allowed}, got {table.shape}")
    return validation.FrozenArray(table)
