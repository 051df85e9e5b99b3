"""The arena: every algorithm on a fixed suite of instances, and a leaderboard of them.

A suite (`suite`) is played by the line-up and by user-defined algorithms, plugins by import string
(`players`, `tournament`); scoreboards of the instances and the leaderboard over all of them
(`standings`) become data (`report_data`) and a page (`lab/report/pages/arena.py`).
"""
