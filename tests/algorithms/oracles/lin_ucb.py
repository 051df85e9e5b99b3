"""LinUCB and its federated form as a plain script: lists of visits, and matrices from them."""

from math import sqrt

import numpy as np

from tests.algorithms.oracles.plain import pick


def regression(visits, arm, d, ridge, shared):
    """Gram matrix with its ridge, and the weights, from (arm, x, reward) of the visits."""
    gram, total = ridge * np.eye(d), np.zeros(d)
    for its_arm, x, reward in visits:
        if shared or its_arm == arm:
            gram = gram + np.outer(x, x)
            total = total + reward * x
    return gram, np.linalg.inv(gram) @ total


def play(n_agents, n_arms, horizon, context, reward, uniform, *, width, ridge, shared, who):
    """The arms of every round t = 1, 2, ..., and how many agents talk in each.

    context(t, i): a vector, or one for each arm if shared.
    who: "own", "all", or a threshold of the determinant.
    """
    known = [[] for _ in range(n_agents)]  # visits that an agent knows
    unsent = [[] for _ in range(n_agents)]
    server, played, talked = [], [], []
    at_last_talk = [[] for _ in range(n_agents)]
    for t in range(1, horizon + 1):
        arms = []
        for i in range(n_agents):
            scores = []
            for k in range(n_arms):
                x = context(t, i)[k] if shared else context(t, i)
                gram, theta = regression(known[i], k, len(x), ridge, shared)
                scores.append(x @ theta + width * sqrt(x @ np.linalg.inv(gram) @ x))
            arms.append(pick(scores, uniform(t, i)))
        played.append(arms)
        visits = [
            (arm, context(t, i)[arm] if shared else context(t, i), reward(t, i, arm))
            for i, arm in enumerate(arms)
        ]
        talks = []
        for i, visit in enumerate(visits):
            if who == "all":
                known[i] = known[i] + visits
                continue
            known[i] = [*known[i], visit]
            unsent[i] = [*unsent[i], visit]
            if who != "own":
                growth = volume(known[i], n_arms, ridge, shared) / volume(
                    at_last_talk[i], n_arms, ridge, shared, len(visit[1])
                )
                if growth > 1 + who:
                    talks.append(i)
        for i in talks:
            server = server + unsent[i]
        for i in talks:
            known[i], at_last_talk[i], unsent[i] = server, server, []
        talked.append(len(talks))
    return played, talked


def volume(visits, n_arms, ridge, shared, d=None):
    """The determinants of the Gram matrices of all arms, multiplied."""
    d = d or len(visits[0][1])
    product = 1.0
    for k in range(1 if shared else n_arms):
        product *= np.linalg.det(regression(visits, k, d, ridge, shared)[0])
    return product
