"""Link failure: in each round every link is down with a fixed probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from posse import validation
from posse.networks import weights as rules
from posse.networks.operators import Operator, SparseRuns, as_operator
from posse.networks.shares import split_links
from posse.networks.weights import FloatArray
from posse.randomness import Randomness
from posse.rules import resolve_rules

if TYPE_CHECKING:
    from posse.networks.dynamics import Sampler
    from posse.networks.network import Network


@dataclass(frozen=True)
class LinkFailure:
    """Each link fails with probability p, independently; its weight falls back on the diagonal.

    For max-degree weights W(t) = I - (D(t) - A(t)) / (d_max + 1), with d_max of the full graph;
    `normalise="realised"` takes the largest degree among the links of the round instead. In a
    directed network the share of a failed link stays with its sender; "realised" splits equally
    among the links of the round.
    """

    p: float
    normalise: str = "full"

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", validation.validate_number("p", self.p, at_least=0, below=1))
        validation.validate_choice("normalise", self.normalise, ("full", "realised"))

    def probability_in(self, network: Network) -> float:
        """Return p, or the value of its rule of N."""
        return resolve_rules(self, {"N": network.n_agents}).p

    def check(self, network: Network) -> None:
        """Refuse asymmetric weights, since a link fails for both its ends."""
        self.probability_in(network)  # the value of a rule may be out of range
        if self.normalise == "realised" and network.rule != "max-degree":
            raise ValueError(
                "normalise 'realised' is defined for the weights 'max-degree' only, "
                f"got {network.rule!r}"
            )
        if isinstance(network.rule, rules.Matrix):
            # the property raises for asymmetric matrices
            network.link_weights  # noqa: B018

    def expected_links(self, network: Network) -> FloatArray:
        """The links (E,) of E[W(t)]: a link is up with probability 1 - p."""
        if self.normalise == "realised":
            raise ValueError(
                "E[W(t)] has no closed form with normalise='realised', so neither have the "
                "second eigenvalue and the spectral gap; use normalise='full'"
            )
        return (1 - self.probability_in(network)) * network.link_weights

    def expected_product(self, network: Network, matrix: FloatArray) -> FloatArray:
        """Return E[W(t) M W(t)^T] of a symmetric matrix M (N, N)."""
        # Links fail independently, so beyond the product of the means only each link's own
        # variance p (1 - p) w^2 remains.
        mean = network.expected_weights
        p = self.probability_in(network)
        variances = p * (1 - p) * network.link_weights**2
        product = np.asarray(mean @ (mean @ matrix).T)
        return rules.add_links(product, matrix, network.edges, variances)

    def sampler(self, network: Network, n_runs: int) -> Sampler:
        """Return a sampler: one uniform per link, run and round; the sparsity pattern is reused."""
        if network.is_directed:
            return self._share_sampler(network, n_runs)
        from scipy.sparse import csr_array

        n_agents = network.n_agents
        n_links = len(network.edges)
        realised = self.normalise == "realised"
        links = np.ones(n_links) if realised else network.link_weights

        # `source` maps each stored entry to its link; diagonal and missing entries map to an extra
        # last link of weight zero.
        # Links are numbered from 1, because 0 marks the diagonal.
        numbers = rules.assemble_matrix(network.topology, np.arange(1.0, n_links + 1))
        numbers.setdiag(0)
        dense = rules.is_dense(n_agents, numbers.nnz)
        entries = numbers.toarray().ravel() if dense else numbers.data
        source = (entries - 1).astype(np.int64) % (n_links + 1)
        if dense:
            row_starts = np.arange(n_agents) * n_agents
            diagonal = row_starts + np.arange(n_agents)
        else:
            row_starts = numbers.indptr[:-1]
            diagonal = np.flatnonzero(entries == 0)
            # All runs together are one block-diagonal matrix: one sparse product per round serves
            # all.
            shifts = np.arange(n_runs)[:, None]
            columns = (numbers.indices + shifts * n_agents).ravel()
            starts = np.append((row_starts + shifts * numbers.nnz).ravel(), n_runs * numbers.nnz)
            shape = (n_runs * n_agents, n_runs * n_agents)
            blocks = csr_array((np.empty(columns.size), columns, starts), shape=shape)
            layout = (blocks.indices, blocks.indptr)  # in the smallest integers that do

        p = self.probability_in(network)

        def sample(randomness: Randomness) -> Operator:
            # The extra last column stays 0: it is the link that does not exist.
            up = np.zeros((n_runs, n_links + 1))
            # A uniform may be exactly 0: with >= a link of p = 0 never fails.
            up[:, :-1] = links * (randomness.random((n_runs, n_links)) >= p)
            values = up.take(source, axis=1)
            sums = np.add.reduceat(values, row_starts, axis=1)
            if realised:  # links have weight 1 so far: row sums are the degrees of the round
                scale = 1 / (1 + sums.max(axis=1, keepdims=True))
                values = values * scale
                sums = sums * scale
            # The diagonal takes the weight of failed links: W(t) stays doubly stochastic.
            values[:, diagonal] = 1 - sums
            if dense:
                return as_operator(values.reshape(n_runs, n_agents, n_agents))
            return SparseRuns(csr_array((values.ravel(), *layout), shape=shape))

        return sample

    def _share_sampler(self, network: Network, n_runs: int) -> Sampler:
        """Return a sampler of the shares of a directed network, as one matrix for all runs."""
        sender, receiver = network.edges.T
        shares = None if self.normalise == "realised" else 1 / (1 + network.degrees)
        first = np.arange(n_runs)[:, None] * network.n_agents

        p = self.probability_in(network)

        def sample(randomness: Randomness) -> Operator:
            works = randomness.random((n_runs, len(sender))) >= p
            places = (first + receiver)[works], (first + sender)[works]
            return SparseRuns(split_links(*places, n_runs * network.n_agents, shares))

        return sample
