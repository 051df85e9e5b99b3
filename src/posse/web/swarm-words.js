// The sentences of a swarm's page: the headline, the audit, the table of agents, the log.
import { h } from "./dom.js";
import { brief, elapsed, fixed, percent, plural, total, whole } from "./format.js";
import { mark } from "./marks.js";

const FEW = 40; // visits, before which nothing is said about arms

export const largest = (values) => values.reduce((best, value, k) => (value > values[best] ? k : best), 0);
export const STATE = { runs: "runs", starts: "starting", stopped: "stopped", killed: "killed" };
export const letter = (arm) => arm[0].toUpperCase();
export const count = (view, state) => view.states.filter((each) => each === state).length;
// The choices of agents that never answered are unknown.
export const known = (view, i) => total(view.shares[i]) > 0;

export const word = (view, i) => {
  if (view.states[i] !== "runs") return STATE[view.states[i]];
  return view.behind[i] === 0 ? "complete" : `${brief(view.behind[i])} missing`;
};

// The arm that most running agents prefer, how many do, and how many run.
const favourite = (view) => {
  const running = view.agents.map((_, i) => i).filter((i) => view.states[i] === "runs" && known(view, i));
  const votes = view.arms.map((_, k) => running.filter((i) => largest(view.shares[i]) === k).length);
  return { k: largest(votes), agree: Math.max(...votes), running: running.length };
};

const saved = (view) => {
  const part = view.mean_alone > 0.5 ? 1 - view.mean_regret / view.mean_alone : 0;
  if (part >= 0.05) return ` Sharing saved ${percent(part, 0)} of the regret of isolated agents.`;
  return part <= -0.05 ? " So far sharing has cost more than it saved." : " Sharing has not paid off yet.";
};

const liked = (view) => {
  const { k, agree, running } = favourite(view);
  if (!running) return "No agent runs: start one.";
  if (view.audit[0] < FEW) return "The agents have just started: the best arm is still unknown.";
  const best = largest(view.arms.map(([, mean]) => mean));
  const truth = k === best ? "the best arm" : `though ${view.arms[best][0]} is better`;
  return `${agree === running && running > 1 ? `All ${running}` : `${agree} of ${running}`} running agents prefer ${view.arms[k][0]}, ${truth}.${saved(view)}`;
};

const broken = (view) => {
  const off = view.agents.length - count(view, "runs");
  const cuts = view.cut.length;
  const liars = view.lies.filter(Boolean).length;
  return [
    off ? `${plural(off, "agent")} ${off > 1 ? "are" : "is"} off` : "All agents run",
    cuts ? `${plural(cuts, "link")} cut` : "no link is cut",
    view.loss ? `${percent(view.loss, 0)} of messages are lost` : "no messages are lost",
    ...(liars ? [`${plural(liars, "site")} ${liars > 1 ? "lie" : "lies"}`] : []),
  ].join(", ");
};

export const lead = (view) => {
  const [acknowledged, counted, , lost] = view.audit;
  const gone = lost ? `${plural(lost, "acknowledged visit")} ${lost > 1 ? "are" : "is"} lost: no disk holds ${lost > 1 ? "them" : "it"} any more.` : "No acknowledged visit is lost.";
  if (view.phase === "starting") {
    const how = view.mode === "memory" ? "They are real agents in one process, on a network in memory." : "Each runs in its own process with its own certificate; they connect by TLS on this machine.";
    return [`Starting: ${count(view, "runs")} of ${plural(view.agents.length, "agent")} ${count(view, "runs") === 1 ? "answers" : "answer"}.`, how];
  }
  if (view.phase === "settling") return ["Finishing: everything is repaired, no more visitors come.", `The last messages arrive: ${whole(counted)} of ${whole(acknowledged)} acknowledged visits are counted by every agent.`];
  if (view.phase === "ended") return [`The swarm has ended: ${whole(acknowledged)} acknowledged ${acknowledged === counted ? "=" : "are not"} ${whole(counted)} counted by every agent.`, `${gone}${saved(view)}`];
  return lost ? [gone, `${liked(view)} ${broken(view)}.`] : [liked(view), `${broken(view)}. ${gone}`];
};

