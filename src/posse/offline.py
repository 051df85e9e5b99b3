"""Off-policy evaluation: the value of a policy nobody has tried, from a log with propensities.

A log says of every decision which arm was played, with which probability, and the reward. The
importance weight of a decision is the probability of its arm under the target policy over the
probability with which it was played. `ips`, `snips` and `doubly_robust` are the estimators; they
take plain arrays. `read_log` and `evaluate` apply them to exports of live agents.
docs/howto/offline.md says which decisions a log must leave out, and when no estimate is to be
trusted.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posse.randomness import FloatArray

SCORE = 1.959963984540054  # of a 95% interval
FOLDS = 5  # of the model of rewards: no decision is predicted from itself
# Below so many effective decisions a standard error rests on those that happened to be in the log.
FEWEST_EFFECTIVE = 100
# Propensities below this are known roughly only: P(best) is computed to within 1e-7.
SMALLEST = 1e-6
LARGEST_GAP = 0.01  # of a target's choices that the log cannot contain


@dataclass(frozen=True)
class Estimate:
    """The estimated mean reward of a policy per decision.

    value:             the estimate
    error:             its standard error
    low, high:         its 95% interval
    weight:            the mean importance weight, 1 on average; lower: the log misses choices
    effective_samples: the number of decisions by the policy itself that would be as informative
    """

    value: float
    error: float
    low: float
    high: float
    weight: float
    effective_samples: float


def ips(rewards: ArrayLike, propensities: ArrayLike, target: ArrayLike) -> Estimate:
    """Inverse propensity score: the mean of weight times reward.

    rewards:      of n decisions, (n,)
    propensities: the probability with which each arm was played, (n,)
    target:       the probability of the same arm under the policy to evaluate, (n,)

    >>> posse.offline.ips([1, 0, 1, 0], [0.5, 0.5, 0.5, 0.5], [1, 0, 0, 1]).value
    0.5
    """
    y, weight = _read_arrays(rewards, propensities, target)
    return _estimate_mean(weight * y, weight)


def snips(rewards: ArrayLike, propensities: ArrayLike, target: ArrayLike) -> Estimate:
    """Self-normalised IPS: the weighted mean of rewards; the error is that of a ratio of means.

    Its arguments are those of `ips`.

    >>> posse.offline.snips([1, 0, 1, 0], [0.5, 0.25, 0.5, 0.5], [1, 0, 0, 1]).value
    0.5
    """
    y, weight = _read_arrays(rewards, propensities, target)
    mean_weight = weight.mean()
    if mean_weight == 0.0:  # no decision of the log is one of the policy
        return Estimate(math.nan, math.nan, math.nan, math.nan, 0.0, 0.0)
    value = float((weight * y).mean() / mean_weight)
    deviations = weight * (y - value) / mean_weight
    return _build_estimate(value, _standard_error(deviations), weight)


def doubly_robust(
    rewards: ArrayLike,
    propensities: ArrayLike,
    target: ArrayLike,
    predicted: ArrayLike,
    baseline: ArrayLike,
) -> Estimate:
    """A model of rewards, corrected by the weighted residuals: right if either is right.

    predicted: the model's mean reward of the arm that was played, (n,)
    baseline:  the model's mean reward of the policy: over its arms for this decision, (n,)

    The first arguments are those of `ips`. The interval treats the model as given: predict no
    decision from itself.
    """
    y, weight = _read_arrays(rewards, propensities, target)
    model = [np.asarray(values, dtype=float) for values in (predicted, baseline)]
    for name, values in zip(("predicted", "baseline"), model, strict=True):
        if values.shape != y.shape or not np.isfinite(values).all():
            raise ValueError(f"{name} must be {len(y)} finite numbers, as rewards are")
    return _estimate_mean(model[1] + weight * (y - model[0]), weight)


def _read_arrays(
    rewards: ArrayLike, propensities: ArrayLike, target: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Return rewards and importance weights, (n,) each, or raise a ValueError."""
    y, played, wanted = (
        np.asarray(values, dtype=float) for values in (rewards, propensities, target)
    )
    if y.ndim != 1 or not len(y) or played.shape != y.shape or wanted.shape != y.shape:
        raise ValueError(
            "rewards, propensities and target must be arrays of one length, one number for each "
            f"decision, got shapes {y.shape}, {played.shape} and {wanted.shape}"
        )
    if not np.isfinite(y).all():
        raise ValueError("rewards must be finite numbers: leave out decisions without a reward")
    if not ((played > 0) & (played <= 1)).all():
        raise ValueError("propensities must be above 0 and at most 1: every arm was played")
    if not ((wanted >= 0) & (wanted <= 1)).all():
        raise ValueError("target must be probabilities, from 0 to 1")
    return y, wanted / played


