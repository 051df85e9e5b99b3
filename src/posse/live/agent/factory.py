"""Construction of an agent: validated arms and options, its evidence, exchange and fingerprint.

Agents exchange evidence only if their fingerprints are equal: then evidence means the same. A
fingerprint is its version and a hash of what evidence depends on: the network and the experiment,
so that no message is taken for one of another experiment; the exchange; the family by its name and
the numbers of its belief (prior, statistic, range). Numbers count, not how they were written:
`sigma = 1` and `sigma = 1.0` are equal. Settings that change what evidence means (`terms`) are
part of the hash where they are set, and only there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from posse import validation
from posse.contexts import Contexts
from posse.families import Model, get_family_name
from posse.live.agent.evidence import SIGNS, Evidence
from posse.live.agent.measures import Measures
from posse.live.exchange import DEFAULT, EXCHANGES, LARGEST_ENTRY, Exchange, row_size
from posse.live.ledger import CELL_NUMBERS, LONGEST_NAME, MOST_ARMS

VERSION = 1  # of what is hashed, at the head of every fingerprint; any other is refused


def compute_fingerprint(
    kind: str,
    evidence: Evidence,
    *,
    network: str = "",
    experiment: str = DEFAULT,
    terms: Mapping[str, float | str | None] | None = None,
) -> str:
    """Compute the fingerprint of an exchange, such as '1-9f86d081884c7d659a2feaa0c55ad015'."""
    # Lengths first, so that no two pairs of names give the same text.
    names = f"{len(network)} {network} {len(experiment)} {experiment}"
    text = f"{names} {_render_numbers(kind, evidence)}{_render_terms(terms or {})}"
    return f"{VERSION}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def _render_terms(terms: Mapping[str, float | str | None]) -> str:
    """Render each setting with its number or text, sorted by name."""

    def render_value(value: float | str | None) -> str:
        if isinstance(value, str):  # after its length, so that no two lists of texts are the same
            return f"{len(value)} {value}"
        return "none" if value is None else f"{value:.12g}"

    return "".join(f"; {name} {render_value(terms[name])}" for name in sorted(terms))


def _render_numbers(kind: str, evidence: Evidence) -> str:
    """Render the family's name and its belief's numbers to 12 digits."""

    def render_values(values: object) -> str:
        if isinstance(values, str):
            return values
        return " ".join(f"{value:.12g}" for value in np.ravel(np.asarray(values, dtype=float)))

    parts = {
        "family": get_family_name(evidence.family),
        "prior": render_values(evidence.family.prior()),
        **{name: render_values(value) for name, value in evidence.sums.fingerprint_parts().items()},
        "range": render_values(evidence.reward_range),
        "signs": str(evidence.signs),
    }
    # closed sums are coordinates of their own; under origins every agent has them
    if evidence.closed and kind == "flows":
        parts["closed"] = "apart"
    return f"{kind} " + "; ".join(f"{name} {text}" for name, text in parts.items())


# ---- Parts of a new agent

LARGEST_NETWORK = 1_000_000  # agents
NO_CONTEXTS_UNDER_FLOWS = (
    "contexts need exchange 'origins': flows give no honest intervals for them"
)
NO_WINNER_OF_CONTEXTS = (
    "stop does not go with a context, which has its own best arm: see expected_loss instead"
)


NO_MEASURES_UNDER_FLOWS = "holdout and metrics need exchange 'origins': sums of flows are estimates"
NO_FADING_MEASURES = (
    "holdout and metrics do not go with half_life: they are sums of all decisions so far"
)


def check_measures(exchange: str, half_life: float | None) -> None:
    """Refuse a holdout or metrics where sums are not exact, with one sentence."""
    if exchange == "flows":
        raise ValueError(NO_MEASURES_UNDER_FLOWS)
    if half_life is not None:
        raise ValueError(NO_FADING_MEASURES)


def validate_arm_names(arms: Sequence[str]) -> list[str]:
    """Return the names of the arms; refuse empty, repeated or too long ones with one sentence."""
    names = [] if isinstance(arms, str) else list(arms)
    valid = all(isinstance(name, str) and name and name.isprintable() for name in names)
    if not names or not valid or len(set(names)) < len(names):
        raise ValueError(
            f"arms must be one or more different names, got {validation.format_value(arms)}"
        )
    if len(names) > MOST_ARMS or max(map(len, names)) > LONGEST_NAME:
        raise ValueError(
            f"arms must be at most {MOST_ARMS} names of at most {LONGEST_NAME} characters, "
            f"got {validation.format_value(arms)}"
        )
    return names


def validate_options(
    exchange: str,
    extra_options: Mapping[str, Any] | None,
    network_size: int | None,
    half_life: float | None,
) -> dict[str, Any]:
    """Return the validated further arguments of an exchange of this kind."""
    validation.validate_choice("exchange", exchange, EXCHANGES)
    options = dict(extra_options or {})
    if network_size is not None:
        if exchange != "flows":
            raise ValueError("network_size is for 'flows': the exchange 'origins' needs no N")
        options["network_size"] = validation.validate_integer(
            "network_size", network_size, at_least=1, at_most=LARGEST_NETWORK
        )
    if half_life is not None:
        options["half_life"] = validation.validate_number("half_life", half_life, above=0)
    return options


def make_evidence(
    exchange: str,
    family: Model,
    reward_range: tuple[float, float] | None,
    silent_default: float | None,
    context: Contexts | None = None,
) -> Evidence:
    """Build the evidence with the coordinates that an exchange of this kind carries."""
    if context is not None and exchange == "flows":
        raise ValueError(NO_CONTEXTS_UNDER_FLOWS)
    # under flows only if asked for: neighbours must have the same coordinates
    signs, closed = (SIGNS, silent_default is not None) if exchange == "flows" else (0, True)
    evidence = Evidence.for_family(family, reward_range, signs, closed, context)
    if silent_default is not None:
        evidence.check_reward(silent_default)
    return evidence


def check_message_size(evidence: Evidence, arms: Sequence[str], measures: Measures) -> None:
    """Refuse more columns, arms and metrics than one message can carry of an agent's evidence."""
    coordinates = len(evidence.bounds)
    size = sum(row_size(arm, coordinates) for arm in arms)
    size += sum(row_size(name, CELL_NUMBERS) for name in measures.name_rows(arms))
    if size <= LARGEST_ENTRY // 2:
        return
    if evidence.features:
        raise ValueError(
            f"context has {evidence.features} columns and there are {len(arms)} arms: "
            f"{len(arms)} x {coordinates} numbers are too many for a message, at most some "
            f"{LARGEST_ENTRY // 20:,}: merge rare categories, or play fewer arms"
        )
    many = f" with {len(measures.metrics)} metrics" if measures.metrics else ""
    raise ValueError(
        f"{len(arms)} arms{many} take {size:,} bytes of a message, at most "
        f"{LARGEST_ENTRY // 2:,}: play fewer arms, shorten names"
        + (", or measure less" * bool(many))
    )


def fingerprint_agent(
    exchange: str,
    evidence: Evidence,
    options: Mapping[str, Any],
    terms: Mapping[str, float | str | None],
) -> str:
    """Compute the fingerprint of an agent; it includes the names that keep experiments apart."""
    apart = {key: options[key] for key in ("network", "experiment") if key in options}
    return compute_fingerprint(exchange, evidence, **apart, terms=terms)


def make_exchange(
    exchange: str,
    evidence: Evidence,
    options: Mapping[str, Any],
    fingerprint: str,
) -> Exchange:
    """Build an exchange of this kind without any evidence."""
    feature_options: dict[str, Any] = {"features": evidence.features} if evidence.features else {}
    return EXCHANGES[exchange](
        fingerprint=fingerprint,
        bounds=evidence.bounds,
        closed=evidence.closed_sums,
        **feature_options,
        **options,
    )
