"""Graphs, weights and a plain Thompson run, none of which share code with posse.theory."""

from __future__ import annotations

import networkx as nx
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

probabilities = st.floats(0.02, 0.98)
positive = st.floats(0.05, 20)
seeds = st.integers(0, 2**32 - 1)
unhurried = settings(deadline=None, max_examples=50)  # a deadline would time the machine


def max_degree(graph: nx.Graph) -> np.ndarray:
    adjacency = nx.to_numpy_array(graph)
    degree = adjacency.sum(axis=1)
    return np.eye(len(degree)) - (np.diag(degree) - adjacency) / (degree.max() + 1)


GRAPHS = {
    "one agent": nx.empty_graph(1),
    "pair": nx.path_graph(2),
    "complete 3": nx.complete_graph(3),
    "complete 20": nx.complete_graph(20),
    "cycle 5": nx.cycle_graph(5),
    "cycle 30": nx.cycle_graph(30),
    "path 12": nx.path_graph(12),
    "star 15": nx.star_graph(14),
    "grid 5x5": nx.grid_2d_graph(5, 5),
    "barbell": nx.barbell_graph(6, 2),
    "hypercube": nx.hypercube_graph(4),
}


def second_eigenvalue(weights: np.ndarray) -> float:
    sizes = np.sort(np.abs(np.linalg.eigvalsh(weights)))[::-1]
    return float(sizes[1]) if len(sizes) > 1 else 0.0


def second_singular_value(weights: np.ndarray) -> float:
    return float(np.linalg.norm(weights - 1 / len(weights), ord=2))


def random_doubly_stochastic(n_agents: int, generator: np.random.Generator) -> np.ndarray:
    """A mixture of permutations (Birkhoff), not symmetric; staying and shifting make it mix."""
    stay = np.arange(n_agents)
    orders = [stay, np.roll(stay, 1), generator.permutation(stay), generator.permutation(stay)]
    shares = (generator.dirichlet(np.ones(4)) + 1) / 5
    return sum(share * np.eye(n_agents)[order] for share, order in zip(shares, orders, strict=True))


def thompson_run(
    weights: np.ndarray,
    means: list[float],
    rounds: int,
    learning_rate: float,
    generator: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """Decentralized Thompson Sampling as Algorithm 2 says it, agent by agent.

    Gives arms and rewards (rounds, N), and (alpha, beta) at times 1..rounds+1.
    """
    n_agents, n_arms = len(weights), len(means)
    alpha, beta = np.ones((n_agents, n_arms)), np.ones((n_agents, n_arms))
    history_arms, history_rewards, beliefs = [], [], [(alpha, beta)]
    for _ in range(rounds):
        arms = generator.beta(alpha, beta).argmax(axis=1)
        rewards = (generator.random(n_agents) < np.array(means)[arms]).astype(float)
        alpha, beta = alpha.copy(), beta.copy()
        for agent in range(n_agents):
            alpha[agent, arms[agent]] += learning_rate * rewards[agent]
            beta[agent, arms[agent]] += learning_rate * (1 - rewards[agent])
        alpha, beta = weights @ alpha, weights @ beta
        history_arms.append(arms)
        history_rewards.append(rewards)
        beliefs.append((alpha, beta))
    shape = (rounds, n_agents)
    return (
        np.array(history_arms, dtype=int).reshape(shape),
        np.array(history_rewards).reshape(shape),
        beliefs,
    )
