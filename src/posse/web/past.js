// The history: from cumulative counts to rates, shares and losses over time, with events.
import { fixed, percent, short, total } from "./format.js";
import { measure } from "./words.js";

const WINDOWS = { day: 60, month: 24, year: 7 }; // points of a moving mean
const MOVING = { day: "hourly average", month: "daily average", year: "weekly average" };
const SHARES = { day: 30, month: 6, year: 3 };
const SPARK = 72; // points of a sparkline

const before = (i, window) => Math.max(0, i - window);

// The increase within a window before each point; discounted counts are taken as they are.
const added = (values, window, fading) => values.map((value, i) => {
  if (value === null) return null;
  if (fading) return value;
  const since = values[before(i, window)] ?? 0;
  return i === 0 ? null : Math.max(0, value - since);
});
const ratio = (over, under, least = 1e-9) => over.map((value, i) => (value === null || under[i] === null || under[i] < least ? null : value / under[i]));
const sum = (columns, length) => Array.from({ length }, (_, i) => (columns.every((each) => each[i] === null) ? null : total(columns.map((each) => each[i] ?? 0))));

// A gap where the agent did not run: lines must not bridge it.
const gaps = ({ times, seconds }) => times.flatMap((time, i) => (i && time - times[i - 1] > 3.5 * seconds ? [i] : []));
const broken = (values, places, fill) => {
  const made = values.slice();
  for (const place of places.toReversed()) made.splice(place, 0, fill(place));
  return made;
};

const rateOf = (history, where, window) => {
  const [arms, length] = [Object.values(history.arms), history.times.length];
  const rewards = sum(arms.map((arm) => arm[where].rewards), length);
  const closed = sum(arms.map((arm) => arm[where].closed), length);
  const [gained, visits] = [added(rewards, window, history.fading), added(closed, window, history.fading)];
  const known = visits.filter((each) => each !== null);
  return ratio(gained, visits, Math.max(1e-9, (0.2 * total(known)) / Math.max(1, known.length))); // few visits say little
};
export const sharesOf = (history, window) => {
  const [names, length] = [Object.keys(history.arms), history.times.length];
  const pulls = Object.fromEntries(names.map((name) => [name, added(history.arms[name].network.pulls, window, history.fading)]));
  const all = sum(Object.values(pulls), length);
  return Object.fromEntries(names.map((name) => [name, ratio(pulls[name], all)]));
};

// Shares for the table of arms: of the last hour, and a sparkline of the day.
export const recent = (history, arms) => {
  const names = Object.keys(arms);
  const now = Object.fromEntries(names.map((name) => [name, arms[name].pulls_in_network + arms[name].open_in_network]));
  const length = history?.times.length ?? 0;
  const start = history && !history.fading && length ? Math.max(0, length - 60) : null;
  const known = (name) => Boolean(history) && Object.hasOwn(history.arms, name); // an arm may be called "constructor"
  const gained = Object.fromEntries(names.map((name) => [name, now[name] - (start === null || !known(name) ? 0 : history.arms[name].network.pulls[start] ?? 0)]));
  let all = total(Object.values(gained));
  let span = start === null ? "so far" : length < 60 ? "since the first recorded minute" : "in the last hour";
  let from = gained;
  if (!(all > 0)) [from, all, span] = [now, total(Object.values(now)), "so far"];
  const past = history ? sharesOf(history, SHARES.day) : {};
  const step = Math.max(1, Math.ceil(length / SPARK));
  return {
    span,
    now: Object.fromEntries(names.map((name) => [name, all > 0 ? Math.max(0, from[name]) / all : null])),
    past: Object.fromEntries(names.map((name) => [name, known(name) ? past[name].filter((_, i) => (length - 1 - i) % step === 0) : []])),
  };
};

// The data of the chart for a range: {times, panels, events}.
export const panels = (history, view) => {
  const unit = measure(view.agent);
  const window = history.fading ? 0 : WINDOWS[history.scale];
  const places = gaps(history);
  const times = broken(history.times, places, (i) => history.times[i - 1] + history.seconds);
  const whole = (values) => broken(values, places, () => null);
  const colours = Object.keys(view.arms);
  const k = (name) => (colours.includes(name) ? colours.indexOf(name) : colours.length + Object.keys(history.arms).indexOf(name));
  const shares = sharesOf(history, SHARES[history.scale]);
  const moving = history.fading ? "old evidence discounted" : MOVING[history.scale];
  const letters = "abcdefghijklmnopqrstuvwxyz";
  const events = history.events.slice(-letters.length).map((each, i) => ({ ...each, key: letters[i] }));
  const lines = [{ name: "all sites", k: 6, values: whole(rateOf(history, "network", window)) }];
  if (Object.keys(view.network.agents).length > 1) lines.push({ name: view.agent.name, k: 0, thin: true, dash: "5 3", values: whole(rateOf(history, "here", window)) });
  const seen = lines.flatMap((each) => each.values).filter((v) => v !== null);
  const small = seen.length ? Math.max(...seen) : 1;
  const digits = small < 0.02 ? 2 : small < 0.2 ? 1 : 0;
  // before the first closed visit the expected loss is that of the prior, which is no finding
  const closed = sum(Object.values(history.arms).map((arm) => arm.network.closed), history.times.length);
  const losses = history.expected_loss.map((loss, i) => (closed[i] > 0 ? loss : null));
  const known = (panel) => (panel.lines ?? panel.stack).some((each) => each.values.some((v) => v !== null));
  return {
    times,
    events,
    panels: [
      { title: unit.rate ? "Conversion" : "Reward", short: unit.rate ? "converts" : "reward", unit: unit.rate ? `% of closed visits, ${moving}` : `mean of closed visits, ${moving}`, brief: moving, height: 120, format: unit.rate ? (v) => percent(v, digits) : short, exact: unit.value, lines },
      { title: "Share of visits", short: "share", unit: "% of all visits in the network, by arm", brief: "% of all visits", height: 130, format: (v) => percent(v, 0), exact: (v) => percent(v, 1), stack: Object.keys(history.arms).map((name) => ({ name, k: k(name), values: whole(shares[name]) })) },
      { title: "Expected loss", short: "loss", unit: unit.rate ? "conversions lost per 10,000 visits, if the leader were chosen now for good" : "reward lost per visit, if the leader were chosen now for good", brief: unit.rate ? "per 10,000 visits" : "per visit", height: 80, high: unit.rate ? 1e-5 : undefined, format: unit.rate ? (v) => short(1e4 * v) : short, exact: unit.rate ? (v) => fixed(1e4 * v, 2) : short, lines: [{ name: "all sites", k: 6, values: whole(losses) }] },
    ].filter(known),
  };
};
