"""A node of one experiment in memory: the shape that most tests of nodes need."""

import secrets
import time

from posse.live.exchange.messages import DEFAULT
from posse.live.experiment.experiment import LiveExperiment
from posse.live.experiment.reward_window import RewardWindow
from posse.live.node import Node


def single_node(
    agent,
    store,
    transport,
    *,
    reward_window=RewardWindow(),  # noqa: B008 (frozen)
    remember=None,
    clock=time.time,
    draw=secrets.randbits,
    **options,
):
    """A node that runs this agent as its only experiment, under the default name."""
    experiment = LiveExperiment(
        DEFAULT,
        agent,
        store,
        reward_window=reward_window,
        remember=remember,
        clock=clock,
        draw=draw,
    )
    return Node(agent.exchange.identity, [experiment], store, transport, clock=clock, **options)
