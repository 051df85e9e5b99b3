"""DPE2 as a plain script: the leader's notebook, and hearsay."""

from math import inf, log

from tests.algorithms.oracles.families import upper
from tests.algorithms.oracles.plain import pick


def hops_from(neighbours, start):
    """How many links each agent is from one of them."""
    hops, front = {start: 0}, [start]
    while front:
        i = front.pop(0)
        for j in neighbours[i]:
            if j not in hops:
                hops[j] = hops[i] + 1
                front.append(j)
    return [hops[i] for i in range(len(neighbours))]


def play(neighbours, n_arms, horizon, reward, uniform, *, family, sigma=None):
    """The arms of every round; uniform(t), t = 1, 2, ...: the leader's one of that round."""
    far = [max(hops_from(neighbours, i)) for i in range(len(neighbours))]
    leader = far.index(min(far))
    hops = hops_from(neighbours, leader)
    rewards = [[] for _ in range(n_arms)]
    best, candidates = 0, dict.fromkeys(range(1, n_arms), inf)
    play_best, renew, history, played = True, False, {}, []

    def mean(k):
        return sum(rewards[k]) / len(rewards[k]) if rewards[k] else -inf

    for t in range(1, horizon + 1):
        if renew:
            best, renew = pick([mean(k) for k in range(n_arms)], uniform(t)), False
        history[t] = best
        if play_best or not candidates:
            arm = best
            play_best = not candidates
        else:
            arm = pick([candidates.get(k, -inf) for k in range(n_arms)], uniform(t))
            del candidates[arm]
        arms = [history.get(t - max(0, hops[i] - 1), 0) for i in range(len(neighbours))]
        arms[leader] = arm
        rewards[arm].append(reward(t, leader, arm))
        if not candidates:
            level = log(t) + 4 * log(log(t)) if t > 2 else 0.0
            index = {
                k: upper(family, sigma, mean(k), len(rewards[k]), level) for k in range(n_arms)
            }
            candidates = {k: b for k, b in index.items() if b > mean(best)}
            play_best, renew = bool(candidates), True
        played.append(arms)
    return played
