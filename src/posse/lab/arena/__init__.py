"""The arena: every algorithm on a fixed suite of instances, and a leaderboard of them.

A suite (`suite`) is played by the line-up and by user-defined algorithms, plugins by import string
(`players`, `tournament`); scoreboards of the instances and the leaderboard over all of them
(`standings`) become data (`report_data`) and a page (`lab/report/pages/arena.py`).
"""

from posse.lab.arena.players import choose_players as choose_players
from posse.lab.arena.players import list_players as list_players
from posse.lab.arena.players import load_players as load_players
from posse.lab.arena.report_data import ABSTRACT as ABSTRACT
from posse.lab.arena.report_data import BASELINE as BASELINE
from posse.lab.arena.report_data import BOUND as BOUND
from posse.lab.arena.report_data import CODE as CODE
from posse.lab.arena.report_data import MARKS as MARKS
from posse.lab.arena.report_data import MEMORY as MEMORY
from posse.lab.arena.report_data import OURS as OURS
from posse.lab.arena.report_data import PAPER as PAPER
from posse.lab.arena.report_data import TUNED as TUNED
from posse.lab.arena.report_data import YOURS as YOURS
from posse.lab.arena.report_data import ArenaReport as ArenaReport
from posse.lab.arena.report_data import InstanceReport as InstanceReport
from posse.lab.arena.report_data import LeaderboardRow as LeaderboardRow
from posse.lab.arena.report_data import write_data as write_data
from posse.lab.arena.standings import build_report as build_report
from posse.lab.arena.suite import PLAIN as PLAIN
from posse.lab.arena.suite import choose_instances as choose_instances
from posse.lab.arena.suite import load_suite as load_suite
from posse.lab.arena.tournament import Arena as Arena
from posse.lab.arena.tournament import choose_form as choose_form
from posse.lab.arena.tournament import choose_workers as choose_workers
from posse.lab.arena.tournament import measure_seconds_per_run as measure_seconds_per_run
