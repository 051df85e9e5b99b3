"""What axe-core finds on a page: rules of accessibility, run in the browser."""

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
    """A rule that some elements of a page break."""

    rule: str
    impact: str
    help: str
    places: tuple[str, ...]

    @property
    def serious(self) -> bool:
        """Whether it keeps somebody from using the page."""
        return self.impact in SERIOUS

    def __str__(self) -> str:
        first, n = self.places[0].replace("\n", " "), len(self.places)
        return f"{self.impact} {self.rule}: {self.help} ({n} places, such as {first})"


def install(folder: Path) -> str:
    """The source of axe-core, by npm; it is not part of Posse."""
    folder.mkdir(exist_ok=True)
    words = ["npm", "install", "--no-save", "--no-audit", "--no-fund", "--silent", "axe-core"]
    subprocess.run([*words, "--prefix", folder], cwd=folder, check=True, timeout=300)
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def findings(browser: Any, source: str) -> list[Finding]:
    """The rules that the page in a browser breaks, serious ones first."""
    browser.execute_script(source)
    found = browser.execute_async_script(RUN)
    if isinstance(found, str):
        raise RuntimeError(f"axe-core failed: {found}")
    made = [Finding(rule, impact, help_, tuple(nodes)) for rule, impact, help_, nodes in found]
    return sorted(made, key=lambda each: not each.serious)
