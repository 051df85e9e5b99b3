"""The TypeScript client: its types are those of the agent, it compiles, and it works."""

import importlib.util
import json
import shutil
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from posse import __version__
from posse.live import Client
from posse.live.demo import create_process_sites
from posse.live.http import serve_node
from tests.live.loopback import free_addresses
from tests.live.several import Several, table
from tests.package_managers import install_from_npm

PACKAGE = Path(__file__).parents[2] / "clients" / "typescript"
ARMS = ["red", "green", "blue"]
SECONDS = 180
TOKENS = "token-of-the-application", "token-of-the-operators"


def test_types_are_those_of_the_agent():
    spec = importlib.util.spec_from_file_location("generate_types", PACKAGE / "generate_types.py")
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    types = generator.render_types(generator.read_document())
    advice = "routes have changed: run python clients/typescript/generate_types.py"
    assert (PACKAGE / "src" / "api.ts").read_text() == types, advice


def test_the_package_has_the_version_of_posse_and_no_dependencies():
    package = json.loads((PACKAGE / "package.json").read_text())
    assert package["version"] == __version__.partition(".dev")[0]
    assert "dependencies" not in package
    assert not list(PACKAGE.glob("*lock*"))


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """A copy of the package, compiled with the strict rules of its tsconfig.json."""
    folder = install_from_npm(tmp_path_factory.mktemp("client") / "typescript", "typescript")
    for name in ("package.json", "tsconfig.json", "src", "test"):
        source = PACKAGE / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    compiler = folder / "node_modules" / ".bin" / "tsc"
    done = subprocess.run([compiler, "-p", folder], text=True, capture_output=True, timeout=SECONDS)
    assert done.returncode == 0, done.stdout
    return folder


@pytest.fixture
def pages(built):
    """Two servers of the same files, which are two origins to a browser."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = partial(Quiet, directory=built)
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), handler) for _ in range(2)]
    threads = [threading.Thread(target=server.serve_forever) for server in servers]
    for thread in threads:
        thread.start()
    yield [f"http://127.0.0.1:{server.server_port}" for server in servers]
    for server, thread in zip(servers, threads, strict=True):
        server.shutdown()
        thread.join()
        server.server_close()


VISIT = """
const [url, done] = arguments;
import("/dist/index.js")
  .then(async ({ Client }) => {
    const client = new Client(url, { attempts: 1 });
    const decision = await client.pull({ visitor: "u-17" });
    const stored = await client.update(decision, 1);
    const problem = await client.update(decision, 0).catch((error) => error.message);
    done({ arm: decision.arm, stored, problem });
  })
  .catch((error) => done({ name: error.name, message: error.message }));
"""


def test_a_page_of_an_allowed_origin_in_a_browser(pages, browser, node):
    allowed, other = pages
    with serve_node(node, "127.0.0.1:0", origins=[allowed]) as server:
        browser.get(f"{allowed}/package.json")
        answer = browser.execute_async_script(VISIT, server.url)
        assert answer["stored"] is True, answer
        assert "has the reward 1.0" in answer["problem"]
        assert answer["arm"] in ARMS
        browser.get(f"{other}/package.json")
        answer = browser.execute_async_script(VISIT, server.url)
        assert answer["name"] == "Unavailable"
        assert "no agent answers" in answer["message"]
    assert node.counts["decisions"] == 1


@pytest.fixture
def node(tmp_path):
    fleet = Several(tmp_path)
    fleet.network.link("a", "b")  # a neighbour that never answers
    fleet.start(a=table("a", ["checkout"], arms=ARMS))
    yield fleet.nodes["a"]
    fleet.close()


@pytest.fixture
def site(tmp_path):
    for name, token in zip(("http", "operator"), TOKENS, strict=True):
        (tmp_path / f"{name}.token").write_text(token)
        (tmp_path / f"{name}.token").chmod(0o600)
    settings = {
        "name": "berlin",
        "arms": ARMS,
        "family": "bernoulli",
        "http_token": "http.token",
        "operator_token": "operator.token",
        "holdout": 0.05,
        "control_arm": "red",
        "experiments": {"checkout": {}},
    }
    (made,) = create_process_sites(tmp_path, [], [settings])
    shop = 'family = {name = "logistic", rate = 0.1}\ncontext = {country = ["de"]}\n'
    metrics = (
        '[experiments.checkout.metrics.latency]\nworse = "higher"\nlimit = 300\nrange = [0, 9999]\n'
    )
    made.file.write_text(made.file.read_text() + metrics + f"[experiments.shop]\n{shop}")
    made.start()
    try:
        with Client(made.url, token=TOKENS[0], experiment="checkout", patience=SECONDS) as client:
            client.arms()  # it is ready
        yield made
    finally:
        made.stop()


def obey(folder, site, ended):
    """Stop and start the agent when the application asks for it."""
    for name, act in (("stop", site.kill), ("start", site.start)):
        while not (folder / name).exists():
            if ended.wait(0.05):
                return
        act()


@pytest.mark.long
def test_the_client_against_a_real_agent(built, site, tmp_path):
    (away,) = free_addresses(1)
    ended = threading.Event()
    helper = threading.Thread(target=obey, args=(tmp_path, site, ended))
    helper.start()
    command = ["node", built / "test" / "application.mjs", site.url, *TOKENS, f"http://{away}"]
    try:
        done = subprocess.run([*command, tmp_path], text=True, capture_output=True, timeout=SECONDS)
    finally:
        ended.set()
        helper.join()
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "all is as expected"