def _standard_error(values: FloatArray) -> float:
    """Return the standard error of a mean, nan of a single value."""
    n = len(values)
    return float(values.std(ddof=1) / math.sqrt(n)) if n > 1 else math.nan


def _estimate_mean(values: FloatArray, weight: FloatArray) -> Estimate:
    return _build_estimate(float(values.mean()), _standard_error(values), weight)


def _build_estimate(value: float, error: float, weight: FloatArray) -> Estimate:
    squares = float((weight**2).sum())
    effective = float(weight.sum() ** 2 / squares) if squares else 0.0
    margin = SCORE * error
    return Estimate(value, error, value - margin, value + margin, float(weight.mean()), effective)


# ---- Logs of live agents


@dataclass(frozen=True)
class Log:
    """Decisions with rewards and propensities, as arrays; arms are numbered by `arms`.

    arms:          the names of all arms, sorted
    played:        the arm of each decision, (n,)
    rewards:       (n,)
    probabilities: of all arms, 0 where an arm was not allowed, (n, K)
    allowed:       whether an arm was allowed, (n, K)
    left_out:      decisions that the log has and evaluation must not use: reason -> number
    """

    arms: tuple[str, ...]
    played: NDArray[np.intp]
    rewards: FloatArray
    probabilities: FloatArray
    allowed: NDArray[np.bool_]
    left_out: Mapping[str, int]

    @property
    def propensities(self) -> FloatArray:
        """The probability with which each arm was played, (n,)."""
        return np.asarray(self.probabilities[np.arange(len(self.played)), self.played])


def read_log(
    paths: Iterable[str | Path], experiment: str | None = None, window: float | None = None
) -> Log:
    """Read exports of live agents (JSON lines, CSV or Parquet) as one log.

    experiment: its name, if the exports have several
    window: decisions younger than this many seconds are left out: among them, successes are known
    before failures. None: what the log shows of the reward window.
    """
    return build_log((row for path in paths for row in read_rows(Path(path))), experiment, window)


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the decisions of an exported file, in the form of `posse export`."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    if path.suffix == ".parquet":
        yield from _read_parquet(path)
        return
    with path.open(encoding="utf-8", newline="") as file:
        if path.suffix == ".csv":
            for row in csv.DictReader(file):
                yield {name: parse_cell(name, text) for name, text in row.items()}
            return
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError("no object")
            except ValueError as error:
                raise ValueError(
                    f"{path}, line {number} is no decision as posse export writes it: {error}"
                ) from None
            yield row


# columns that are text; all others of a CSV file are JSON, such as numbers and lists
TEXT_COLUMNS = frozenset({"experiment", "site", "id", "arm", "visitor", "state"})


def parse_cell(name: str, text: str | None) -> Any:
    """Parse a cell of an exported CSV file; an empty cell is None."""
    if text is None or text == "":
        return None
    if name in TEXT_COLUMNS:
        return text
    try:
        return json.loads(text)
    except ValueError:
        raise ValueError(
            f"column {name} must be JSON as posse export writes it, got {text!r}"
        ) from None


def _read_parquet(path: Path) -> Iterator[dict[str, Any]]:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise ValueError(
            f"{path} needs pyarrow: pip install 'posse[parquet]', or export as JSON lines"
        ) from None
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches():
                yield from batch.to_pylist()
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is no Parquet file: {error}") from None


