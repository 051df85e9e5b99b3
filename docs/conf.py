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


def _fields(app: Any, what: str, name: str, object_: Any, options: Any, lines: list[str]) -> None:
    """Docstrings list arguments and arrays as `name: what it is`, a line each: make them fields."""
    inside = False
    for i, line in enumerate(lines):
        found = _FIELD.match(line)
        if found:
            lines[i] = f":{found[1]}: {found[2]}"
        elif inside and line.strip():
            lines[i] = f"    {line.strip()}"
        inside = bool(found) or (inside and bool(line.strip()))


def setup(app: Any) -> None:
    """Connect the hook."""
    app.connect("autodoc-process-docstring", _fields)
