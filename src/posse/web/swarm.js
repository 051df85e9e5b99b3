// The page of a swarm: shows its views, the newest or a past one, and presses its buttons.
import { timeChart } from "./chart.js";
import { $, h, render, s } from "./dom.js";
import { clamp, elapsed, fixed } from "./format.js";
import { follow, post } from "./swarm-feed.js";
import { flights } from "./swarm-flights.js";
import { network } from "./swarm-drawing.js";
import { audit, lead, legend, log, table } from "./swarm-words.js";
import { theme } from "./theme.js";
import { explain, settle } from "./tips.js";

const POINTS = 300; // of a curve, at most
const VIEW = 0.5; // seconds from one view to the next
const MODES = {
  memory: "real agents in one process, on a network in memory; no central server",
  processes: "real agents in processes, with TLS between them; no central server",
};
const calm = matchMedia("(prefers-reduced-motion: reduce)");

const views = [];
let at = null; // the number of the past view that is shown; null: the newest
let [picked, edge] = [null, null]; // an agent's name, a link's place
let [drawn, before, streamed, problem] = [null, null, true, null]; // the last view drawn, the last frame, and how changes arrive
let replay = null; // the timer that replays the past
let held = false; // whether looking at the past has paused the swarm
const last = () => views.at(-1);
const index = () => (at === null ? views.length - 1 : clamp(at - views[0].number, 0, views.length - 1));
const live = () => at === null && !problem && last()?.phase !== "ended";
const name = (view, link) => link.map((i) => view.agents[i]).join("–");

const drawing = network($("graph"), (agent, link) => {
  if (agent !== null) picked = views[index()].agents[agent];
  else edge = link;
  show();
});
const messages = flights(drawing.flights, drawing.place, drawing.radius);
const chart = timeChart($("regret"), "elapsed");

// Buttons: what each is called now, what it does, and whether it can be pressed.
const buttons = (view) => {
  const i = Math.max(0, view.agents.indexOf(picked));
  const [who, state, link] = [view.agents[i], view.states[i], view.links[edge] ?? view.links[0]];
  const [l, ends] = [view.links.indexOf(link), link.map((each) => view.agents[each])];
  const [dead, halted, severed] = [state === "killed", state === "stopped", view.cut.includes(l)];
  return {
    kill: [dead ? `Start ${who}` : `Kill ${who}`, { button: dead ? "start" : "kill", agent: who }, true, dead],
    stop: [halted ? `Resume ${who}` : `Stop ${who}`, { button: halted ? "go-on" : "stop", agent: who }, halted || state === "runs", halted],
    lie: [view.lies[i] ? `Let ${who} be honest` : `Make ${who} lie`, { button: view.lies[i] ? "tell-truth" : "lie", agent: who }, true, view.lies[i]],
    differ: [view.differs[i] ? `Same visitors at ${who}` : `Other visitors at ${who}`, { button: view.differs[i] ? "be-alike" : "differ", agent: who }, true, view.differs[i]],
    cut: [`${severed ? "Restore" : "Cut"} ${name(view, link)}`, { button: severed ? "join" : "cut", link: ends }, true, severed],
    lose: [view.loss ? "Lose no messages" : "Lose 20% of messages", { button: view.loss ? "lose-none" : "lose" }, true, view.loss > 0],
    agent: ["Add an agent", { button: "add-agent" }, view.agents.length < 12, false],
    arm: ["Add an arm", { button: "add-arm" }, view.arms.length < 6, false],
  };
};
const showButtons = (view) => {
  for (const [id, [text, , able, pressed]] of Object.entries(buttons(view))) {
    const button = $(id);
    if (button.textContent !== text) button.textContent = text;
    button.disabled = !able || !live();
    button.classList.toggle("undo", pressed);
  }
};
const send = async (path, body) => {
  try {
    return await post(path, body);
  } catch (error) {
    $("said").textContent = `That did not work: ${error.message}.`;
    return null;
  }
};
for (const id of ["kill", "stop", "lie", "differ", "cut", "lose", "agent", "arm"]) {
  $(id).addEventListener("click", async () => {
    const told = await send("v1/press", buttons(last())[id][1]);
    if (told) $("said").textContent = `${told.said}.`;
  });
}

