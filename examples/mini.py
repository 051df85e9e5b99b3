"""The paper in one page of NumPy: N agents on a network, one bandit, no central server.

Run it: python examples/mini.py
"""

import numpy as np


def cycle(n_agents):
    """Weights of a cycle: each agent weighs itself and its two neighbours by a third each."""
    shift = np.roll(np.eye(n_agents), 1, axis=0)
    return (np.eye(n_agents) + shift + shift.T) / 3


def decentralized_thompson_sampling(means, weights, horizon, rng, sigma=1.0):
    """Regret per agent, (T,), of Algorithm 1 with Thompson Sampling and Gaussian rewards."""
    means = np.asarray(means)
    agents = np.arange(len(weights))
    shift = np.zeros((len(agents), len(means)))  # posterior mean times precision, prior N(0, 1)
    precision = np.ones((len(agents), len(means)))
    regret = np.zeros(horizon)
    for t in range(horizon):
        # select: every agent samples each arm's mean from its own posterior and plays the best arm
        noise = rng.standard_normal(shift.shape)
        arms = np.argmax(shift / precision + noise / np.sqrt(precision), axis=1)
        rewards = rng.normal(means[arms], sigma)
        # update: a tempered posterior that counts each reward N times (learning rate N)
        precision[agents, arms] += len(agents) / sigma**2
        shift[agents, arms] += len(agents) * rewards / sigma**2
        # merge: average the neighbours' log-densities, which averages their natural parameters
        precision, shift = weights @ precision, weights @ shift
        regret[t] = np.mean(means.max() - means[arms])
    return regret.cumsum()


if __name__ == "__main__":
    runs = [
        decentralized_thompson_sampling(
            [0.5] + [0.1] * 16, cycle(36), horizon=800, rng=np.random.default_rng(run)
        )
        for run in range(20)
    ]
    final = [regret[-1] for regret in runs]
    error = np.std(final, ddof=1) / np.sqrt(len(final))
    print(f"regret per agent after 800 rounds: {np.mean(final):.1f} +- {error:.1f}")
