"""What a change of controls means, as events in sentences: what is pinned, paused, resumed."""

from __future__ import annotations

from collections.abc import Mapping

from posse.live.store.events import listed

# ("pin" or "pause", arm): where that comes from, as `Controls.acting` says it
Acting = Mapping[tuple[str, str], str]
DONE = {"pin": "pinned", "pause": "paused"}


def changes(before: Acting, after: Acting) -> list[tuple[str, str]]:
    """Kinds and sentences: what holds now that did not, and what holds no longer.

    >>> changes({("pause", "red"): "here"}, {("pin", "blue"): "here"})
    [('pin', 'blue is pinned here'), ('resume', 'red is no longer paused')]
    """
    said: dict[tuple[str, str], list[str]] = {}  # arms of which the same is to be said
    for (kind, arm), whose in after.items():
        if before.get((kind, arm)) != whose:
            said.setdefault((kind, f"{DONE[kind]} {whose}"), []).append(arm)
    for kind, arm in before:
        if (kind, arm) not in after:
            said.setdefault(("resume", f"no longer {DONE[kind]}"), []).append(arm)
    return [
        (kind, f"{listed(arms)} {'is' if len(arms) == 1 else 'are'} {what}")
        for (kind, what), arms in said.items()
    ]