def build_log(
    rows: Iterable[Mapping[str, Any]],
    experiment: str | None = None,
    window: float | None = None,
) -> Log:
    """Build a log from exported decisions, without those that evaluation must not use."""
    decisions = [row for row in rows if experiment is None or row.get("experiment") == experiment]
    names = sorted({str(row.get("experiment")) for row in decisions})
    if len(names) > 1:
        raise ValueError(f"the log has several experiments, choose one of: {', '.join(names)}")
    if not decisions:
        of = f" of experiment {experiment!r}" if experiment else ""
        raise ValueError(f"the log has no decisions{of}")
    usable, left_out = _choose_usable(decisions, _find_window(decisions, window))
    if not usable:
        reasons = ", ".join(f"{number} {reason}" for reason, number in left_out.items() if number)
        raise ValueError(f"the log has no decision that can be used: {reasons}")
    arms = sorted({arm for row in usable for arm in row["allowed"]})
    place = {arm: k for k, arm in enumerate(arms)}
    probabilities = np.zeros((len(usable), len(arms)))
    allowed = np.zeros((len(usable), len(arms)), dtype=bool)
    for i, row in enumerate(usable):
        columns = [place[arm] for arm in row["allowed"]]
        probabilities[i, columns] = row["probabilities"]
        probabilities[i, place[row["arm"]]] = row["probability"]
        allowed[i, columns] = True
    played = np.array([place[row["arm"]] for row in usable], dtype=np.intp)
    rewards = np.array([row["reward"] for row in usable], dtype=float)
    return Log(tuple(arms), played, rewards, probabilities, allowed, left_out)


def _find_window(decisions: Sequence[Mapping[str, Any]], window: float | None) -> float:
    """Return the reward window: as given, or at least what the log shows of it.

    That is the longest wait for a reward that did not come, or the age of the oldest decision that
    is open although its reward is known or assumed: only a window keeps such a decision open.
    """
    if window is not None:
        return window
    ends = _find_ends(decisions)
    waits = [0.0]
    for row in decisions:
        if row.get("closed") is None:
            if row.get("assumed") is not None or row.get("reward") is not None:
                waits.append(ends[row.get("site")] - row["time"])
        elif row.get("silent"):
            waits.append(row["closed"] - row["time"])
    return float(max(waits))


def _find_ends(decisions: Iterable[Mapping[str, Any]]) -> dict[Any, float]:
    """Return when the log of each site ends: the last time that it mentions.

    Sites export at different times, and a decision that one of them closed says nothing of others.
    """
    ends: dict[Any, float] = {}
    for row in decisions:
        last = max(row["time"], row.get("closed") or row["time"])
        ends[row.get("site")] = max(last, ends.get(row.get("site"), last))
    return ends


def _choose_usable(
    decisions: Sequence[Mapping[str, Any]], window: float
) -> tuple[list[Mapping[str, Any]], dict[str, int]]:
    """Return the decisions to use, and how many are left out for which reason."""
    ends = _find_ends(decisions)
    left_out = {
        f"younger than the reward window of {window:.3g} s": 0,
        "without a reward": 0,
        "superseded": 0,
        "cancelled or never shown": 0,
        "of a holdout": 0,
        "without propensities": 0,
    }
    young, unrewarded, superseded, unseen, holdout, unknown = left_out
    usable = []
    for row in decisions:
        reason = None
        if row.get("superseded"):
            reason = superseded
        elif row.get("cancelled") or row.get("inactive"):
            reason = unseen
        elif row.get("holdout"):  # the control arm, played whatever the policy
            reason = holdout
        elif row["time"] > ends[row.get("site")] - window:
            reason = young
        elif row.get("reward") is None:
            reason = unrewarded
        elif not row.get("allowed") or not row.get("probability"):
            reason = unknown
        if reason is None:
            usable.append(row)
        else:
            left_out[reason] += 1
    return usable, left_out


# ---- Policies to evaluate, and the table


@dataclass(frozen=True)
class Evaluation:
    """What a log says of a policy: three estimates, and why they may be wrong."""

    policy: str
    estimates: Mapping[str, Estimate]  # IPS, SNIPS, doubly robust
    uncovered: float  # the share of the policy's choices that the log cannot contain
    warnings: tuple[str, ...]


