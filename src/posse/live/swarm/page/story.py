"""What a demonstration begins with: cities, arms with true rates close to each other, links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

CITIES = (
    "berlin", "paris", "rome", "lyon", "oslo", "wien",
    "porto", "turku", "gent", "riga", "cork", "bern",
)  # fmt: skip
# close enough that one agent alone takes long; those that are added later may be the best
ARMS = {"text": 0.28, "photo": 0.38, "quiz": 0.44, "video": 0.33, "story": 0.36, "audio": 0.48}
CHORDS = ((1, 5), (2, 7), (3, 6))  # so that news need not go round half of the circle
VISITS_PER_SECOND = 5.0  # at each agent
TICK_SECONDS = 1.0  # slow enough that messages can be seen


@dataclass(frozen=True)
class Story:
    """The agents' names, the true mean of each arm, and the links between agents."""

    names: tuple[str, ...]
    means: dict[str, float]
    links: tuple[tuple[str, str], ...]


def default_story(
    n_agents: int, n_arms: int, links: Sequence[tuple[int, int]] | None = None
) -> Story:
    """So many agents and arms, on these links or a circle with some chords."""
    if links is None:
        circle = [(i, (i + 1) % n_agents) for i in range(n_agents if n_agents > 2 else 1)]
        links = (*circle, *(each for each in CHORDS if max(each) < n_agents))
    names = CITIES[:n_agents]
    means = dict(list(ARMS.items())[:n_arms])
    return Story(names, means, tuple((names[a], names[b]) for a, b in links))


def agent_data(name: str, arms: Sequence[str]) -> dict[str, Any]:
    """The settings of an agent of the demonstration."""
    return {
        "name": name,
        "arms": list(arms),
        "family": "bernoulli",
        "exchange": "origins",
        "tick_seconds": TICK_SECONDS,
    }
