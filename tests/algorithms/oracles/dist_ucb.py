"""Dist-UCB as a plain script: agents that average estimates and keep up with each other."""

from math import log, sqrt

from tests.algorithms.oracles.families import upper
from tests.algorithms.oracles.plain import pick


def play(neighbours, n_arms, horizon, reward, uniform, *, family, sigma, kl):
    """The arms of every round t = 1, 2, ...; uniform(t, i): for arms that lag, and for ties."""
    n_agents = len(neighbours)
    closed = [sorted({i, *neighbours[i]}) for i in range(n_agents)]
    weight = [[0.0] * n_agents for _ in range(n_agents)]
    for i in range(n_agents):
        for j in neighbours[i]:
            weight[i][j] = 1 / max(len(closed[i]), len(closed[j]))
        weight[i][i] = 1 - sum(weight[i])
    rewards = [[[] for _ in range(n_arms)] for _ in range(n_agents)]
    estimate = [[0.0] * n_arms for _ in range(n_agents)]
    largest = [[1] * n_arms for _ in range(n_agents)]
    played = []
    for t in range(1, horizon + 1):
        arms = []
        for i in range(n_agents):
            if t <= n_arms:
                arms.append(t - 1)
                continue
            count = [len(seen) for seen in rewards[i]]
            lag = [k for k in range(n_arms) if count[k] <= largest[i][k] - n_arms]
            if lag:
                arms.append(lag[int(uniform(t, i) * len(lag))])
                continue
            index = []
            for k in range(n_arms):
                if kl:
                    level = 3.03 * (log(t) + 3 * log(log(t))) / (2 * len(closed[i]))
                    index.append(upper(family, sigma, estimate[i][k], count[k], level))
                else:
                    wide = 1.01 * sqrt(3 * log(t) / (len(closed[i]) * count[k]))
                    index.append(estimate[i][k] + 2 * sigma * wide)
            arms.append(pick(index, uniform(t, i)))
        before = [[sum(seen) / len(seen) if seen else 0.0 for seen in own] for own in rewards]
        for i, arm in enumerate(arms):
            rewards[i][arm].append(reward(t, i, arm))
        after = [[sum(seen) / len(seen) if seen else 0.0 for seen in own] for own in rewards]
        if t <= n_arms:
            estimate = after
        else:
            every = range(n_arms)
            estimate = [
                [
                    sum(weight[i][j] * estimate[j][k] for j in closed[i])
                    + after[i][k]
                    - before[i][k]
                    for k in every
                ]
                for i in range(n_agents)
            ]
            largest = [
                [max(len(rewards[i][k]), *(largest[j][k] for j in closed[i])) for k in every]
                for i in range(n_agents)
            ]
        played.append(arms)
    return played
