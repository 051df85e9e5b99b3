"""Demonstrations: many agents on this machine, with visitors, kills and an audit at the end."""

from posse.live.demo.fleet import Fleet as Fleet
from posse.live.demo.fleet import create_memory_sites as create_memory_sites
from posse.live.demo.processes import create_process_sites as create_process_sites
from posse.live.demo.site import AgentSite as AgentSite
from posse.live.demo.site import Count as Count
from posse.live.demo.site import count_pulls as count_pulls
from posse.live.demo.swarm import HALF_A_PULL as HALF_A_PULL
from posse.live.demo.swarm import Swarm as Swarm
from posse.live.demo.swarm import agent_settings as agent_settings
from posse.live.demo.swarm import group_by_experiment as group_by_experiment
from posse.live.demo.swarm import largest_gap as largest_gap
