"""LaTeX tables in the style of the package booktabs, written as text."""

from __future__ import annotations

import math
from collections.abc import Sequence

# Characters that LaTeX reads as commands. The backslash comes first: the others insert backslashes.
_ESCAPES = {
    "\\": r"\textbackslash{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def escape_latex(text: str) -> str:
    """Escape text, letter by letter, so that LaTeX prints it as it is."""
    return "".join(_ESCAPES.get(letter, letter) for letter in text)


def format_estimate(mean: float, error: float, bold: bool = False) -> str:
    """Format a mean with its standard error, with the digits that two digits of the error allow."""
    if not math.isfinite(error) or error <= 0:
        text = f"{mean:.4g}"
        return rf"$\mathbf{{{text}}}$" if bold else f"${text}$"
    digits = max(0, 1 - math.floor(math.log10(error)))
    text = rf"{mean:.{digits}f}"
    if bold:
        text = rf"\mathbf{{{text}}}"
    return rf"${text} \pm {error:.{digits}f}$"


def format_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    names: int,
    caption: str | None = None,
    label: str | None = None,
) -> str:
    """Format a table with rules of booktabs; cells are LaTeX already.

    names:   how many columns name a row, and are aligned left; the others are aligned right
    caption: of a float around the table; without a caption and a label there is only a tabular
    """
    columns = "l" * names + "r" * (len(headers) - names)
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
    lines += [" & ".join(headers) + r" \\", r"\midrule"]
    previous: Sequence[str] | None = None
    for row in rows:
        # A line between groups helps the eye where the first of several names changes.
        if names > 1 and previous is not None and previous[0] != row[0]:
            lines.append(r"\addlinespace")
        repeated = names > 1 and previous is not None and previous[0] == row[0]
        shown = ["", *row[1:]] if repeated else row
        lines.append(" & ".join(shown) + r" \\")
        previous = row
    lines += [r"\bottomrule", r"\end{tabular}"]
    if caption is None and label is None:
        return "\n".join(lines) + "\n"
    extra = [] if caption is None else [rf"\caption{{{escape_latex(caption)}}}"]
    extra += [] if label is None else [rf"\label{{{label}}}"]
    whole = [r"\begin{table}", r"\centering", *extra, *lines, r"\end{table}"]
    return "\n".join(whole) + "\n"
