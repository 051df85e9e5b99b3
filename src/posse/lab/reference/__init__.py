"""The reference engine: readable NumPy, which defines every result."""

from posse.lab.reference.engine import run as run
from posse.lab.reference.engine import simulate_block as simulate_block
from posse.lab.reference.environment import BlockEnvironment as BlockEnvironment
from posse.lab.reference.true_means import World as World
from posse.lab.reference.true_means import check_world as check_world
