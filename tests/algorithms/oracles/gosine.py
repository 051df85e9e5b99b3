"""GosInE as a plain script: every agent's own list of arms, and what its neighbours recommend."""

from math import ceil, inf, log, sqrt

from tests.algorithms.oracles.families import upper
from tests.algorithms.oracles.plain import pick


def play(neighbours, n_arms, horizon, reward, uniform, asks, names, *, family, sigma, kl):
    """The arms of every round t = 1, 2, ...

    uniform(t, i): for ties of the choice; asks(t, i) and names(t, i), in rounds after a phase: for
    the neighbour that is asked, and for ties of what was played most.
    """
    n_agents = len(neighbours)
    size = ceil(n_arms / n_agents)
    sticky = [{(p * size + k) % n_arms for k in range(size)} for p in range(n_agents)]
    upper_arm = [(p * size + size) % n_arms for p in range(n_agents)]
    lower_arm = [(p * size + size + 1) % n_arms for p in range(n_agents)]
    rewards = [[[] for _ in range(n_arms)] for _ in range(n_agents)]
    lately = [[0] * n_arms for _ in range(n_agents)]
    cubes, played = {j**3 for j in range(1, horizon + 1)}, []
    for t in range(1, horizon + 1):
        if t - 1 in cubes:
            most = [pick(lately[p], names(t, p)) for p in range(n_agents)]
            for p in range(n_agents):
                u, v = upper_arm[p], lower_arm[p]
                if lately[p][v] > lately[p][u]:
                    u, v = v, u
                if neighbours[p]:
                    said = most[neighbours[p][int(asks(t, p) * len(neighbours[p]))]]
                    if said not in sticky[p] | {u, v}:
                        v = said
                upper_arm[p], lower_arm[p] = u, v
            lately = [[0] * n_arms for _ in range(n_agents)]
        arms = []
        for p in range(n_agents):
            index = [-inf] * n_arms
            for k in sticky[p] | {upper_arm[p], lower_arm[p]}:
                seen = rewards[p][k]
                mean = sum(seen) / len(seen) if seen else 0.0
                if kl:
                    index[k] = upper(family, sigma, mean, len(seen), log(t))
                else:
                    wide = 2 * sigma * sqrt(4 * log(t) / len(seen)) if seen else inf
                    index[k] = mean + wide
            arms.append(pick(index, uniform(t, p)))
        for p, arm in enumerate(arms):
            rewards[p][arm].append(reward(t, p, arm))
            lately[p][arm] += 1
        played.append(arms)
    return played
