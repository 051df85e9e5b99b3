"""Schedules: what a seed says will happen, as a plain list of steps.

A step is (what, a, b): the numbers are taken modulo what there is when the step comes, so that a
schedule stays valid whichever of its steps are left out.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from simulation.bits import CONTEXT_BITS, MOST_BITS, highest_reward

Step = tuple[str, int, int]

# what -> how often, by the kind of trouble; every schedule draws some kinds
WORK = {"pull": 8, "decide": 3, "settle": 4, "again": 2, "unknown": 1, "turn": 4}
TALK = {"tick": 5, "tick_all": 3, "gossip": 5, "deliver": 8, "deliver_to": 4}
TROUBLE: dict[str, dict[str, int]] = {
    "messages": {
        "drop": 4,
        "repeat": 4,
        "shuffle": 2,
        "replay": 3,
        "partition": 2,
        "heal": 2,
        "cut": 1,
    },
    "kills": {"kill": 3, "bomb": 6, "power": 2, "start": 4},
    "failures": {"failing": 5, "bomb": 1, "start": 2},
    "stops": {"stop": 4, "start": 5, "rename": 1},
    "copies": {"backup": 5, "set_back": 4, "start": 3},
    "twins": {"twin": 3, "kill": 1, "start": 3, "gossip": 3},
    "losses": {"lose": 2, "start": 2},
    "clocks": {"clock": 4},
    "changes": {"unlink": 2, "link": 3, "arms": 3, "experiments": 3},
    "liars": {"lie": 8},
    "controls": {"control": 6, "kill": 1, "start": 1},
    "silences": {"silence": 5, "decide": 5, "settle": 4},
    "measures": {"measure": 8, "ask": 2, "activate": 1, "cancel": 3, "erase": 1, "settle": 2},
    "lives": {"ask": 8, "activate": 5, "cancel": 6, "moment": 4, "erase": 2, "decide": 4},
}
# stories that chance alone seldom tells: steps at one site (or, with +1, at the next one), some of
# which are left out
SCENES: dict[str, list[str]] = {
    "copies": [
        "pull gossip backup start pull gossip set_back pull pull",
        "backup pull tick deliver set_back pull deliver gossip set_back",
        "pull gossip backup start pull partition gossip set_back pull",
        "gossip backup backup+1 pull gossip set_back pull+1 gossip set_back+1 gossip",
        "gossip backup pull gossip backup+1 start start+1 set_back pull gossip set_back+1 gossip",
        "pull stop pull stop pull backup start gossip pull stop gossip set_back pull gossip",
        "pull gossip backup start pull pull gossip set_back pull kill start pull kill start pull "
        "kill start pull tick tick tick mingle",
        "pull gossip backup backup+1 start start+1 pull mingle cut+2 set_back set_back+1 start "
        "start+1 pull kill start pull kill start pull kill start pull mingle mingle heal mingle",
        "pull pull+1 mingle backup start pull mingle set_back tick tick+1 repeat replay deliver "
        "replay set_back tick tick+1 deliver replay replay mingle",
        "decide decide gossip backup start settle settle mingle set_back settle mingle settle",
        "decide decide settle backup start settle mingle cut set_back settle tick tick tick tick "
        "tick tick heal mingle settle",
        "decide decide backup start settle pull tick_all deliver set_back settle settle decide "
        "mingle kill start settle mingle",
    ],
    "twins": [
        "pull twin pull gossip pull mingle settle mingle",
        "decide decide twin settle gossip settle mingle pull kill start mingle",
        "pull gossip twin pull stop start pull stop start pull stop start mingle mingle",
    ],
    "kills": [
        "pull gossip bomb pull tick start pull gossip",
        "bomb pull start bomb start pull start gossip",
        "gossip pull tick_all kill+1 start+1 tick+1 deliver deliver kill start replay replay",
        "pull kill start pull kill start pull kill start pull gossip tick_all gossip",
        "pull pull+1 mingle tick tick+1 kill start tick replay replay deliver tick+1 replay mingle",
        "decide decide bomb settle start bomb tick start settle tick tick bomb tick tick start",
        "decide kill start settle kill start mingle bomb mingle start gossip",
    ],
    "stops": ["pull stop start pull stop start pull stop start pull gossip gossip pull stop start"],
    "losses": [
        "pull gossip lose pull gossip",
        "pull tick lose deliver",
        "pull gossip pull lose partition pull gossip heal gossip lose+1 gossip",
    ],
    "failures": [
        "pull failing pull pull tick gossip failing gossip",
        "gossip pull+1 tick_all failing deliver_to failing+1 deliver_to+1 failing gossip",
    ],
    "lives": [
        "ask ask decide activate gossip cancel settle mingle cancel",
        "ask decide ask backup start activate cancel mingle set_back activate cancel settle mingle",
        "ask decide gossip kill start activate cancel settle kill start cancel mingle",
        "ask decide bomb activate start bomb cancel start ask activate power start cancel mingle",
        "decide decide gossip moment failing moment cancel failing activate erase start mingle",
        "decide settle erase ask activate backup start erase gossip set_back erase mingle",
    ],
    "messages": ["gossip pull tick_all gossip tick_all replay replay deliver repeat replay gossip"],
}
ORIGINS_ONLY = ("twins", "measures")
OLD = "pull kill start pull kill start pull kill start pull mingle"  # a site with a past
FOCUS = 0.5  # how often a step is about the site that a schedule is about
SHAPES: dict[int, list[tuple[tuple[int, int], ...]]] = {
    2: [((0, 1),)],
    3: [((0, 1), (1, 2)), ((0, 1), (1, 2), (0, 2))],
    4: [((0, 1), (1, 2), (2, 3)), ((0, 1), (1, 2), (2, 3), (0, 3)), ((0, 1), (0, 2), (0, 3))],
}
LONGEST = 60
WITH_SCENES = 75
ONE = ("default",)
TWO = ("default", "banner")
EXPERIMENTS = (ONE, ONE, ONE, TWO, TWO, ("banner", "checkout"), (*TWO, "checkout"))
ARMS = ("red", "green", "blue")
DEFAULTS = (None, 0.0, 0.0, math.inf)  # of a window: none, the lowest reward, the highest
SILENCES = (
    *((None, None), (5.0, None), (5.0, 0.0), (3.0, 0.0), (20.0, 0.0)),
    *((5.0, math.inf), (20.0, math.inf)),
)


@dataclass(frozen=True)
class Plan:
    """One schedule: the world it begins with, and its steps."""

    seed: int
    exchange: str
    names: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    steps: tuple[Step, ...]
    experiments: tuple[str, ...] = ("default",)
    arms: tuple[str, ...] = ARMS
    window: float | None = None
    default_reward: float | None = None
    remember: float | None = None
    eager: bool = False  # whether origins compact after a few restarts
    contexts: bool = False  # whether visitors differ
    measures: bool = False  # whether there are a holdout and metrics
    operators: tuple[str, ...] = ()  # agents whose pins and pauses hold everywhere
    half_life: float | None = None  # see `fading`
    silences: tuple[tuple[float | None, float | None], ...] = ()  # windows and defaults to come


def plan_of(seed: int, exchange: str) -> Plan:
    """The schedule of a seed."""
    draw = random.Random(f"{seed} {exchange}")
    names = tuple("abcd"[: draw.choice((2, 2, 3, 3, 4))])
    links = tuple((names[a], names[b]) for a, b in draw.choice(SHAPES[len(names)]))
    # under flows two agents of one name would be two identities
    # whose sums are estimates, so that they measure nothing besides
    usual = [kind for kind in sorted(TROUBLE) if exchange == "origins" or kind not in ORIGINS_ONLY]
    kinds = draw.sample(usual, draw.randint(1, 4))
    if "liars" in kinds:
        links = (*links, *((name, "z") for name in names if draw.random() < 0.7))
    weights = WORK | TALK
    for kind in kinds:
        for step, weight in TROUBLE[kind].items():
            weights[step] = weights.get(step, 0) + weight
    window = draw.choice((None, None, 5.0, 20.0))
    steps = draw.choices(list(weights), list(weights.values()), k=draw.randint(5, LONGEST))
    focus = draw.randrange(10_000)
    numbered = [
        (step, focus if draw.random() < FOCUS else draw.randrange(10_000), draw.randrange(10_000))
        for step in steps
    ]
    for kind in kinds:
        if kind in SCENES and draw.random() < 0.8:
            at = draw.randint(0, len(numbered))
            scene = (step.partition("+") for step in draw.choice(SCENES[kind]).split())
            numbered[at:at] = [
                (step, focus + int(next_ or 0), draw.randrange(10_000))
                for step, _, next_ in scene
                if draw.random() < 0.93
            ]
    eager = exchange == "origins" and draw.random() < 0.6
    if eager and draw.random() < 0.6:
        numbered[:0] = [(step, focus, draw.randrange(10_000)) for step in OLD.split()]
    experiments = draw.choice(EXPERIMENTS)
    contexts = exchange == "origins" and draw.random() < 0.15
    highest = highest_reward(CONTEXT_BITS if contexts else MOST_BITS)
    default = None if window is None else draw.choice(DEFAULTS)
    default = highest if default == math.inf else default
    silences = tuple((w, highest if d == math.inf else d) for w, d in SILENCES)
    if exchange == "flows" and "losses" in kinds:  # a new store tells closed decisions or does not
        silences = tuple(silence for silence in silences if (silence[1] == 0.0) == (default == 0.0))
    return Plan(
        seed,
        exchange,
        names,
        links,
        tuple(numbered[:WITH_SCENES]),
        experiments,
        window=window,
        default_reward=default,
        silences=silences if "silences" in kinds else (),
        eager=eager,
        contexts=contexts,
        measures="measures" in kinds,
        remember=None if window is None else draw.choice((None, window, 30.0)),
        operators=names[: draw.randint(1, 2)] if "controls" in kinds else (),
    )
