"""Real agents in memory, on a network that loses some of their messages, the same for a seed."""

from __future__ import annotations

import random
from collections import deque

import numpy as np

import posse


class LiveNetwork:
    """Every round each agent pulls once and ticks once; messages arrive in the same round."""

    def __init__(self, network, means, family, exchange, *, seed, loss=0.0, reward_range=None):
        self.random = random.Random(seed)
        self.generator = np.random.default_rng(seed)
        self.means = dict(zip("abcdefgh", means, strict=False))
        self.family = family
        self.loss = loss
        size = {"network_size": network.n_agents} if exchange == "flows" else {}
        self.agents = connected(
            network,
            lambda: posse.Agent(
                list(self.means),
                family,
                policy=posse.ThompsonSampling(),
                exchange=exchange,
                exchange_options={"draw": self.random.getrandbits},
                reward_range=reward_range,
                seed=self.random.getrandbits(64),
                **size,
            ),
        )
        # the mean over agents
        self.rounds = 0
        self.regret = 0.0

    def round(self):
        """Pulls, rewards and messages; returns what each agent played and got."""
        played = []
        for agent in self.agents.values():
            arm, _ = agent.choose()
            reward = float(self.family.draw_rewards(np.array(self.means[arm]), self.generator))
            agent.learn(arm, reward)
            played.append((arm, reward))
        self.regret += max(self.means.values()) - np.mean([self.means[arm] for arm, _ in played])
        self.rounds += 1
        deliver(self.agents, self.rounds, lambda: self.random.random() < self.loss)
        return played


def connected(network, make):
    """Agents, or exchanges, by name and joined by the network's edges."""
    agents = {str(node): make() for node in range(network.n_agents)}
    for one, other in network.edges:
        agents[str(one)].connect(str(other))
        agents[str(other)].connect(str(one))
    return agents


def deliver(agents, now, is_lost=lambda: False):
    """One tick of everybody, and all messages and answers that are not lost."""
    waiting = deque((name, *sent) for name, agent in agents.items() for sent in agent.tick(now))
    while waiting:
        sender, receiver, message = waiting.popleft()
        if not is_lost():
            answers = agents[receiver].receive(sender, message, now)
            waiting.extend((receiver, *sent) for sent in answers)
