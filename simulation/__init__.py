"""Deterministic simulation of whole live agents: one seed, one schedule, one verdict.

Real nodes on real SQLite files, with a network, clocks and disks that do what a schedule says. A
schedule is a list of steps drawn from a seed; a history checker knows every acknowledgement and
says at the end what must be there. `python -m simulation --seed 1 --exchange origins` repeats one.
"""
