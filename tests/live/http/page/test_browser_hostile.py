"""Names that would be markup, scripts, commands to the layout: text, whoever sent them."""

import pytest

from posse.live.membership.records import Status, StatusMessage
from tests.browsing import screen
from tests.live.http.page.watching import START, world

SCRIPT = "<script>window.hacked = 1</script>"
IMAGE = '"><img src=x onerror="window.hacked = 1">'
ALEF = "\N{ARABIC LETTER ALEF}"
LEFTWARDS, OVERRIDE = f"{ALEF}{ALEF} (1)", "\N{RIGHT-TO-LEFT OVERRIDE}evil" + ALEF
LONG = "x" * 200
WORDS = "long words " * 18
ODD = ["__proto__", "constructor", "toString", "</textarea>{{7*7}}${7*7}", "'; DROP TABLE arm; --"]
ARMS = [SCRIPT, IMAGE, LEFTWARDS, LONG, WORDS.strip(), *ODD]
NAMES = {"berlin": "berlin", SCRIPT: "b", LONG: "c", OVERRIDE: "d", "__proto__": "e"}
STRANGER = f"{IMAGE} of a status"
# what holds a letter that is written to the left beside words that are not
LOOSE = """((letter) => {
  const bare = (text) => text.replace(/\\u2068[^\\u2069]*\\u2069/g, "").includes(letter);
  const alone = (holder) => holder.closest("bdi, option") || holder.ownerSVGElement;
  const loose = [...document.querySelectorAll("[data-tip]")].filter((e) => bare(e.dataset.tip));
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { data, parentElement: holder } = walker.currentNode;
    if (bare(data) && !alone(holder)) loose.push(holder);
  }
  return loose.map((each) => each.outerHTML);
})(arguments[0])"""


def data(name, file, arms=ARMS):
    stop = {"error": 0.05}
    tables = {"checkout": {"arms": arms, "family": "bernoulli", "stop": stop, "reward_window": 60}}
    tables["e" * 64] = {"arms": ["a", "b"], "family": "bernoulli"}
    return {"name": name, "store": f"{file}.db", "experiments": tables}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    settings = {name: data(name, file) for name, file in NAMES.items()}
    with world(tmp_path_factory.mktemp("hostile"), **settings) as made:
        for name in ("berlin", LONG):
            one = made.nodes[name].experiment("checkout")
            with one.store.transaction(durable=False):
                for k, arm in enumerate(ARMS):
                    for i in range(12):
                        one.reward(one.decide(allowed=[arm]).id, float(i % 6 <= k % 4))
        made.nodes["berlin"].pin("checkout", SCRIPT)
        for arm in (IMAGE, LONG):
            made.nodes["berlin"].pause("checkout", arm)
        status = Status(
            STRANGER, "default", round(1000 * START), 0, "<b>9.9</b>",
            ((IMAGE, True, 5), ("berlin", True, 5)), ((SCRIPT, 7, 0, 0),), ((SCRIPT, 3),),
        )  # fmt: skip
        made.nodes["berlin"].presence.receive(
            SCRIPT, StatusMessage(((0, status),), round(1000 * START), 0, 0), made.now
        )
        made.tick(2)
        for _ in range(4):
            made.now += 45
            made.tick()
        made.network.unlink("berlin", SCRIPT)  # the neighbour is lost, and in the first line
        made.tick(2)
        yield made


def test_names_are_text_and_break_nothing(hostile, watch):
    page = watch(hostile.urls["berlin"])
    page.is_drawn()
    page.wait("document.querySelector('#chart svg path')")
    markup = "script:not([src]), img, textarea, h1 b, .arms b b, #tip *"
    for width in (1440, 1000, 375):
        screen(page.browser, width)
        assert page.overflow() <= 0, width
        assert page.texts(".arms tbody th bdi") == ARMS
        assert set(page.texts(".agents th[scope=row] > bdi:first-child")) >= {*NAMES, STRANGER}
        assert set(page.texts(".heat tbody th bdi")) == {"berlin", LONG}
        assert page.texts(markup) == []
    assert page.run("window.hacked ?? null") is None
    screen(page.browser, 1440)
    # every sentence too, and the readout of the chart
    page.run(
        "document.querySelectorAll('[data-tip]').forEach((each) =>"
        " each.dispatchEvent(new PointerEvent('pointerover', { bubbles: true })))"
    )
    page.run("document.querySelector('#chart svg').focus()")
    page.press("\ue012")  # to the left
    assert page.run("!document.querySelector('#chart .readout').hidden")
    assert page.overflow() <= 0
    assert page.texts(markup) == []
    assert page.run("window.hacked ?? null") is None
    assert SCRIPT in page.text("#notes")
    assert IMAGE in page.text("h1")


def test_a_name_to_the_left_leaves_the_words_around_it_as_they_are(hostile, watch):
    page = watch(hostile.urls["berlin"])
    page.is_drawn()
    loose = page.run(LOOSE, ALEF)
    assert not loose, "\n".join(loose)


def test_the_policy_keeps_injected_scripts_and_strangers_out(hostile, watch):
    page = watch(hostile.urls["berlin"])
    page.is_drawn()
    page.allowed += ["Content Security Policy", "default-src"]
    page.run(
        """(() => {
          const script = document.createElement("script");
          script.textContent = "window.hacked = 2";
          document.body.append(script);
          const image = document.createElement("img");
          image.setAttribute("onerror", "window.hacked = 3");
          image.src = "data:image/png;base64,AAAA";
          document.body.append(image);
          const style = document.createElement("div");
          style.setAttribute("style", "color: red");
          window.styled = style.style.color;
          const frame = document.createElement("iframe");
          frame.src = "https://elsewhere.example/";
          document.body.append(frame);
        })()"""
    )
    tried = page.browser.execute_async_script(
        """const done = arguments[0];
        const failed = (what) => what.then(() => "worked", () => "failed");
        Promise.all([
          failed(fetch("https://elsewhere.example/")),
          failed(import("data:text/javascript,window.hacked = 4")),
          failed(new Promise((done, failed) => {  // later: what a driver runs may do more
            setTimeout(() => { try { done(eval("window.hacked = 5")); } catch (e) { failed(e); } });
          })),
        ]).then(done);"""
    )
    assert tried == ["failed"] * 3
    assert page.run("window.hacked ?? null") is None
    assert not page.run("window.styled")
