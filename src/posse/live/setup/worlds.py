"""Which settings of an experiment go together: each pair is supported, or refused in a sentence.

Late rewards (`reward_window`, `default_reward`), shares and either exchange go with everything that
is not refused here.
"""

from __future__ import annotations

from typing import Any

from posse.families.family import Model, is_contextual, name_of
from posse.live.founding import NO_CONTEXTS_UNDER_FLOWS, NO_WINNER_OF_CONTEXTS
from posse.live.site_reading import SITES_IN_CONTEXT
from posse.stopping import why_not

MOST_HALF_LIVES = 10  # in a reward window: a thousandth is left of a decision by then


def check_worlds(settings: Any) -> None:
    """Refuse settings of an experiment that do not go together, in one sentence."""
    if sentence := refusal(
        settings.family,
        settings.exchange,
        sites=settings.sites,
        half_life=settings.half_life,
        stop=settings.stop,
    ):
        raise ValueError(sentence)
    half_life, window = settings.half_life, settings.reward_window
    if half_life is not None and window is not None and window > MOST_HALF_LIVES * half_life:
        raise ValueError(
            f"reward_window must be at most {MOST_HALF_LIVES} half-lives, "
            f"{MOST_HALF_LIVES * half_life:g} seconds: later rewards are worth nothing, "
            f"got {window:g}"
        )


def refusal(
    family: Model, exchange: str, *, sites: str | float, half_life: object, stop: object
) -> str | None:
    """Why these settings do not go together; None if they do."""
    differ = sites != "alike"
    if is_contextual(family):
        if exchange == "flows":
            return NO_CONTEXTS_UNDER_FLOWS
        if differ:
            return SITES_IN_CONTEXT.format(sites)
        return None if stop is None else NO_WINNER_OF_CONTEXTS
    plain: Any = family
    if differ and exchange == "flows":
        return f"sites = {sites!r} needs exchange 'origins': flows do not know whose evidence it is"
    if differ and half_life is not None:
        return (
            f"sites = {sites!r} does not go with half_life: "
            "means that drift cannot be told from sites that differ"
        )
    if differ and len(plain.parameters) > 1:
        return (
            f"sites = {sites!r} does not go with family {name_of(family)!r}: how much sites differ "
            "is measured against a variance of rewards that is known"
        )
    if stop is not None and half_life is not None:
        return "stop does not go with half_life: what drifts has no winner"
    if stop is not None and (reason := why_not(plain)):
        return f"stop does not go with family {name_of(family)!r}: {reason}"
    return None