// The first line, the notice above it, and what is below.
const showTime = (view) => {
  const slider = $("slider");
  slider.max = views.length - 1;
  slider.value = index();
  slider.setAttribute("aria-valuetext", `${elapsed(view.time)} of ${elapsed(last().time)}`);
  $("when").textContent = `${elapsed(view.time)} / ${elapsed(last().time)}`;
  const stands = at === null ? view.paused : replay === null;
  $("play").textContent = stands ? "Play" : "Pause";
  $("play").disabled = at === null && !live();
  $("pace").hidden = view.mode !== "memory";
  $("speed").disabled = problem !== null || last().phase === "ended";
  if (document.activeElement !== $("speed")) $("speed").value = String(last().speed);
  $("past").hidden = at === null;
  const [from, to, wide] = [views[0].time, last().time, slider.clientWidth - 16];
  render($("marks"), ...last().events.filter(([time]) => time >= from && to > from).map(([time, text]) => s("path", { class: "eventmark", "data-key": `${time} ${text}`, d: "M-4 0H4L0 7Z", transform: `translate(${(8 + (wide * (time - from)) / (to - from)).toFixed(1)} 6)` })));
};
const showNotice = () => {
  const note = problem ? h("p", { class: "note bad" }, h("b", {}, "No answer"), h("span", {}, "The swarm does not answer: it was ended, or its machine sleeps. The page shows its last state and keeps trying."))
    : last().phase === "ended" ? h("p", { class: "note" }, h("b", {}, "Ended"), h("span", {}, "The swarm was counted and has ended. You can still view its past."))
      : null;
  render($("notice"), note);
  document.body.classList.toggle("is-stale", problem !== null);
  document.body.classList.toggle("is-asking", !problem && (!streamed || last().phase === "ended"));
  $("alive").textContent = problem ? "no answer" : last().phase === "ended" ? "ended" : last().paused ? "paused" : streamed ? "live" : "polling once a second";
};
const showChart = () => {
  const past = views.slice(0, index() + 1);
  const step = Math.ceil(past.length / POINTS);
  const points = past.filter((_, i) => (past.length - 1 - i) % step === 0);
  const line = (title, k, key, dash) => ({ name: title, k, dash, values: points.map((view) => view[key]) });
  chart.show({
    times: points.map((view) => view.time),
    events: past.at(-1).events.map(([time, text]) => ({ time, text })),
    panels: [{ title: "Regret per agent", short: "regret", unit: "conversions missed by not playing the best arm", brief: "conversions missed", height: 170, high: 4, format: (v) => fixed(v, 0), exact: (v) => fixed(v), lines: [line("alone", 1, "mean_alone", "6 3"), line("sharing", 0, "mean_regret")] }],
  });
};
const show = () => {
  const view = views[index()];
  if (!view) return;
  picked ??= view.agents[Math.min(3, view.agents.length - 1)];
  edge ??= Math.max(0, view.links.findIndex((link) => link.some((i) => view.agents[i] === picked)));
  $("content").hidden = false;
  $("mode").textContent = MODES[view.mode];
  document.title = `swarm of ${view.agents.length} agents: posse`;
  const [sentence, more] = lead(view);
  render($("lead"), h("h1", {}, at === null && !problem ? sentence : `At ${elapsed(view.time)}: ${sentence}`), h("p", {}, more));
  render($("legend"), ...legend(view));
  drawing.show(view, picked, edge);
  if (at !== null || calm.matches || view.paused) messages.still(view);
  else if (drawn?.number !== view.number) messages.add(view);
  render($("count"), audit(view));
  render($("agents"), table(view, picked));
  render($("log"), ...log(view, at !== null));
  showButtons(view);
  showTime(view);
  showNotice();
  showChart();
  drawn = view;
  settle();
};

// Time: pause and speed belong to the swarm in memory; the past belongs to this page.
const stopReplay = () => {
  clearTimeout(replay);
  replay = null;
};
const pause = (paused) => send("v1/pace", { paused });
const toNow = () => {
  stopReplay();
  at = null;
  if (held) pause(false);
  held = false;
  show();
};
const toPast = (number) => {
  at = number;
  if (last().mode === "memory" && last().phase === "running" && !last().paused && !held) {
    held = true;
    pause(true);
  }
  show();
};
const goOn = () => {
  const next = views[index() + 1];
  if (!next) return toNow();
  at = next.number;
  show();
  replay = setTimeout(goOn, (1000 * VIEW) / last().speed);
};
$("slider").addEventListener("input", (event) => {
  stopReplay();
  toPast(views[Number(event.target.value)].number);
});
$("now").addEventListener("click", toNow);
$("speed").addEventListener("change", (event) => send("v1/pace", { speed: Number(event.target.value) }));
$("play").addEventListener("click", () => {
  if (replay !== null) stopReplay();
  else if (at !== null) return goOn();
  else if (last().mode === "memory") return pause(!last().paused);
  else at = last().number;
  show();
});
new ResizeObserver(() => views.length && showTime(views[index()])).observe($("slider"));
matchMedia("(max-width: 44rem)").addEventListener("change", show);

const frame = (time) => {
  if (drawn && at === null && !drawn.paused && !problem && !calm.matches && before !== null) messages.pass((Math.min(100, time - before) / 1000) * drawn.speed);
  before = time;
  requestAnimationFrame(frame);
};

let begun = false;
theme();
explain();
follow(views, (byStream) => {
  [streamed, problem] = [byStream, null];
  if (!views.length) return;
  if (!begun && last().phase === "running") {
    begun = true;
    if (calm.matches && last().mode === "memory") pause(true); // reduced motion: it continues when people press Play
    else if (calm.matches) at = last().number;
  }
  if (at === null || !drawn) show();
  else {
    if (at < views[0].number) at = views[0].number;
    showTime(views[index()]);
    showNotice();
  }
}, (error) => {
  problem = error;
  if (views.length) show();
  else render($("lead"), h("h1", {}, "The swarm does not answer."), h("p", {}, "It was ended, or is starting; the page keeps trying."));
});
requestAnimationFrame(frame);
