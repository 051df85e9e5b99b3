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
