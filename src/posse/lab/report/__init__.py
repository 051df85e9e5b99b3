"""The report of anybody's comparison: one page that needs nothing but a browser, and its files."""


# What the report pages share: one file without requests, its look, its tables and its charts.
#
# A page is made of sections, a section of parts; a part is text (escaped, a paragraph of its own)
# or markup that one of these functions made:
#
#     from posse.lab.report import charts, formats
#     from posse.lab.report.document import Section, document, facts, figure, image
#     from posse.lab.report.html import table
#
#     page = document(
#         "A sweep of the ring's size",
#         [
#             Section("regret", "Final regret", [
#                 "What was asked, in a sentence.",
#                 figure(image(png, "Final regret against the number of agents"), "95% intervals"),
#                 table("Every cell", ["Agents", "Regret"], [["10", formats.number(14.2)]]),
#             ]),
#         ],
#         summary=facts(["200 runs", "seed 7"]),
#     )
