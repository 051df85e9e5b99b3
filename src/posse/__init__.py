"""Posse: decentralized Bayesian bandits, many agents on a network without a centre.

Public names are imported on first use, so that `import posse` is fast.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posse import activity as activity
    from posse import algorithms as algorithms
    from posse import bandits as bandits
    from posse import beliefs as beliefs
    from posse import families as families
    from posse import interop as interop
    from posse import lab as lab
    from posse import live as live
    from posse import networks as networks
    from posse import offline as offline
    from posse import policies as policies
    from posse import sites as sites
    from posse import theory as theory
    from posse.algorithms import DDUCB as DDUCB
    from posse.algorithms import DPE2 as DPE2
    from posse.algorithms import Centralized as Centralized
    from posse.algorithms import ComEx as ComEx
    from posse.algorithms import CoopSE as CoopSE
    from posse.algorithms import CoopUCB as CoopUCB
    from posse.algorithms import CoopUCB2 as CoopUCB2
    from posse.algorithms import CoopUCL as CoopUCL
    from posse.algorithms import Decentralized as Decentralized
    from posse.algorithms import DiscountedUCB as DiscountedUCB
    from posse.algorithms import DistUCB as DistUCB
    from posse.algorithms import EventTriggered as EventTriggered
    from posse.algorithms import FedLinUCB as FedLinUCB
    from posse.algorithms import Flooding as Flooding
    from posse.algorithms import FollowYourLeader as FollowYourLeader
    from posse.algorithms import GosInE as GosInE
    from posse.algorithms import Isolated as Isolated
    from posse.algorithms import Liars as Liars
    from posse.algorithms import LinUCB as LinUCB
    from posse.algorithms import PartialPooling as PartialPooling
    from posse.algorithms import PushSum as PushSum
    from posse.algorithms import SlidingWindowUCB as SlidingWindowUCB
    from posse.algorithms import Tree as Tree
    from posse.algorithms import UCBNetwork as UCBNetwork
    from posse.bandits import Bandit as Bandit
    from posse.bandits import ContextualBandit as ContextualBandit
    from posse.bandits import NormalWeights as NormalWeights
    from posse.contexts import Contexts as Contexts
    from posse.effective_samples import calibrate as calibrate
    from posse.lab import Comparison as Comparison
    from posse.lab import Result as Result
    from posse.lab import compare as compare
    from posse.lab import concat as concat
    from posse.lab import load as load
    from posse.lab import paired_difference as paired_difference
    from posse.lab import simulate as simulate
    from posse.lab.experiments import Experiment as Experiment
    from posse.lab.experiments import experiment_of as experiment_of
    from posse.lab.experiments import read_experiment as read_experiment
    from posse.lab.experiments import write_experiment as write_experiment
    from posse.lab.sweeps import axis as axis
    from posse.lab.sweeps import read_sweep as read_sweep
    from posse.lab.sweeps import write_sweep as write_sweep
    from posse.lab.sweeps.sweep import Sweep as Sweep
    from posse.lab.sweeps.sweep import sweep as sweep
    from posse.live.agent import Agent as Agent
    from posse.policies import BayesUCB as BayesUCB
    from posse.policies import Greedy as Greedy
    from posse.policies import RandUCB as RandUCB
    from posse.policies import ThompsonSampling as ThompsonSampling
    from posse.policies import TopTwo as TopTwo
    from posse.policies import Uniform as Uniform
    from posse.rejection_replay import replay as replay
    from posse.stopping import Verdict as Verdict
    from posse.stopping import verdict as verdict
    from posse.summary import summarise as summarise

__version__ = "0.2.0.dev0"

_MODULES = (
    "activity",
    "algorithms",
    "bandits",
    "beliefs",
    "families",
    "interop",
    "lab",
    "live",
    "networks",
    "offline",
    "policies",
    "sites",
    "theory",
)
_ORIGIN = {
    "Agent": "posse.live.agent.agent",
    "Bandit": "posse.bandits",
    "BayesUCB": "posse.policies",
    "Centralized": "posse.algorithms",
    "Comparison": "posse.lab",
    "ComEx": "posse.algorithms",
    "Contexts": "posse.contexts",
    "ContextualBandit": "posse.bandits",
    "CoopSE": "posse.algorithms",
    "CoopUCB": "posse.algorithms",
    "CoopUCB2": "posse.algorithms",
    "CoopUCL": "posse.algorithms",
    "DDUCB": "posse.algorithms",
    "DPE2": "posse.algorithms",
    "DiscountedUCB": "posse.algorithms",
    "DistUCB": "posse.algorithms",
    "FedLinUCB": "posse.algorithms",
    "Flooding": "posse.algorithms",
    "FollowYourLeader": "posse.algorithms",
    "SlidingWindowUCB": "posse.algorithms",
    "UCBNetwork": "posse.algorithms",
    "Decentralized": "posse.algorithms",
    "GosInE": "posse.algorithms",
    "Greedy": "posse.policies",
    "Isolated": "posse.algorithms",
    "LinUCB": "posse.algorithms",
    "NormalWeights": "posse.bandits",
    "PartialPooling": "posse.algorithms",
    "RandUCB": "posse.policies",
    "Result": "posse.lab",
    "ThompsonSampling": "posse.policies",
    "TopTwo": "posse.policies",
    "Uniform": "posse.policies",
    "Liars": "posse.algorithms",
    "PushSum": "posse.algorithms",
    "EventTriggered": "posse.algorithms",
    "Tree": "posse.algorithms",
    "Experiment": "posse.lab.experiments",
    "axis": "posse.lab.sweeps.grid",
    "calibrate": "posse.effective_samples",
    "compare": "posse.lab",
    "concat": "posse.lab",
    "experiment_of": "posse.lab.experiments",
    "load": "posse.lab",
    "paired_difference": "posse.lab",
    "read_experiment": "posse.lab.experiments",
    "simulate": "posse.lab",
    "Sweep": "posse.lab.sweeps.sweep",
    "sweep": "posse.lab.sweeps.sweep",
    "read_sweep": "posse.lab.sweeps.files",
    "write_sweep": "posse.lab.sweeps.files",
    "write_experiment": "posse.lab.experiments",
    "Verdict": "posse.stopping",
    "replay": "posse.rejection_replay",
    "summarise": "posse.summary",
    "verdict": "posse.stopping",
}

__all__ = [*_MODULES, *_ORIGIN]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562)."""
    if name in _MODULES:
        value: Any = importlib.import_module(f"posse.{name}")
    elif name in _ORIGIN:
        value = getattr(importlib.import_module(_ORIGIN[name]), name)
    else:
        raise AttributeError(f"module 'posse' has no attribute {name!r}{_nearest(name)}")
    globals()[name] = value
    return value


def _nearest(name: str) -> str:
    """Return a suggestion of the public name that is nearest to a wrong one."""
    import difflib

    near = difflib.get_close_matches(name, __all__, n=1, cutoff=0.7)
    return f": did you mean {near[0]!r}?" if near else ""


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
