"""A disk without space: no reward is acknowledged that is not on it, and later all goes on."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import time
from contextlib import suppress

import httpx
import pytest

pytestmark = pytest.mark.long
PREFIX = "/v1/experiments/checkout"


class SmallDisk:
    """A file system of its own, full of one file."""

    def __init__(self, folder) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self, swarm) -> None:
        with self._filler.open("wb", buffering=0) as filler, suppress(OSError):
            while True:
                filler.write(bytes(4096))
        assert shutil.disk_usage(self.folder).free == 0

    def free(self, swarm) -> None:
        self._filler.unlink()


class NoLongerFiles:
    """A limit of the operating system on the files that the agents write."""

    def __init__(self, folder) -> None:
        self.folder = folder

    def fill(self, swarm) -> None:
        self._limit(swarm, 1)

    def free(self, swarm) -> None:
        self._limit(swarm, resource.RLIM_INFINITY)

    def _limit(self, swarm, most: int) -> None:
        for site in swarm.sites:
            _, hard = resource.prlimit(site.process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(site.process.pid, resource.RLIMIT_FSIZE, (most, hard))


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root may mount a small file system; the limit on files is tested")
    yield SmallDisk(folder)
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def disk(kind, request, tmp_path):
    if kind == "a small file system":
        return request.getfixturevalue("small_disk")
    if not hasattr(resource, "prlimit"):
        pytest.skip("only Linux can limit a running process")
    return NoLongerFiles(tmp_path)


@pytest.mark.parametrize(
    ("kind", "exchange"),
    [
        ("a small file system", "origins"),
        ("a limit on files", "origins"),
        ("a limit on files", "flows"),
    ],
)
def test_a_full_disk(kind, exchange, disk, scale, swarm_of, until, check, tell):
    swarm = swarm_of(2, exchange, folder=disk.folder)
    site = swarm.sites[0]
    with httpx.Client(base_url=site.url, timeout=60, trust_env=False) as http:
        made = [http.post(f"{PREFIX}/decisions", json={}).json() for _ in range(20)]
        swarm.send_visitors()
        until(lambda: swarm.acknowledged > 40, "visitors are answered")
        disk.fill(swarm)

        def reward(decision) -> bool:
            answer = http.post(
                f"{PREFIX}/decisions/{decision['decision']}/reward", json={"reward": 1}
            )
            if answer.status_code == 503:
                assert "nothing was stored" in answer.json()["error"]
                assert answer.headers["Retry-After"] == "1"
                return False
            assert answer.status_code == 200
            if not answer.json()["repeated"]:
                site.add_acknowledged(decision["arm"], 1, "checkout")
            return True

        open_ = iter(made)
        until(lambda: not reward(next(open_)), "the store is full")
        before, end = swarm.acknowledged, time.monotonic() + scale.full
        refused = 0
        while time.monotonic() < end:
            refused += sum(not reward(decision) for decision in made)
            assert http.get("/healthz").status_code == 200
        assert refused > 0
        assert http.get("/readyz").status_code == 503
        meanwhile = swarm.acknowledged - before
        disk.free(swarm)
        until(lambda: all(map(reward, made)), "rewards are taken again")
        until(lambda: swarm.acknowledged > before + meanwhile + 60, "visitors are answered again")
        until(lambda: http.get("/readyz").status_code == 200, "it is ready again")
    assert [each.process.poll() for each in swarm.sites] == [None, None]
    line = check(swarm, exchange)
    tell(
        f"{exchange}, {kind}, full: {refused} rewards refused, "
        f"{meanwhile} acknowledged meanwhile: {line}"
    )


def test_a_start_on_a_full_disk(small_disk, swarm_of, until, check):
    """It says in one line what is wrong, which is not a damaged store; with space, it goes on."""
    swarm = swarm_of(2, "origins", folder=small_disk.folder)
    swarm.send_visitors()
    until(lambda: swarm.acknowledged > 40, "visitors are answered")
    site = swarm.sites[0]
    command = [sys.executable, "-c", "from posse.cli import main; main()", "agent", site.file]
    for end in (site.kill, site.request_stop):  # which leaves no files beside the store
        end()
        site.process.wait(60)
        small_disk.fill(swarm)
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert ended.returncode == 2
        (line,) = ended.stderr.splitlines()
        assert "space" in line
        assert "damaged" not in line
        small_disk.free(swarm)
        site.start()
        site.wait_until_ready()
    check(swarm, "origins")
