"""Software of others, from PyPI and npm into a folder; where that fails, a skip says so."""

import shutil
import subprocess
import sys

import pytest

SECONDS = 300  # for a slow network


def install_from_pypi(folder, *packages):
    """Install packages for this Python into a folder, to be put on its path."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _install(folder, [*command, "--target", folder, *packages], packages)
    return folder


def install_from_npm(folder, *packages):
    """Install packages for Node into a folder; modules beside `node_modules` find them."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip(f"node and npm are not installed: nothing was tested with {packages[0]}")
    folder.mkdir(parents=True)
    command = ["npm", "install", "--no-save", "--no-audit", "--no-fund", "--silent"]
    _install(folder, [*command, *packages], packages)
    return folder


def _install(folder, command, packages):
    try:
        done = subprocess.run(
            command, cwd=folder if folder.exists() else None, text=True, capture_output=True,
            timeout=SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        pytest.skip(f"installing {packages[0]} took longer than {SECONDS} s: nothing was tested")
    if done.returncode:
        why = (done.stderr or done.stdout).strip().splitlines()[-1:]
        pytest.skip(f"{packages[0]} cannot be installed: nothing was tested with it ({why})")