const term = (sign, value, said, tip, look = "") =>
  h("span", { class: "term", tip, "data-key": said }, sign ? h("span", { class: `eq ${look}` }, sign) : null, h("span", {}, h("b", {}, whole(value)), h("small", { class: "quiet" }, said)));

export const audit = (view) => {
  const [acknowledged, counted, way, lost] = view.audit;
  const all = count(view, "runs") === view.agents.length;
  const who = all ? "every agent" : "every running agent";
  return h("div", { class: "sum", "data-grid": true },
    term("", acknowledged, "acknowledged", "Visits whose reward an agent has confirmed: they are on its disk."),
    term("=", counted, `counted by ${who}`, `The visits among them that ${who} has counted, each exactly once.`),
    term("+", way, "on their way", "Confirmed visits that are on some disk, but not yet at every running agent: they arrive with a later message, or when their agent is back."),
    term("+", lost, "lost", "Confirmed visits that no agent has although their own agent runs. Only a deleted disk can cause this.", lost ? "off" : ""));
};

export const legend = (view) => view.arms.map(([arm, mean], k) => h("span", { "data-key": arm, tip: `${arm}: ${percent(mean, 0)} of visitors convert. The agents do not know that.` }, mark(k), h("span", {}, h("b", {}, letter(arm)), ` ${arm}`), h("span", { class: "quiet" }, `true ${percent(mean, 0)}`)));

const HEADS = [
  ["agent", "", null],
  ["state", "", "Whether it runs, and whether its visitors lie or differ."],
  ["prefers", "", "The arm that it plays most now, and its share."],
  ["visits", "num narrow-hide", "Its own acknowledged visits."],
  ["missing", "num", "Acknowledged visits of others that have not arrived there yet."],
  ["regret", "num", "Conversions missed so far for not playing the best arm of its site."],
  ["alone", "num", "The regret of an isolated agent with the same visitors."],
];
const does = (view, i) => [STATE[view.states[i]], ...(view.lies[i] ? ["lies"] : []), ...(view.differs[i] ? ["differs"] : [])].join(", ");
const row = (view, i, picked) => {
  const k = largest(view.shares[i]);
  const prefers = known(view, i) ? [mark(k), ` ${view.arms[k][0]} `, h("span", { class: "quiet" }, percent(view.shares[i][k], 0))] : ["–"];
  return h("tr", { "data-key": view.agents[i], class: picked ? "picked" : null },
    h("th", { scope: "row" }, h("bdi", {}, view.agents[i])), h("td", { class: { killed: "off", stopped: "off", starts: "quiet" }[view.states[i]] }, does(view, i)), h("td", { class: "prefers" }, ...prefers),
    h("td", { class: "num narrow-hide" }, whole(view.visits[i])), h("td", { class: "num" }, whole(view.behind[i])), h("td", { class: "num" }, fixed(view.regret[i])), h("td", { class: "num quiet" }, fixed(view.alone[i])));
};
export const table = (view, picked) => h("table", { class: "tall", "data-grid": true },
  h("thead", {}, h("tr", {}, ...HEADS.map(([name, look, tip]) => h("th", { scope: "col", class: look, tip }, name)))),
  h("tbody", {}, ...view.agents.map((name, i) => row(view, i, name === picked))));

export const log = (view, past) => view.events.length
  ? view.events.toReversed().slice(0, 12).map(([time, text]) => h("li", { "data-key": `${time} ${text}` }, h("span", {}, elapsed(time)), h("span", {}, text)))
  : [h("li", { "data-key": "none", class: "quiet" }, h("span", {}, ""), h("span", {}, past ? "Nothing until then." : "Nothing yet: break something."))];
