"""The long statistical work behind the tables of the docs: fixed seeds, numbers written there.

    make study                                      # all of them, an hour or more
    .venv/bin/python studies/run.py live_regret     # one
    .venv/bin/python studies/run.py live_regret --runs 20 --show   # a look, nothing is written

A study is a file here with a function `study(runs)` (with tables to choose from, `study(runs,
only)` and TABLES) that returns the text between the marks
`<!-- study: NAME -->` and `<!-- end -->` of a page, and what in it breaks a promise of that page.
FIGURES, if it has them, are pictures for docs by the names of their files.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"


def find_page(name):
    """The page with the marks of a study."""
    pages = [
        page for page in sorted(DOCS.rglob("*.md")) if f"<!-- study: {name} -->" in page.read_text()
    ]
    if len(pages) != 1:
        raise SystemExit(f"study {name} must have its marks in one page of docs, got {pages}")
    return pages[0]


def write_text(name, text):
    """Put the text of a study between its marks."""
    page = find_page(name)
    marks = re.compile(rf"(<!-- study: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    page.write_text(marks.sub(lambda found: f"{found[1]}\n{text}\n\n{found[2]}", page.read_text()))


def list_studies():
    """The names of the files that are studies."""
    return [path.stem for path in sorted(HERE.glob("*.py")) if "\ndef study(" in path.read_text()]


def main():
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(list_studies())}")
    parser.add_argument("--runs", type=int, help="instead of as many as the page is to show")
    parser.add_argument(
        "--only", metavar="TABLE", help="one table of a study that has several; writes no page"
    )
    parser.add_argument("--show", action="store_true", help="print only, change no page")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(list_studies())
    if unknown:
        parser.error(
            f"no study is called {', '.join(unknown)}: there are {', '.join(list_studies())}"
        )
    broken = []
    for name in arguments.names or list_studies():
        print(f"{name} ...", file=sys.stderr, flush=True)
        start = time.monotonic()
        module = importlib.import_module(name)
        options = {"runs": arguments.runs, "only": arguments.only}
        options = {key: value for key, value in options.items() if value is not None}
        if arguments.only is not None and arguments.only not in getattr(module, "TABLES", {}):
            tables = ", ".join(getattr(module, "TABLES", {})) or "no tables to choose from"
            parser.error(f"study {name} has {tables}, not {arguments.only}")
        text, wrong = module.study(**options)
        print(f"{text}\n({time.monotonic() - start:.0f} s)\n", flush=True)
        # a page shows all tables of a study, so one of them alone is only printed
        if not arguments.show and arguments.only is None:
            write_text(name, text)
            for file, figure in getattr(module, "FIGURES", {}).items():
                figure.savefig(DOCS / file)
        broken += [f"{name}: {complaint}" for complaint in wrong]
    if broken:
        sys.exit("\n".join(broken))


if __name__ == "__main__":
    main()
