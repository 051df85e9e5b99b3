"""Accessibility checks: axe-core, run in the browser."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SERIOUS = ("serious", "critical")
RUN = """
const done = arguments[0];
const place = ({ html, failureSummary }) => `${html.slice(0, 200)} ${failureSummary}`;
axe.run(document, { resultTypes: ["violations"] }).then(
  ({ violations }) => done(violations.map(({ id, impact, help, nodes }) =>
    [id, impact, help, nodes.map(place)])),
  (error) => done(String(error)));"""


@dataclass(frozen=True)
class Finding:
    """An accessibility rule that some elements of a page violate."""

    rule: str
    impact: str
    help: str
    places: tuple[str, ...]

    @property
    def is_serious(self) -> bool:
        """Whether the violation keeps somebody from using the page."""
        return self.impact in SERIOUS

    def __str__(self) -> str:
        first = self.places[0].replace("\n", " ")
        return f"{self.impact} {self.rule}: {self.help} ({len(self.places)} places, e.g. {first})"


def install_axe(folder: Path) -> str:
    """Install axe-core by npm and return its source; it is not part of Posse."""
    folder.mkdir(exist_ok=True)
    command = ["npm", "install", "--no-save", "--no-audit", "--no-fund", "--silent", "axe-core"]
    subprocess.run([*command, "--prefix", folder], cwd=folder, check=True, timeout=300)
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def find_violations(browser: Any, source: str) -> list[Finding]:
    """Return the rules that the page in a browser violates, serious ones first."""
    browser.execute_script(source)
    violations = browser.execute_async_script(RUN)
    if isinstance(violations, str):
        raise RuntimeError(f"axe-core failed: {violations}")
    findings = [
        Finding(rule, impact, text, tuple(nodes)) for rule, impact, text, nodes in violations
    ]
    return sorted(findings, key=lambda finding: not finding.is_serious)
