"""Swarms: many agents on this machine, with visitors, kills, and a count at the end."""

from posse.live.demo.memory import in_memory as in_memory
from posse.live.demo.processes import in_processes as in_processes
from posse.live.demo.site import Count as Count
from posse.live.demo.site import Site as Site
from posse.live.demo.site import pulls as pulls
from posse.live.demo.swarm import HALF_A_PULL as HALF_A_PULL
from posse.live.demo.swarm import Swarm as Swarm
from posse.live.demo.swarm import agent_settings as agent_settings
from posse.live.demo.swarm import apart as apart
from posse.live.demo.swarm import by_experiment as by_experiment
