"""A shop whose visitors differ: a schema of eight columns, visits, and agents that know both."""

import numpy as np

from posse import families
from posse.live.agent.agent import Agent
from posse.live.agent.factory import make_evidence

ARMS = ["red", "green", "blue"]
SCHEMA = {  # eight columns, with the intercept
    "country": ["de", "fr", "it"],
    "returning": "flag",
    "basket": {"low": 0, "high": 500},
    "hour": {"low": 0, "high": 24, "optional": True},
}
FAMILIES = {
    "logistic": families.Logistic(rate=0.1),
    "linear": families.Linear(sigma=0.5, prior_mean=0.2, prior_sd=0.7),
}
RANGES = {"logistic": None, "linear": (-2, 3)}
TABLES = {  # as agent.toml has them
    "logistic": {"name": "logistic", "rate": 0.1},
    "linear": {"name": "linear", "sigma": 0.5, "prior_mean": 0.2, "prior_sd": 0.7},
}


def visit(generator, **known):
    """What is known of a visitor, now and then odd."""
    context = {
        "country": str(generator.choice(["de", "fr", "it", "at"])),
        "returning": bool(generator.random() < 0.3),
        "basket": float(generator.uniform(-50, 550)),
    }
    if generator.random() < 0.7:
        context["hour"] = float(generator.uniform(0, 24))
    return context | known


def shop(kind="logistic", arms=ARMS, seed=1, **options):
    """An agent of that shop."""
    options = {"reward_range": RANGES[kind], "context": SCHEMA, "seed": seed} | options
    return Agent(arms, FAMILIES[kind], **options)


def make_agent_evidence(agent):
    """The whole-number evidence of an agent that exchanges origins."""
    return make_evidence("origins", agent.family, agent.reward_range, None, agent.context)


def reward_of(kind, generator):
    """A reward that the family can have."""
    return float(generator.random() < 0.3 if kind == "logistic" else generator.uniform(-2, 3))


def exchanged(agents, rounds=6):
    """Let agents by name say all that they know, each to each."""
    for name, agent in agents.items():
        for other in agents.keys() - {name}:
            agent.connect(other)
    for now in range(rounds):
        waiting = [(name, *sent) for name, agent in agents.items() for sent in agent.tick(now)]
        for sender, receiver, message in waiting:  # it grows by the answers
            answers = agents[receiver].receive(sender, message, now)
            waiting += [(receiver, *answer) for answer in answers]


def grams(agent, quanta):
    """The Gram matrices of a row, of all and of closed decisions, in exact Python numbers."""
    d, n = agent.family.features, make_agent_evidence(agent).sums.n_sums
    rows, columns = np.triu_indices(d)
    for last in (n, 2 * n):
        matrix = np.zeros((d, d), dtype=object)
        matrix[rows, columns] = matrix[columns, rows] = quanta[last - len(rows) : last]
        yield matrix
