"""What an agent begins with: its arms, its evidence, and an exchange on terms all agree on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from posse import checks
from posse.contexts import Contexts
from posse.families.family import Model
from posse.live.evidence import SIGNS, Evidence
from posse.live.exchange import EXCHANGES, Exchange
from posse.live.exchange.ledger import LONGEST_NAME, MOST_ARMS
from posse.live.exchange.messages import row_size
from posse.live.exchange.origin_checks import LARGEST_ENTRY
from posse.live.fingerprints import fingerprint_of

LARGEST_NETWORK = 1_000_000  # agents
NO_CONTEXTS_UNDER_FLOWS = (
    "contexts need exchange 'origins': under flows no honest interval is known for them"
)
NO_WINNER_OF_CONTEXTS = (
    "stop does not go with a context: with contexts there is a best arm for each: see expected_loss"
)


def arm_names(arms: Sequence[str]) -> list[str]:
    """The names of the arms, or a sentence that says what is wrong with them."""
    names = [] if isinstance(arms, str) else list(arms)
    valid = all(isinstance(name, str) and name and name.isprintable() for name in names)
    if not names or not valid or len(set(names)) < len(names):
        raise ValueError(f"arms must be one or more different names, got {checks.shown(arms)}")
    if len(names) > MOST_ARMS or max(map(len, names)) > LONGEST_NAME:
        raise ValueError(
            f"arms must be at most {MOST_ARMS} names of at most {LONGEST_NAME} characters, "
            f"got {checks.shown(arms)}"
        )
    return names


def checked_options(
    exchange: str,
    given: Mapping[str, Any] | None,
    network_size: int | None,
    half_life: float | None,
) -> dict[str, Any]:
    """The further arguments of an exchange of this kind."""
    checks.choice("exchange", exchange, EXCHANGES)
    options = dict(given or {})
    if network_size is not None:
        if exchange != "flows":
            raise ValueError("network_size is for 'flows': the exchange 'origins' needs no N")
        options["network_size"] = checks.whole(
            "network_size", network_size, at_least=1, at_most=LARGEST_NETWORK
        )
    if half_life is not None:
        options["half_life"] = checks.number("half_life", half_life, above=0)
    return options


def evidence_of(
    exchange: str,
    family: Model,
    reward_range: tuple[float, float] | None,
    silent_default: float | None,
    context: Contexts | None = None,
) -> Evidence:
    """The coordinates that an exchange of this kind carries."""
    if context is not None and exchange == "flows":
        raise ValueError(NO_CONTEXTS_UNDER_FLOWS)
    # under flows only if asked for: neighbours must have the same coordinates
    signs, closed = (SIGNS, silent_default is not None) if exchange == "flows" else (0, True)
    evidence = Evidence.of(family, reward_range, signs, closed, context)
    if silent_default is not None:
        evidence.check_reward(silent_default)
    return evidence


def check_room(evidence: Evidence, names: Sequence[str]) -> None:
    """Refuse more columns and arms than one message can carry of an agent's evidence."""
    coordinates = len(evidence.bounds)
    size = sum(row_size(name, coordinates) for name in names)
    if evidence.features and size > LARGEST_ENTRY // 2:
        raise ValueError(
            f"context has {evidence.features} columns and there are {len(names)} arms: "
            f"{len(names)} x {coordinates} numbers are too many for a message, at most some "
            f"{LARGEST_ENTRY // 20:,}: merge rare categories, or play fewer arms"
        )


def spelled(
    exchange: str,
    evidence: Evidence,
    options: Mapping[str, Any],
    terms: Mapping[str, float | None],
) -> str:
    """The fingerprint; what keeps experiments apart is in it."""
    apart = {key: options[key] for key in ("network", "experiment") if key in options}
    return fingerprint_of(exchange, evidence, **apart, terms=terms)


def exchange_of(
    exchange: str,
    evidence: Evidence,
    options: Mapping[str, Any],
    fingerprint: str,
) -> Exchange:
    """An exchange of this kind, with nothing observed yet."""
    more: dict[str, Any] = {"features": evidence.features} if evidence.features else {}
    return EXCHANGES[exchange](
        fingerprint=fingerprint,
        bounds=evidence.bounds,
        closed=evidence.closed_sums,
        **more,
        **options,
    )
