"""What the wheel holds: all that the package reads beside its code."""

from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[1]


def test_every_page_style_script_and_suite_is_in_the_wheel():
    found = {each.distribution_path for each in WheelBuilder(str(ROOT)).recurse_included_files()}
    lying = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "posse").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"posse/web/tokens.css", "posse/lab/pages/document.html"} <= lying
    assert lying <= found
