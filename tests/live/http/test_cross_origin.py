"""CORS: pages of allowed origins may ask from a browser, and no others; off by default."""

import httpx
import pytest

from posse.live.config.agent_settings import settings_from_data
from posse.live.http import serve_node

SHOP = "https://shop.example.org"
OTHERS = [
    "https://evil.example",
    "https://shop.example.org.evil",
    "null",
    "",
    SHOP.upper(),
    SHOP + "/",
]
TOKEN = "a-token-of-some-length"
ASKING = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
DATA = {"name": "a", "arms": ["x", "y"], "family": "bernoulli"}


def marks(answer):
    return {name for name in answer.headers if name.startswith("access-control")}


@pytest.fixture(params=[(), (SHOP, "http://127.0.0.1:3000")], ids=["off", "on"])
def origins(request):
    return request.param


@pytest.fixture
def http(node, origins):
    with (
        serve_node(node, "127.0.0.1:0", origins=origins, token=TOKEN) as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=10) as client,
    ):
        yield client


def test_pages_of_allowed_origins_may_ask(http, node, origins):
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    for origin in [SHOP, "http://127.0.0.1:3000", *OTHERS]:
        headers = {"Origin": origin}
        allowed = origin in origins
        # a preflight has no token
        answer = http.options("/v1/decisions", headers=headers | ASKING)
        assert answer.status_code == (204 if allowed else 401)
        assert answer.headers.get("access-control-allow-origin") == (origin if allowed else None)
        if allowed:
            assert answer.content == b""
            assert "POST" in answer.headers["access-control-allow-methods"]
            assert "authorization" in answer.headers["access-control-allow-headers"]
        for sent, status in ((headers | bearer, 200), (headers, 401)):
            answer = http.post("/v1/decisions", json={}, headers=sent)
            assert answer.status_code == status
            assert bool(marks(answer)) == allowed  # so the page can read what is wrong, too
            assert answer.headers.get("vary") == ("origin" if origins else None)
    answer = http.options("/v1/decisions", headers={"Origin": SHOP, **bearer})  # no preflight
    assert answer.status_code == 405
    assert node.counts["decisions"] == 2 + len(OTHERS)


def test_a_page_may_read_the_tag_of_its_flags(http, origins):
    answer = http.get("/healthz", headers={"Origin": SHOP, "Authorization": f"Bearer {TOKEN}"})
    assert answer.headers.get("access-control-expose-headers") == (
        "etag, retry-after" if origins else None
    )


@pytest.mark.parametrize(
    "bad",
    ["*", "shop.example.org", SHOP + "/", SHOP + "/x", "null", "HTTPS://X", "https://x:y", 7, ""],
)
def test_origins_are_validated(bad):
    good = {**DATA, "http_origins": [SHOP, "http://[::1]:3000", "http://localhost:80"]}
    assert settings_from_data(good).http_origins[0] == SHOP
    with pytest.raises(ValueError, match="http_origins must be"):
        settings_from_data({**DATA, "http_origins": [bad]})
    with pytest.raises(ValueError, match="http_origins must be a list"):
        settings_from_data({**DATA, "http_origins": SHOP})