def evaluate(log: Log, policy: str) -> Evaluation:
    """Evaluate a policy by its name: "greedy", "uniform", or "arm=NAME".

    greedy:   the arm with the highest mean reward among those allowed, learnt from the other folds
    uniform:  every allowed arm alike
    arm=NAME: this arm, and where it was not allowed every allowed arm alike

    The model of the doubly robust estimate is the mean reward of each arm in the other folds.
    """
    fold = np.arange(len(log.played)) % FOLDS
    model = _fit_means(log, fold)  # (n, K)
    target = _target_probabilities(log, policy, model)
    rows = np.arange(len(log.played))
    wanted = target[rows, log.played]
    estimates = {
        "IPS": ips(log.rewards, log.propensities, wanted),
        "SNIPS": snips(log.rewards, log.propensities, wanted),
        "doubly robust": doubly_robust(
            log.rewards,
            log.propensities,
            wanted,
            model[rows, log.played],
            (target * model).sum(axis=1),
        ),
    }
    uncovered = float((target * (log.probabilities < SMALLEST)).sum(axis=1).mean())
    return Evaluation(
        policy, estimates, uncovered, _find_warnings(log, target, estimates["IPS"], uncovered)
    )


def evaluate_logged(log: Log) -> Estimate:
    """Estimate the mean reward of the policy that made the log."""
    return ips(log.rewards, log.propensities, log.propensities)


def _fit_means(log: Log, fold: NDArray[np.intp]) -> FloatArray:
    """Return each arm's mean reward in the other folds, (n, K); without one, that of all arms."""
    n_arms = len(log.arms)
    counts = np.zeros((FOLDS, n_arms))
    totals = np.zeros((FOLDS, n_arms))
    np.add.at(counts, (fold, log.played), 1.0)
    np.add.at(totals, (fold, log.played), log.rewards)
    counts = counts.sum(axis=0) - counts
    totals = totals.sum(axis=0) - totals
    overall = log.rewards.mean()
    means = np.divide(totals, counts, out=np.full_like(totals, overall), where=counts > 0)
    return np.asarray(means[fold])


def _target_probabilities(log: Log, policy: str, model: FloatArray) -> FloatArray:
    """Return the probability of every arm under a policy, (n, K)."""
    even = log.allowed / log.allowed.sum(axis=1, keepdims=True)
    kind, _, arm = policy.partition("=")
    if policy == "uniform":
        return np.asarray(even)
    if policy == "greedy":
        best = np.where(log.allowed, model, -np.inf)
        tied = best == best.max(axis=1, keepdims=True)
        return np.asarray(tied / tied.sum(axis=1, keepdims=True))
    if kind == "arm" and arm:
        if arm not in log.arms:
            raise ValueError(f"the log has no arm {arm!r}: it has {', '.join(log.arms)}")
        k = log.arms.index(arm)
        only = np.zeros_like(even)
        only[:, k] = 1.0
        return np.asarray(np.where(log.allowed[:, [k]], only, even))
    raise ValueError(f"policy must be greedy, uniform or arm=NAME, got {policy!r}")


def _find_warnings(
    log: Log, target: FloatArray, estimate: Estimate, uncovered: float
) -> tuple[str, ...]:
    """Say where the log does not know the value of a policy."""
    warnings = []
    unplayed = [
        log.arms[k] for k in np.flatnonzero(target.sum(axis=0) > 0) if not (log.played == k).any()
    ]
    if unplayed:
        warnings.append(f"the log has no decision for {', '.join(unplayed)}")
    if uncovered > LARGEST_GAP:
        warnings.append(
            f"{uncovered:.0%} of this policy's choices had a probability below one in a million: "
            "the log cannot know their rewards; set min_share"
        )
    elif estimate.effective_samples < FEWEST_EFFECTIVE:
        warnings.append(
            f"the log is worth only {estimate.effective_samples:.0f} decisions of this policy: do "
            "not trust the interval; set min_share"
        )
    elif abs(estimate.weight - 1.0) > 0.2:
        warnings.append(
            f"the mean weight is {estimate.weight:.2f} and should be near 1: the log has too few "
            "or too many of this policy's choices, or its probabilities are wrong"
        )
    return tuple(warnings)
