"""Tuned rivals on the instances of docs/beyond-the-paper.md: mean and tail, beside dec-TS.

The constants are those of the arena's tuned rivals, which lab_tuned_rivals.py chose on other
instances. Seeds are those of the experiment files, so runs are paired with those of lab_beyond.py.
"""

from __future__ import annotations

import sys
import time

from lab_beyond import FILES, OF, load_or_play, table

from posse.lab.arena.players import choose_players

# The instances on the page, and the tuned rivals that come nearest to dec-TS or are ahead of it
NUMBERS = ("04", "07", "08", "09", "15", "16", "23")
NAMES = ("coop-UCB2 (tuned)", "coop-UCL (tuned)", "CO-UCB (tuned)")


def study(runs=400):
    """The tables; nothing in them is a promise that could break."""
    algorithms = {name: player.algorithm for name, player in choose_players([OF, *NAMES]).items()}
    tables = []
    for path in FILES:
        if not path.stem.startswith(NUMBERS):
            continue
        start = time.process_time()
        tables.append(table(path, load_or_play(path, runs, algorithms)))
        print(f"{path.stem}: {time.process_time() - start:.0f} s of CPU", file=sys.stderr)
    return "\n\n".join(tables), []
