"""Swarms: many agents on this machine, with visitors, kills, and a count at the end."""

from posse.live.swarm.memory import in_memory as in_memory
from posse.live.swarm.processes import in_processes as in_processes
from posse.live.swarm.site import Count as Count
from posse.live.swarm.site import Site as Site
from posse.live.swarm.site import pulls as pulls
from posse.live.swarm.swarm import HALF_A_PULL as HALF_A_PULL
from posse.live.swarm.swarm import Swarm as Swarm
from posse.live.swarm.swarm import agent_settings as agent_settings
from posse.live.swarm.swarm import apart as apart
from posse.live.swarm.swarm import by_experiment as by_experiment
