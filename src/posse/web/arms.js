// The table of arms: rate with its interval, probability of being the best, share of visits, counts.
import { bdi, h, isolated, s } from "./dom.js";
import { clamp, count, percent, short, sure } from "./format.js";
import { colour, mark, spark } from "./marks.js";
import { measure, ONE_LOOK, ranking } from "./words.js";

let axis = null; // stays until the data no longer fit: an axis that moves every second cannot be read

const round = (low, high) => {
  const step = 10 ** Math.floor(Math.log10((high - low) / 4)) * [1, 2, 5, 10].find((each) => (high - low) / 4 <= each * 10 ** Math.floor(Math.log10((high - low) / 4)) * 1.0001);
  const [from, to] = [Math.floor(low / step + 1e-9), Math.ceil(high / step - 1e-9)];
  return { low: from * step, high: to * step, ticks: Array.from({ length: to - from + 1 }, (_, i) => (from + i) * step) };
};
// Fits the intervals of arms with enough visits, and at least the means of all.
const fit = (arms) => {
  const known = arms.filter((arm) => arm.pulls_in_network > 0 && arm.mean !== null);
  if (!known.length) return round(0, 1);
  const most = Math.max(...known.map((arm) => arm.pulls_in_network));
  const ends = known.flatMap((arm) => (arm.pulls_in_network > most / 50 ? [arm.low, arm.high] : [arm.mean])).filter((v) => v !== null);
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  if (axis && axis.low <= low && high <= axis.high && high - low > 0.4 * (axis.high - axis.low)) return axis;
  return (axis = round(low, high > low ? high : low + Math.max(1e-9, Math.abs(low) * 0.1 || 1)));
};

const column = (text, tip, look = "num") => h("th", { scope: "col", class: look, tip }, text);
const cell = (name, tip, ...inner) => h("td", { class: /visits|network/.test(name) ? "num mid-hide" : "num", "data-name": name, tip }, ...inner);
const act = (word, act, arm) => h("button", { type: "button", "data-act": act, "data-arm": arm, "aria-label": `${word} ${arm}` }, word);

const badge = (view, name, arm) => {
  const { controls } = view;
  const whose = (record) => (record ? (record.signer === view.agent.name ? "at this agent" : `in the whole network by ${isolated(record.signer)}`) : "here");
  if (controls.pinned === name) return h("span", { class: "badge good", tip: `Pinned ${whose(controls.here?.pinned === name ? null : controls.network)}: gets every visit here.` }, "pinned");
  if (controls.paused.includes(name)) return h("span", { class: "badge partly", tip: `Paused ${whose(controls.here?.paused.includes(name) ? null : controls.network)}: gets no visits; its evidence stays.` }, "paused");
  if (arm.pulls_in_network + arm.open_in_network < 100) return h("span", { class: "badge", tip: "Fewer than 100 visits so far." }, "new");
  return null;
};

