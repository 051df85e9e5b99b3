"""Anytime-valid stopping: a winner that is false in at most a given share of experiments.

The verdict rests on confidence sequences. For an arm with evidence e (the sum that its rewards
added to the prior) and a candidate mean x, let l(x) = ln of the average over c of
density(c statistic(x); x) / density(c statistic(x) + e; x). This is a likelihood ratio: rewards of
a mean drawn around x, with the spread of c pulls at x, against rewards of x. At the true mean
exp(l) is a martingale that starts at 1, however arms were chosen and whenever one looks, so the
probability that it ever exceeds 1/delta is at most delta (Ville): exp(l) is an e-value. Arm a beats
b if every pair of means with a no better than b is that unlikely: the least l_a(u) + l_b(v) over
u <= v. (Prior-posterior ratios: Waudby-Smith and Ramdas, NeurIPS 2020; mixtures: Robbins 1970.)

It needs only `statistic` and `log_density`, for every family with a conjugate belief.
docs/stopping.md states what the verdict guarantees, and what it does not.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from posse import best_arm, rules, validation
from posse.families import Family, get_family_name, get_optional, is_contextual
from posse.randomness import FloatArray

STRENGTHS = np.array([10.0, 100.0, 1000.0, 10000.0])  # pulls c of the mixture
# Points of the grid of candidate means: about, and at most (for many arms).
POINTS = 500
MOST_POINTS = 1500
AT_ONCE = 64  # arms per block, to bound the memory
# A minimum on the grid is refined in rounds, each on a grid so many times finer.
ROUNDS = 8
FINER = 16
LEAST_PULLS = 100  # of every arm, before one can be good enough, or a winner be forecast
MOST_GROWTH = 1000.0  # times the pulls so far: a winner that is farther away is not forecast

Kind = Literal["winner", "no-difference", "good-enough", "keep-going"]


@dataclass(frozen=True)
class Verdict:
    """Whether an experiment may stop, and why, in numbers and in a sentence."""

    verdict: Kind
    arm: int  # the winner, the arm that is good enough, or the leader
    evidence: float | None  # that it is the best, in nats; None if there can be no winner
    needed: float | None  # the evidence needed for a winner, and for no difference
    expected_loss: float  # E[mean of the best arm - mean of this arm], over the prior
    sentence: str
    probability_best: float | None = None  # that this arm is the best, over the prior


def verdict(
    family: Family,
    belief: FloatArray,
    error: float = 0.05,
    tolerance: float | str | None = None,
    *,
    names: Sequence[str] | None = None,
    arms_ever: int | None = None,
    where: str = "",
) -> Verdict:
    """Judge whether a belief (D, K) has a winner; valid however often one looks.

    The belief must be the prior and the evidence of every pull **once, at learning rate 1**: that
    of an isolated agent (`Isolated`), of all agents (`Centralized`, `Flooding`), or the evidence of
    a live agent. The belief of a decentralized agent from `keep=("beliefs",)` is tempered, and with
    a half-life it is discounted: no verdict is valid for these (evidence that counts twice is
    enough to produce false winners).

    The verdict of one belief has no memory. If it is called repeatedly, the first "winner" or
    "no-difference" is valid for ever (Ville's inequality), whatever a later call returns: store it.

    error: the probability that a false winner, or a false "no difference", is ever declared.
    tolerance: a difference of means that does not matter, as a number or relative to the mean of
    the leader ("10%"): "no-difference" if all arms are that close, with the same error;
    "good-enough" if the probability that an arm loses more is at most half the error, and every arm
    has 100 pulls, which is Bayesian: right on average over the prior. names: those of the arms.
    arms_ever: the number of arms that the experiment ever had, if larger. where: a word such as
    "here" for the sentence, if the evidence is of one place.

    >>> belief = np.array([[231.0, 106.0, 91.0], [3771.0, 2896.0, 2911.0]])  # Beta(1, 1) prior
    >>> found = posse.verdict(posse.families.Bernoulli(), belief)
    >>> found.verdict, found.arm, round(found.evidence, 1), round(found.needed, 1)
    ('winner', 0, 5.1, 3.7)
    """
    validation.validate_number("error", error, above=0, below=1)
    if is_contextual(family):
        raise ValueError("verdict does not support contexts: see expected_loss instead")
    rules.refuse_rules("family", family)
    validate_tolerance(tolerance, family)
    if reason := explain_no_verdict(family):
        raise ValueError(f"family {get_family_name(family)!r} can have no verdict: {reason}")
    evidence = _subtract_prior(family, belief)
    n_arms = belief.shape[-1]
    ever = validation.validate_integer("arms_ever", arms_ever or n_arms, at_least=n_arms)
    # Union bound: a false winner is one of the ever - 1 other arms, and it beats the best arm.
    needed = math.log(max(1, ever - 1) / error)
    pulls, means = _count_pulls(family, evidence)
    evidence = np.where(pulls > 0, evidence, 0.0)  # rounding in a very strong prior
    leader = int(np.argmax(np.where(pulls > 0, means, -np.inf)))
    (chances, loss) = best_arm.evaluate_arms(family, belief)
    difference = _Difference.at_mean(tolerance, float(means[leader]))
    sentences = _Sentences(names, n_arms, where, family)
    superiority = compute_superiority(family, evidence, leader)
    least = max(0.0, float(np.delete(superiority, leader).min())) if n_arms > 1 else 0.0
    kind: Kind = "keep-going"
    if n_arms > 1 and least >= needed:
        kind = "winner"
        sentence = sentences.describe_winner(leader, error)
    elif difference and n_arms > 1 and _are_all_within(family, evidence, difference.size, needed):
        kind = "no-difference"
        sentence = sentences.describe_no_difference(leader, error, difference)
    elif difference and (enough := _find_good_arm(family, belief, pulls, difference, error)):
        kind = "good-enough"
        (leader, within) = enough
        sentence = sentences.describe_good_enough(leader, chances[leader], within, difference)
    else:
        sentence = sentences.describe_leader(leader, least, needed)
    return Verdict(
        kind, leader, least, needed, float(loss[leader]), sentence, float(chances[leader])
    )


def judge_by_loss(
    family: Family,
    belief: FloatArray,
    pulls: FloatArray,  # (K,)
    error: float,
    tolerance: float | str | None,
    names: Sequence[str] | None = None,
) -> Verdict:
    """Judge whether an arm is good enough by the belief alone, without a winner."""
    (chances, loss) = best_arm.evaluate_arms(family, belief)
    arm = int(loss.argmin())
    difference = _Difference.at_mean(tolerance, float(family.posterior_mean(belief)[arm]))
    sentences = _Sentences(names, belief.shape[-1], "", family)
    kind: Kind = "keep-going"
    sentence = f"keep going: {sentences.describe_loss(arm, loss[arm])}"
    if difference and (enough := _find_good_arm(family, belief, pulls, difference, error)):
        kind = "good-enough"
        (arm, within) = enough
        sentence = sentences.describe_good_enough(arm, chances[arm], within, difference)
    return Verdict(kind, arm, None, None, float(loss[arm]), sentence, float(chances[arm]))


def validate_tolerance(tolerance: float | str | None, family: Family) -> None:
    """Refuse a tolerance that is neither a difference of means nor a share of one, such as 10%."""
    if tolerance is None:
        return
    if isinstance(tolerance, str):
        parse_share(tolerance)
        if family.means.low < 0:
            raise ValueError(
                f"tolerance {tolerance!r} is relative to a mean, which needs rewards that are not "
                "negative: give a number"
            )
        return
    width = family.means.high - family.means.low
    validation.validate_number("tolerance", tolerance, above=0, below=width)


def parse_share(tolerance: str, name: str = "tolerance") -> float:
    """Return the share that a relative tolerance such as "10%" names: 0.1; name: for errors."""
    try:
        share = float(tolerance.removesuffix("%")) / 100 if tolerance.endswith("%") else math.nan
    except ValueError:
        share = math.nan
    if not 0 < share < 1:
        raise ValueError(
            f"{name} must be a number above 0, or a share of the mean such as '10%', got "
            f"{tolerance!r}"
        )
    return share


@dataclass(frozen=True)
class Range:
    """A forecast: the likely number, and bounds that are one standard error away."""

    least: float
    likely: float
    most: float | None  # None: no bound can be told


def forecast_pulls(family: Family, belief: FloatArray, needed: float, leader: int) -> Range | None:
    """Forecast how many more pulls of all arms together a winner takes; None if it is too early.

    It supposes that the arms are pulled in the proportions so far, and that their means are those
    observed: then the evidence grows in a way that can be computed. The bounds suppose that the
    leader is nearer to every other arm, or farther from it, by one standard error.
    """
    (pulls, means) = _count_pulls(family, _subtract_prior(family, belief))
    if len(means) < 2 or pulls.min() < LEAST_PULLS:
        return None
    spread = _standard_errors(family, belief)
    # Every arm takes its part of the error of a difference, so that the gap moves by one of it.
    part = spread**2 / np.hypot(spread, spread[leader])
    part[leader] = 0.0
    share = np.where(part > 0, spread[leader] ** 2 / np.hypot(spread, spread[leader]), np.inf).min()
    bounds = []
    for sign in (1.0, 0.0, -1.0):
        shifted = means - sign * part
        shifted[leader] = means[leader] + sign * share
        inside = np.clip(shifted, family.means.low, family.means.high)
        bounds.append(_grow_evidence(family, pulls, inside, leader, needed))
    total = float(pulls.sum())
    (least, likely, most) = ((b - 1.0) * total if b < MOST_GROWTH else None for b in bounds)
    if least is None or likely is None:
        return None
    return Range(least, likely, most)


def _standard_errors(family: Family, belief: FloatArray) -> FloatArray:
    """Return half the distance between the quantiles of the mean at -1 and 1 sigma: (K,)."""
    levels = np.array([0.158655, 0.841345])
    (low, high) = family.mean_quantile(belief[:, None, :], levels[:, None])
    return np.asarray((high - low) / 2)


def _grow_evidence(
    family: Family, pulls: FloatArray, means: FloatArray, leader: int, needed: float
) -> float:
    """Return how many times as many pulls at these means give the needed evidence."""
    if means[leader] <= np.delete(means, leader).max():
        return math.inf

    def excess(growth: float) -> float:
        evidence = growth * pulls * family.statistic(means)
        return float(
            np.delete(compute_superiority(family, evidence, leader), leader).min() - needed
        )

    (low, high) = (1.0, 4.0)
    while excess(high) < 0:
        low = high
        high *= 4.0
        if high > MOST_GROWTH:
            return math.inf
    while high > 1.1 * low:  # a forecast is not more exact
        middle = math.sqrt(low * high)
        (low, high) = (middle, high) if excess(middle) < 0 else (low, middle)
    return math.sqrt(low * high)


@dataclass(frozen=True)
class _Difference:
    """A difference of means that does not matter, and how a sentence names it."""

    size: float
    text: str

    @classmethod
    def at_mean(cls, tolerance: float | str | None, mean: float) -> _Difference | None:
        """Return the difference that a tolerance means where the leader has this mean."""
        if not isinstance(tolerance, str):
            return None if tolerance is None else cls(tolerance, f"{tolerance:g}")
        size = parse_share(tolerance) * mean
        return cls(size, f"{size:.2g} ({tolerance} of {mean:.3g})") if size > 0 else None


def _find_good_arm(
    family: Family, belief: FloatArray, pulls: FloatArray, difference: _Difference, error: float
) -> tuple[int, float] | None:
    """Find the arm that most probably loses no more than a difference, and that probability.

    None if the probability of a larger loss exceeds half the error for every arm, or if an arm has
    too few pulls. Half, and so many pulls, because a prior that spreads over all means takes large
    differences for likely: arms that are close are wrong more often than the belief says.
    """
    if belief.shape[-1] < 2 or pulls.min() < LEAST_PULLS:
        return None
    within = best_arm.evaluate_tolerance(family, belief, difference.size)
    arm = int(within.argmax())
    return (arm, float(within[arm])) if within[arm] >= 1.0 - error / 2 else None


class _Sentences:
    """Verdicts as sentences, with the next command if arms have names."""

    def __init__(
        self, names: Sequence[str] | None, n_arms: int, where: str, family: Family
    ) -> None:
        self._named = names is not None
        self._names = list(names) if names is not None else [f"arm {k}" for k in range(n_arms)]
        self._where = f" {where}" if where else ""
        assumed = get_optional(family, "assumption")
        self._if = f", if {assumed}" if assumed else ""

    def describe_winner(self, arm: int, error: float) -> str:
        claim = f"{self._names[arm]} wins{self._where}; {self._describe_error(error)}"
        return claim + self._suggest_pin(arm)

    def describe_no_difference(self, arm: int, error: float, difference: _Difference) -> str:
        claim = f"no two arms differ{self._where} by {difference.text} or more"
        return f"{claim}; {self._describe_error(error)}: take any" + self._suggest_pin(arm).replace(
            ":", ", such as", 1
        )

    def describe_good_enough(
        self, arm: int, chance: float, within: float, difference: _Difference
    ) -> str:
        # 99.99..% would say more than a belief can
        shown = [f"{min(100 * p, 99.9):.3g}%" for p in (chance, within)]
        return (
            f"{self._names[arm]} is good enough{self._where}, though no winner: the best with a "
            f"chance of {shown[0]}, and with a chance of {shown[1]} it loses less than "
            f"{difference.text} against the best"
        )

    def describe_loss(self, arm: int, loss: float) -> str:
        return f"choosing {self._names[arm]} loses {loss:.2g} on average"

    def describe_leader(self, arm: int, evidence: float, needed: float) -> str:
        claim = f"keep going: {self._names[arm]} leads{self._where}, with evidence {evidence:.1f}"
        return f"{claim} of the {needed:.1f} needed"

    def _describe_error(self, error: float) -> str:
        return (
            f"wrong in at most {100 * error:g}% of such experiments, however often you look"
            f"{self._if}"
        )

    def _suggest_pin(self, arm: int) -> str:
        return f": posse pin {shlex.quote(self._names[arm])}" if self._named else ""


def explain_no_verdict(family: Family) -> str | None:
    """Return why the evidence of a family cannot prove a winner; None if it can."""
    if len(family.parameters) > 1:
        return "with a nuisance parameter beside the mean there is no martingale to stop by"
    if get_optional(family, "anchored"):
        return "its belief is an approximation, which is no martingale"
    if len(get_optional(family, "edges")):
        # E[exp(l)] exceeds 1 for a true mean that is not the centre of a cell.
        return "its belief is on a grid, and a true mean between grid points is not covered"
    return None


def log_e_value(family: Family, evidence: FloatArray, means: FloatArray) -> FloatArray:
    """Return l of each arm at candidate means: (D, K), (G,) or (G, K) -> (G, K).

    exp(l) is an e-value against the hypothesis that the candidate is the true mean.
    """
    n_arms = evidence.shape[-1]
    if n_arms > AT_ONCE:  # for the sake of memory
        parts = [slice(k, k + AT_ONCE) for k in range(0, n_arms, AT_ONCE)]
        candidates = [means if means.ndim == 1 else means[:, part] for part in parts]
        blocks = (
            log_e_value(family, evidence[:, p], x) for p, x in zip(parts, candidates, strict=True)
        )
        return np.concatenate(list(blocks), axis=1)
    x = means if means.ndim == 2 else means[:, None]  # (G, K) or (G, 1)
    around = STRENGTHS[:, None, None] * family.statistic(x)[:, None]  # (D, C, G, 1 or K)
    before = family.log_density(around, x)
    after = family.log_density(around + evidence[:, None, None], x)
    terms = before - after
    # log of the mean of exponentials, relative to the largest term
    top = terms.max(axis=0)
    return np.asarray(top + np.log(np.mean(np.exp(terms - top), axis=0)))


def compute_superiority(
    family: Family, evidence: FloatArray, arm: int, tolerance: float = 0.0
) -> FloatArray:
    """Return the evidence that each other arm is not better by the tolerance, in nats: (K,).

    It is the least l_arm(u) + l_other(v) over u + tolerance <= v, below 0 where the other arm is
    ahead; the entry of the arm itself has no meaning.
    """
    grid = _build_grid(family, evidence, tolerance)
    n_arms = evidence.shape[-1]
    mine = _minimum_from_below(log_e_value(family, evidence[:, [arm]], grid))  # (G, 1)
    theirs = _minimum_from_above(log_e_value(family, evidence, grid + tolerance))  # (G, K)
    both = mine + theirs
    best = both.argmin(axis=0)  # (K,)
    least = both[best, np.arange(n_arms)]
    # Invariant of the refinement: `floor` is the minimum of the arm left of its bracket, `roof`
    # that of the other arms right of theirs, so that a bracket sees the whole line.
    low = np.maximum(best - 1, 0)
    high = np.minimum(best + 1, len(grid) - 1)
    floor = mine[low, 0]
    roof = theirs[high, np.arange(n_arms)]
    bracket_low = grid[low]
    bracket_high = grid[high]
    arm_evidence = np.repeat(evidence[:, [arm]], n_arms, axis=1)
    for _ in range(ROUNDS):
        x = (
            bracket_low + (bracket_high - bracket_low) * np.linspace(0.0, 1.0, FINER + 1)[:, None]
        )  # (F, K)
        up = _minimum_from_below(np.minimum(log_e_value(family, arm_evidence, x), floor))
        down = _minimum_from_above(np.minimum(log_e_value(family, evidence, x + tolerance), roof))
        both = up + down
        at = both.argmin(axis=0)
        least = np.minimum(least, both[at, np.arange(n_arms)])
        low = np.maximum(at - 1, 0)
        high = np.minimum(at + 1, FINER)
        columns = np.arange(n_arms)
        floor = up[low, columns]
        roof = down[high, columns]
        bracket_low = x[low, columns]
        bracket_high = x[high, columns]
    return np.asarray(least)


def _are_all_within(family: Family, evidence: FloatArray, tolerance: float, needed: float) -> bool:
    """Return whether no arm is better than another by the tolerance, at the error of a winner.

    If two arms differ by that much, the best and the worst do, and a false claim about this pair
    is already counted among the false winners. So one threshold serves both claims together.
    """
    grid = _build_grid(family, evidence, tolerance)
    arms = range(evidence.shape[-1])
    mine = _minimum_from_below(log_e_value(family, evidence, grid))
    theirs = _minimum_from_above(log_e_value(family, evidence, grid + tolerance))
    # A minimum on the grid is an upper bound of the true one, and mostly enough to decline.
    rough = (np.delete((mine[:, [arm]] + theirs).min(axis=0), arm).min() for arm in arms)
    return all(minimum >= needed for minimum in rough) and all(
        np.delete(compute_superiority(family, evidence, arm, tolerance), arm).min() >= needed
        for arm in arms
    )


def _minimum_from_below(values: FloatArray) -> FloatArray:
    """Return the minimum at this mean or a lower one: (G, K)."""
    return np.asarray(np.minimum.accumulate(values, axis=0))


def _minimum_from_above(values: FloatArray) -> FloatArray:
    """Return the minimum at this mean or a higher one: (G, K)."""
    return np.asarray(np.minimum.accumulate(values[::-1], axis=0)[::-1])


def _subtract_prior(family: Family, belief: FloatArray) -> FloatArray:
    """Return the evidence of one agent's belief, without its prior: (D, K)."""
    prior = family.prior()
    if np.shape(belief)[:1] != prior.shape or np.ndim(belief) != 2 or not np.shape(belief)[1]:
        raise ValueError(
            f"belief must be that of one agent, of shape ({len(prior)}, K), got {np.shape(belief)}"
        )
    if not np.isfinite(belief).all():
        raise ValueError("belief must be finite numbers")
    return np.asarray(belief - prior[:, None])


def _count_pulls(family: Family, evidence: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the number of pulls in the evidence and their mean reward: (D, K) -> each (K,).

    statistic(y) = A + B y for the families that are allowed, so evidence = pulls A + sum B.
    """
    # any two rewards of the family determine A and B
    ends = [y for y in (0.0, 1.0, 0.5, 2.0, -1.0) if family.rewards.contains(np.array(y))][:2]
    first, second = family.statistic(np.array(ends)).T
    slope = (second - first) / (ends[1] - ends[0])
    basis = np.stack([first - slope * ends[0], slope], axis=1)  # (D, 2)
    pulls, total = np.linalg.lstsq(basis, evidence, rcond=None)[0]
    if np.any(pulls < -1e-6 * (1.0 + np.abs(pulls).max())):
        raise ValueError("belief must hold the prior of its family and more, but has fewer pulls")
    none = pulls < 1e-9
    mean = np.divide(total, pulls, out=np.zeros_like(total), where=~none)
    return np.where(none, 0.0, pulls), mean


def _build_grid(family: Family, evidence: FloatArray, tolerance: float) -> FloatArray:
    """Candidate means, ascending, beyond those of all arms and fine where one of them rises: (G,).

    Quantiles of what ten pulls at about the mean and the evidence say of each arm, the middles of
    all, and steps towards the ends of the range.
    """
    from scipy.special import ndtr

    pulls, means = _count_pulls(family, evidence)
    prior_mean = float(family.posterior_mean(family.prior()))
    inside = (pulls * means + prior_mean) / (pulls + 1.0)  # never at an end of the range
    about = 10.0 * family.statistic(inside) + evidence
    n_scores = max(9, POINTS // (2 * len(means)))
    levels = ndtr(np.linspace(-7.0, 7.0, n_scores))
    points = family.mean_quantile(about[:, None], levels[:, None]).ravel()
    pooled = (pulls @ means + prior_mean) / (pulls.sum() + 1.0)
    points = np.concatenate([points, means[pulls > 0], inside, [pooled]])
    points = points[np.isfinite(points)]
    low = family.means.low
    high = family.means.high
    steps = 10.0 ** -np.arange(0.0, 16.0)
    if math.isfinite(low):
        points = np.append(points, low + (points.max() - low) * steps)
    if math.isfinite(high):
        points = np.append(points, high - (high - points.min()) * steps)
    points = np.append(points, np.linspace(points.min(), points.max(), POINTS // 2))
    if tolerance:
        points = np.append(points, points - tolerance)
    points = np.unique(points)
    points = points[(points > low) & (points + tolerance < high)]
    if len(points) > MOST_POINTS:  # the refinement covers the gaps
        points = points[np.linspace(0, len(points) - 1, MOST_POINTS).astype(int)]
    return np.asarray(points)
