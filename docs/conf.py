"""How `make docs` builds the site: MyST pages, and the reference from docstrings."""

import re
from typing import Any

import posse

project = "Posse"
author = "the Posse developers"
version = release = posse.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
default_role = "code"  # docstrings quote code in single backticks

myst_heading_anchors = 3  # links to headings are checked, down to ###
myst_enable_extensions = ["colon_fence", "dollarmath"]

html_theme = "furo"
html_title = f"Posse {release}"
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5fa8", "color-brand-content": "#1f5fa8"},
    "dark_css_variables": {"color-brand-primary": "#7db3f0", "color-brand-content": "#7db3f0"},
}
pygments_style = "friendly"
pygments_dark_style = "native"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
python_maximum_signature_line_length = 90
python_use_unqualified_type_names = True

_FIELD = re.compile(r"^(\w+): +(\S.*)$")
_CODE = re.compile(r"(`[^`]*`)")


def _as_rst(app: Any, what: str, name: str, object_: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text: escape what Sphinx would take for markup.

    Lists of arguments and arrays, a line `name: what it is` each, become fields.
    """
    may_begin, inside, example = False, False, False
    for i, line in enumerate(lines):
        blank = not line.strip()
        example = line.startswith(">>>") or (example and not blank)
        found = _FIELD.match(line) if may_begin or inside else None
        if not example:
            lines[i] = _escaped(line)
        if found:
            lines[i] = f":{found[1]}: {_escaped(found[2])}"
        elif inside and not blank:
            lines[i] = f"    {_escaped(line.strip())}"
        inside = bool(found) or (inside and not blank)
        may_begin = blank


def _escaped(line: str) -> str:
    """The line with * and | as they stand, but for code in backticks."""
    parts = _CODE.split(line)
    return "".join(p if p.startswith("`") else re.sub(r"([*|])", r"\\\1", p) for p in parts)


def setup(app: Any) -> None:
    """Connect the hook."""
    app.connect("autodoc-process-docstring", _as_rst)
