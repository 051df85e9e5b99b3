"""News for a page without an agent's effort: a change a second, fed fast, and what that leaves."""

AT_ONCE = 300  # changes: a driver does not wait for long

FEED = """
const [first, last, done] = arguments;
const turn = () => new Promise((next) => setTimeout(next));
(async () => {
  const { take } = await import(new URL("assets/agent.js", location.href));
  const name = document.getElementById("experiment").value;
  const whole = await (await fetch(`v1/experiments/${name}/page`)).json();
  for (let i = first; i < last; i += 1) {
    const { now, sections } = structuredClone(whole);
    for (const [k, arm] of Object.values(sections.arms).entries()) {
      arm.pulls_here += i;
      arm.pulls_in_network += 3 * i;
      arm.mean = 0.2 + 0.1 * k + 0.05 * Math.sin(i / 100);
      [arm.low, arm.high] = [arm.mean - 5 / (50 + i), arm.mean + 5 / (50 + i)];
    }
    for (const site of Object.values(sections.sites.sites)) {
      for (const arm of Object.values(site.arms)) arm.pulls += i;
    }
    sections.audit = { counted: 100 + 2 * i, in_evidence: 100 + 2 * i, in_network: 300 + 6 * i };
    sections.verdict.evidence = i / 1000;
    for (const [k, agent] of Object.values(sections.network.agents).entries()) {
      agent.heard = now + i - k;
      if (k === 1) agent.state = i % 300 < 20 ? "down" : "up";  // comes and goes
    }
    sections.controls.paused = i % 200 < 30 ? [Object.keys(sections.arms)[0]] : [];
    sections.past = [Math.floor(i / 60), 0];
    take({ now: now + i, sections }, true);
    if (i % 60 === 0) await turn();  // the past is asked for, and drawn
  }
  await turn();
  done(last - first);
})().catch((error) => done(String(error)));"""


def feed(browser, first, last):
    """Give the page these changes, one after the other."""
    for begin in range(first, last, AT_ONCE):
        end = min(last, begin + AT_ONCE)
        fed = browser.execute_async_script(FEED, begin, end)
        assert fed == end - begin, fed


def size(browser):
    """Bytes of JavaScript's heap, and nodes of the document, once what can go is gone."""
    command = browser.execute_cdp_cmd
    for name in ("HeapProfiler", "Performance"):
        command(f"{name}.enable", {})
    sizes = []
    for _ in range(4):  # real news come between, and leave nodes until the next collection
        command("HeapProfiler.collectGarbage", {})
        metrics = command("Performance.getMetrics", {})["metrics"]
        nodes = next(each["value"] for each in metrics if each["name"] == "Nodes")
        sizes.append((command("Runtime.getHeapUsage", {})["usedSize"], nodes))
    return tuple(map(min, zip(*sizes, strict=True)))
