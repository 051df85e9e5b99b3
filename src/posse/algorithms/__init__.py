"""Algorithms: how N agents choose and learn together; ALGORITHMS lists them by name."""

from typing import Any

from posse.algorithms.algorithm import Algorithm, Problem
from posse.algorithms.centralized import Centralized
from posse.algorithms.decentralized import Decentralized
from posse.algorithms.isolated import Isolated

ALGORITHMS: dict[str, Any] = {
    "decentralized": Decentralized,
    "isolated": Isolated,
    "centralized": Centralized,
}

__all__ = ["ALGORITHMS", "Algorithm", "Centralized", "Decentralized", "Isolated", "Problem"]
