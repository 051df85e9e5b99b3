"""Fingerprints: agents whose evidence means the same have equal ones, and only they exchange.

Posse 0.1 hashed the `repr` of a family, so that `sigma = 1` and `sigma = 1.0` differed. Its
spelling is kept for the families and fields that it had, with numbers as they are given, so that
stores and neighbours of 0.1 with the same settings still fit, also beside an agent on a new disk.
The other ways to write whole numbers, with and without a point, are `equal`: messages and stores in
such a spelling are accepted, and an agent goes on in the spelling of its store, which its
neighbours of 0.1 and all signatures know.

Any other family is spelled by its name and its belief's numbers: prior, statistic, range.

An experiment with a name of its own is spelled with it and with its network, so that nothing said
in one is taken for another; `DEFAULT` is spelled as the one experiment of 0.1 was.

Settings that change what evidence means (`terms`) are spelled out where they are set, and only
there.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from posse.families import FAMILIES
from posse.families.family import name_of
from posse.live.evidence import Evidence
from posse.live.exchange.layouts import DEFAULT

# What 0.1 spelled: the class, and its fields in order. Frozen: stores on disk depend on it.
FAMILIES_OF_0_1: dict[str, tuple[str, tuple[str, ...]]] = {
    "bernoulli": ("Bernoulli", ("alpha", "beta")),
    "bounded": ("Bounded", ("alpha", "beta", "concentration")),
    "gaussian": ("Gaussian", ("sigma", "prior_mean", "prior_sd")),
    "gaussian-unknown-variance": (
        "GaussianUnknownVariance",
        ("sigma", "prior_mean", "prior_count", "shape", "rate"),
    ),
    "poisson": ("Poisson", ("shape", "rate")),
    "exponential": ("Exponential", ("shape", "rate")),
}


def spellings(
    kind: str,
    evidence: Evidence,
    *,
    network: str = "",
    experiment: str = DEFAULT,
    terms: Mapping[str, float | None] | None = None,
) -> tuple[str, ...]:
    """The fingerprint of an exchange of this kind, and after it all that are equal to it."""
    if experiment != DEFAULT or terms:
        # lengths first: no two names run into each other
        names = f"{len(network)} {network} {len(experiment)} {experiment}"
        return (_digest(f"{names} {_in_numbers(kind, evidence)}{_in_terms(terms or {})}"),)
    numbers = _numbers_of_0_1(evidence)
    if numbers is None or _tells_closed(kind, evidence):
        return (_digest(_in_numbers(kind, evidence)),)
    made, _ = FAMILIES_OF_0_1[evidence.family.name]
    written = [_ways(value) for value in numbers.values()]
    return tuple(
        _digest(spelled_in_0_1(kind, made, dict(zip(numbers, ways, strict=True)), evidence))
        for ways in itertools.product(*written)
    )


def spelled_in_0_1(kind: str, made: str, fields: Mapping[str, str], evidence: Evidence) -> str:
    """What Posse 0.1 hashed. Frozen: never change it."""
    low, high = (repr(float(end)) for end in evidence.reward_range)
    family = ", ".join(f"{name}={value}" for name, value in fields.items())
    return f"{kind} {made}({family}) {low} {high} {evidence.signs}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _numbers_of_0_1(evidence: Evidence) -> dict[str, float] | None:
    """The fields that 0.1 spelled; None for a family that it did not have, or not like this."""
    family, name = evidence.family, name_of(evidence.family)
    if name not in FAMILIES_OF_0_1 or FAMILIES[name] is not type(family):
        return None
    _, names = FAMILIES_OF_0_1[name]
    for field in dataclasses.fields(FAMILIES[name]):
        if field.name not in names and getattr(family, field.name) != field.default:
            return None
    return {name: getattr(family, name) for name in names}


def _ways(value: float) -> Sequence[str]:
    """How a number may have been written, as it was given first."""
    exact = float(value)
    if not exact.is_integer():
        return [repr(exact)]
    ways = [repr(exact), repr(int(exact))]
    return ways[::-1] if isinstance(value, int) else ways


def _in_terms(terms: Mapping[str, float | None]) -> str:
    """Each setting with its number, in the order of their names."""
    values = ((name, terms[name]) for name in sorted(terms))
    return "".join(f"; {name} {'none' if v is None else f'{v:.12g}'}" for name, v in values)


def _in_numbers(kind: str, evidence: Evidence) -> str:
    """The family's name and its belief's numbers, to 12 digits: the last may be the machine's."""

    def written(values: object) -> str:
        if isinstance(values, str):
            return values
        return " ".join(f"{value:.12g}" for value in np.ravel(np.asarray(values, dtype=float)))

    parts = {
        "family": name_of(evidence.family),
        "prior": written(evidence.family.prior()),
        **{name: written(value) for name, value in evidence.sums.spelled().items()},
        "range": written(evidence.reward_range),
        "signs": str(evidence.signs),
    }
    if _tells_closed(kind, evidence):
        parts["closed"] = "apart"
    return f"{kind} " + "; ".join(f"{name} {text}" for name, text in parts.items())


def _tells_closed(kind: str, evidence: Evidence) -> bool:
    """Whether closed sums are coordinates of their own that neighbours must have, too.

    Entries of origins say themselves whether they have them.
    """
    return evidence.closed and kind == "flows"
