"""Reports: one HTML page that needs nothing but a browser, and files of all numbers beside it.

`scoreboard` has the numbers (mean regret, ranks, paired differences, tails), `pages` one page for
each kind of report: a comparison, a sweep, the arena's leaderboard and the paper. A page is made of
sections, a section of parts: text, which is escaped and becomes a paragraph, or markup.

    from posse.lab.report.document import Section, render_document, render_facts
    from posse.lab.report.html import render_table
    from posse.lab.report.text import format_number

    table = render_table("Every cell", ["Agents", "Regret"], [["10", format_number(14.2)]])
    page = render_document(
        "A sweep of the ring's size",
        [Section("regret", "Final regret", ["The purpose, in a sentence.", table])],
        summary=render_facts(["200 runs", "seed 7"]),
    )
"""

from posse.lab.report.curves import Chart as Chart
from posse.lab.report.curves import Curve as Curve
from posse.lab.report.curves import LeastSlope as LeastSlope
from posse.lab.report.curves import chart_results as chart_results
from posse.lab.report.curves import least_slope as least_slope
from posse.lab.report.curves import write_csv as write_csv
from posse.lab.report.scoreboard import BETTER as BETTER
from posse.lab.report.scoreboard import UNDECIDED as UNDECIDED
from posse.lab.report.scoreboard import WORSE as WORSE
from posse.lab.report.scoreboard import PairedDifference as PairedDifference
from posse.lab.report.scoreboard import Scoreboard as Scoreboard
from posse.lab.report.scoreboard import ScoreRow as ScoreRow
from posse.lab.report.scoreboard import adjust_pairs as adjust_pairs
from posse.lab.report.scoreboard import adjust_scoreboards as adjust_scoreboards
from posse.lab.report.scoreboard import build_scoreboard as build_scoreboard
from posse.lab.report.scoreboard import compare_pairs as compare_pairs
from posse.lab.report.scoreboard import estimate_mean as estimate_mean
from posse.lab.report.scoreboard import rank_algorithms as rank_algorithms
from posse.lab.report.scoreboard import score_comparison as score_comparison
from posse.lab.report.text import count_things as count_things
from posse.lab.report.text import warn_few_runs as warn_few_runs
from posse.lab.report.text import warn_unseen_tails as warn_unseen_tails
from posse.lab.report.text import write_json as write_json
from posse.lab.report.writer import check_folder as check_folder
from posse.lab.report.writer import write_report as write_report
