"""`python -m conformance`: run all checks one after the other, and print what each found."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from conformance.checks import CHECKS, Failed, Skipped


def main() -> int:
    """Run the checks; the exit code is 1 if one failed. Skipped ones are said at the end again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=60, help="examples of an operation")
    parser.add_argument("--only", nargs="*", choices=list(CHECKS), help="these checks alone")
    arguments = parser.parse_args()
    chosen = arguments.only or list(CHECKS)
    failed = []
    skipped = []
    for name in chosen:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
            try:
                outcome = f"passed: {CHECKS[name](Path(folder), arguments.cases)}"
            except Skipped as why:
                outcome = f"SKIPPED: {why}"
                skipped.append(name)
            except (Failed, RuntimeError, OSError) as why:
                outcome = f"FAILED: {why}"
                failed.append(name)
        print(f"{name} [{time.monotonic() - began:.0f} s]: {outcome}", flush=True)
    print(f"{len(chosen) - len(failed) - len(skipped)} of {len(chosen)} checks passed")
    if skipped:
        print(f"NOT CHECKED, because a tool is missing: {', '.join(skipped)}")
    if failed:
        print(f"FAILED: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
