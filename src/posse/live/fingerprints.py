"""Fingerprints: agents whose evidence means the same have equal ones, and only they exchange.

A fingerprint is its version and a hash of what evidence depends on: the network and the experiment,
so that nothing said in one is taken for another; the exchange; the family by its name and its
belief's numbers (prior, statistic, range). Numbers count, not how they were written: `sigma = 1`
and `sigma = 1.0` are equal.

Settings that change what evidence means (`terms`) are spelled out where they are set, and only
there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from posse.families.family import name_of
from posse.live.evidence import Evidence
from posse.live.exchange.layouts import DEFAULT

VERSION = 1  # of what is hashed, at the head of every fingerprint; any other is refused


def fingerprint_of(
    kind: str,
    evidence: Evidence,
    *,
    network: str = "",
    experiment: str = DEFAULT,
    terms: Mapping[str, float | None] | None = None,
) -> str:
    """The fingerprint of an exchange of this kind, such as '1-9f86d081884c7d659a2feaa0c55ad015'."""
    # lengths first: no two names run into each other
    names = f"{len(network)} {network} {len(experiment)} {experiment}"
    text = f"{names} {_in_numbers(kind, evidence)}{_in_terms(terms or {})}"
    return f"{VERSION}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


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
    # closed sums are coordinates of their own; under origins every agent has them
    if evidence.closed and kind == "flows":
        parts["closed"] = "apart"
    return f"{kind} " + "; ".join(f"{name} {text}" for name, text in parts.items())