const row = (view, name, k, unit, { at, lines, low, high }, shares) => {
  const arm = view.arms[name];
  const known = arm.pulls_in_network > 0 && arm.mean !== null;
  const shown = isolated(name);
  const paused = view.controls.paused.includes(name);
  const sentence = known ? `${shown}: ${unit.value(arm.mean)} ${unit.of}; the true value lies between ${unit.value(arm.low)} and ${unit.value(arm.high)}, right in 95 of 100 cases at one look. Estimated from closed visits and a weak prior.` : `${shown}: no reward is final yet.`;
  const bar = known ? { x1: at(clamp(arm.low, low, high)), x2: at(clamp(arm.high, low, high)), y1: "50%", y2: "50%" } : null;
  // before the first closed visit there is only the prior, which is no finding
  const any = Object.values(view.arms).some((each) => each.pulls_in_network > 0);
  const chance = any && arm.probability_best !== null ? sure(arm.probability_best) : null;
  const now = shares.now[name];
  const share = now === null || now === undefined ? "–" : percent(now, 1);
  return h("tr", { class: paused ? "paused" : null, "data-key": name },
    h("th", { scope: "row", class: "name", tip: shown }, h("span", { class: "row" }, mark(k), bdi(name), badge(view, name, arm))),
    h("td", { class: "range", tip: sentence }, s("svg", { role: "img", "aria-label": sentence }, lines(),
      known ? [s("line", { class: `whisker ${colour(k)}`, ...bar }), s("line", { class: "spine", ...bar }), s("circle", { class: `dot ${colour(k)}`, cx: at(clamp(arm.mean, low, high)), cy: "50%", r: 5 })] : null)),
    h("td", { class: "num rate", tip: sentence }, h("b", {}, known ? unit.value(arm.mean) : "–"), h("small", {}, known ? ` ${unit.range(arm.low, arm.high)}` : " none yet")),
    cell("likely best", `The probability that ${shown} is the best arm: ${chance ?? "unknown before the first closed visit"}. ${ONE_LOOK}`, chance ?? "–"),
    h("td", { class: "share", tip: `${shown} gets ${share} of visits (${shares.span}). The line shows a day, from 0 to 100%.` }, h("span", { class: "sparkcell" }, spark(shares.past[name], colour(k)), h("b", {}, share))),
    cell("closed visits here", `${count(arm.pulls_here)} finished visits of this agent with ${shown}: their reward is final. The audit counts open ones, too.`, count(arm.pulls_here)),
    cell("in the network", `${count(arm.pulls_in_network)} finished visits of all agents with ${shown}, as known here.`, count(arm.pulls_in_network)),
    cell("open", `Visits with ${shown} that still wait for a result: ${count(arm.open_in_network)}${view.experiment.reward_window ? `; the window is ${short(view.experiment.reward_window)} s` : ""}.`, count(arm.open_in_network)),
    h("td", { class: "act" }, view.controls.pinned === name ? act("Unpin", "resume", name) : act("Pin", "pin", name), " ", paused ? act("Resume", "resume", name) : act("Pause", "pause", name)));
};

// shares: {now: {arm: 0..1 or null}, span: words, past: {arm: [0..1 or null]}}
export const armTable = (view, shares) => {
  const unit = measure(view.agent);
  const names = Object.keys(view.arms);
  const { low, high, ticks } = fit(Object.values(view.arms));
  const at = (value) => `${((100 * (value - low)) / (high - low)).toFixed(2)}%`;
  const leader = ranking(view)[0];
  const reference = leader ? view.arms[leader].mean : null;
  const lines = () => [
    ...ticks.map((tick) => s("line", { class: "gridline", x1: at(tick), x2: at(tick), y1: 0, y2: "100%" })),
    reference === null ? null : s("line", { class: "ref", x1: at(clamp(reference, low, high)), x2: at(clamp(reference, low, high)), y1: 0, y2: "100%" }),
  ];
  const head = h("tr", {}, h("th", { scope: "col", class: "name" }, "arm"),
    h("th", { scope: "col", class: "range", tip: "Dot: the estimated mean, from closed visits and a weak prior. Bar: where the true mean lies, right in 95 of 100 cases at one look. Dotted line: the leader." },
      s("svg", { "aria-hidden": "true" }, ...ticks.map((tick) => s("text", { x: at(tick), y: 12, "text-anchor": "middle" }, unit.axis(tick)))), h("span", { class: "sr" }, "95% interval")),
    column(unit.column, unit.rate ? "Of 100 visits with this arm, how many convert: an estimate from closed visits and a weak prior, so the plain shares in Sites × arms differ a little. Below: where the true rate lies, right in 95 of 100 cases at one look." : "The mean reward, estimated from closed visits and a weak prior, so the plain means in Sites × arms differ a little. Below: where the true mean lies, right in 95 of 100 cases at one look."),
    column("likely best", `The probability that this arm is the best, given all evidence here. ${ONE_LOOK}`),
    column("share of visits, last day", "The share of all visits in the network with this arm over the last day, and now."),
    column("closed visits here", "Finished visits of this agent with this arm: their reward is final. The audit counts open ones, too.", "num mid-hide"),
    column("in the network", "Finished visits of all agents with this arm, as known here.", "num mid-hide"),
    column("open", "Visits that still wait for a result: their reward may still change. They are not in the mean."),
    h("th", { scope: "col", class: "act" }, h("span", { class: "sr" }, "actions")));
  return h("table", { class: "arms", "data-grid": true }, h("caption", { class: "sr" }, "Arms"), h("thead", {}, head),
    h("tbody", {}, ...names.map((name, k) => row(view, name, k, unit, { at, lines, low, high }, shares))));
};
