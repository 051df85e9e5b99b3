"""The page's files: everybody's, small, and asking nobody but their agent."""

import re
from pathlib import Path

import httpx
import pytest

from posse import web
from posse.live.http import serve_node
from posse.live.http.page import ASSETS, PAGE, POLICY

FOLDER = Path(web.__file__).parent
TOKEN = "application's"


@pytest.fixture
def closed(node):
    """A client of an agent that wants a token, without one."""
    with (
        serve_node(node, "127.0.0.1:0", token=TOKEN, operator_token="operators'") as server,
        httpx.Client(base_url=server.url, trust_env=False) as client,
    ):
        yield client


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def test_the_page_and_its_files_need_no_token_and_what_they_show_does(closed):
    for path in ("/", *(f"/assets/{name}" for name in ASSETS)):
        assert closed.get(path).status_code == 200
    for path in ("/v1/page", "/v1/page/stream", "/v1/sites", "/v1/history/day", "/v1/arms"):
        assert closed.get(path).status_code == 401
    assert closed.get("/v1/page", headers=bearer(TOKEN)).status_code == 200


def test_headers_forbid_other_hosts_frames_and_guessing_of_types(http):
    kinds = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg"}
    for path in ("/", *(f"/assets/{name}" for name in ASSETS)):
        answer = http.get(path)
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-type"].startswith(
            kinds.get(path.rpartition(".")[2], "text/")
        )
    assert "default-src 'self'" in POLICY
    assert "frame-ancestors 'none'" in POLICY


def test_a_page_is_asked_for_by_name_of_this_agent_only(http):
    assert http.get("/", headers={"Host": "evil.example"}).status_code == 403
    assert http.post("/", json={}).status_code == 405
    for path in (
        "/assets/",
        "/assets/__init__.py",
        "/assets/../web/agent.html",
        "/assets/swarm.js",
    ):
        assert http.get(path).status_code == 404


def test_the_files_are_small_name_each_other_and_no_other_host():
    texts = {name: web.read(name) for name in (PAGE, *ASSETS)}
    assert sum(len(text.encode()) for text in texts.values()) < 150_000
    page = texts[PAGE]
    assert set(re.findall(r'(?:href|src)="assets/([^"]+)"', page)) == set(ASSETS)
    assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|\sstyle=", page)
    for name, text in texts.items():
        addresses = set(re.findall(r"https?://[^\s\"'`)]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}, name
        assert "innerHTML" not in text
        assert "eval(" not in text
        imported = set(re.findall(r'from "\./([^"]+)"', text))
        assert imported <= set(ASSETS), name


def test_every_file_is_served_by_somebody():
    names = {
        each.name for each in FOLDER.iterdir() if each.suffix in (".js", ".css", ".svg", ".html")
    }
    assert {PAGE, *ASSETS} <= names


def test_a_caller_is_told_what_it_may_do(closed):
    def said(headers=None):
        return closed.get("/v1/caller", headers=headers).json()

    nobody = {"admitted": False, "operator": False, "known_token": False, "experiments": []}
    assert said() == nobody
    assert said(bearer("a guess")) == said()
    assert said(bearer(TOKEN)) == {
        "admitted": True,
        "operator": False,
        "known_token": True,
        "experiments": ["default"],
    }
    operator = said(bearer("operators'"))
    assert operator["operator"]
    assert operator["known_token"]


def test_a_wrong_token_is_not_known_even_where_none_is_needed(node):
    with serve_node(node, "127.0.0.1:0", operator_token="operators'") as server:
        url = f"{server.url}/v1/caller"
        caller = httpx.get(url, headers=bearer("a guess"), trust_env=False).json()
    assert (caller["admitted"], caller["known_token"]) == (True, False)


def test_the_probe_has_no_page(node):
    from posse.live.http import serve_probe

    with serve_probe(node, "127.0.0.1:0") as server:
        assert httpx.get(f"{server.url}/", trust_env=False).status_code == 404
        assert httpx.get(f"{server.url}/v1/caller", trust_env=False).status_code == 404
