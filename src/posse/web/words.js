// The sentences of the page: the headline, the strip of four boxes, and notes that need a decision.
import { bdi, h, isolated } from "./dom.js";
import { ago, count, duration, fixed, percent, plural, short, stamp, sure, total, whole } from "./format.js";
import { colour, meter } from "./marks.js";

const said = (text, tip) => h("span", { tip }, text);
const nats = (value) => (value < 100 ? fixed(value) : whole(value));

const hundred = (v) => fixed(100 * v, v < 0.02 ? 2 : 1);
// How rewards are written: rates of success as percent, all others as they are.
export const measure = (agent) => ["bernoulli", "logistic"].includes(agent.family)
  ? { rate: true, column: "converts", value: (v) => percent(v), axis: (v) => percent(v, 1), half: (v) => `±${fixed(100 * v, 2)} points`, lead: (v) => `${hundred(v)} of 100 visits convert`, other: hundred, of: "of visits convert", loss: (v) => `${short(1000 * v)} conversions in 1,000 visits` }
  : { rate: false, column: "mean reward", value: short, axis: short, half: (v) => `±${short(v)}`, lead: (v) => `mean reward ${short(v)}`, other: short, of: "mean reward", loss: (v) => `${short(v)} of reward a visit` };

const closed = (arm) => arm.pulls_in_network;
const playable = (view) => {
  const arms = Object.entries(view.arms);
  const played = arms.filter(([name]) => !view.controls.paused.includes(name));
  return played.length ? played : arms;
};

// The arms by rank: the arm of the verdict first, then by mean.
export const ranking = (view) => {
  const known = playable(view).filter(([, arm]) => closed(arm) > 0 && arm.mean !== null).sort((a, b) => b[1].mean - a[1].mean);
  const named = view.verdict?.arm;
  if (named && view.arms[named] && closed(view.arms[named]) > 0) known.sort((a, b) => (b[0] === named) - (a[0] === named));
  return known.map(([name]) => name);
};

export const gone = (view) => Object.entries(view.network.agents).filter(([, each]) => each.state === "down" || each.state === "silent");
export const reached = (view) => Object.values(view.network.agents).filter((each) => each.state === "here" || each.state === "up").length;

const likely = (p) => (p > 0.99 ? "Very likely the best" : p > 0.9 ? "Likely the best" : p > 0.6 ? "Perhaps the best" : "Not clear yet");

const judged = (view, leader) => {
  const { verdict, experiment, agent } = view;
  const chance = likely(view.arms[leader].probability_best ?? 0);
  if (experiment.half_life) return [` ${chance} now; with a half-life there is no lasting winner.`];
  if (experiment.context) return [` ${chance} on average over all visitors; each kind of visitor may have another best arm.`];
  if (!verdict) return [` ${chance}; this experiment has no stopping rule.`];
  const error = percent(agent.error ?? 0.05, 0);
  const odds = `wrong in at most ${error} of such experiments, however often you look`;
  if (verdict.verdict === "winner") return [" ", said("Proven the best", `A winner is ${odds}.`), ". You decide when to stop."];
  if (verdict.verdict === "no-difference") return [" ", said("The arms differ by no more than your tolerance", `This is ${odds}.`), ": choose by other reasons."];
  if (verdict.verdict === "good-enough") return [" ", said("Good enough", verdict.sentence), ": choosing it for good loses less than your tolerance."];
  const far = verdict.evidence === null ? "" : ` (evidence ${nats(verdict.evidence)} of ${nats(verdict.needed)} needed)`;
  const tip = verdict.evidence === null ? verdict.sentence : `Evidence ${nats(verdict.evidence)}; a winner needs ${nats(verdict.needed)}, and is ${odds}.`;
  return [` ${chance}, not yet proven: `, said(`keep going${far}`, tip), "."];
};

const absent = (view) => {
  const lost = gone(view);
  if (!lost.length) return null;
  const [name, agent] = lost[0];
  const since = agent.heard === null ? "has not been seen" : `was last seen ${ago(view.now - agent.heard)}`;
  const others = lost.length > 1 ? ` and ${plural(lost.length - 1, "other")} are missing` : "";
  return [`${reached(view)} of ${plural(Object.keys(view.network.agents).length, "agent")} reachable: `, bdi(name), ` ${since}${others}. `];
};

const touch = (view) => {
  const agents = Object.keys(view.network.agents).length;
  if (gone(view).length) return "";
  const near = reached(view);
  if (near < agents) return `${whole(near)} of ${whole(agents)} agents are reachable; of the others only their evidence is known. `;
  return agents === 1 ? "This agent is alone. " : `All ${whole(agents)} agents are reachable. `;
};
const balance = (audit) => (audit ? audit.in_evidence - audit.counted : 0);
const lost = (view) => (view.audit === null ? "" : balance(view.audit) === 0 ? "Nothing is lost. " : "");
const late = (view) => (view.experiment.late_rewards ? `${plural(view.experiment.late_rewards, "reward")} arrived too late to count since this agent started. ` : "");

const open = (view) => total(Object.values(view.arms).map((arm) => arm.open_in_network));

export const lead = (view) => {
  const order = ranking(view);
  const unit = measure(view.agent);
  const worse = absent(view) ?? [];
  const apart = balance(view.audit);
  const missing = apart < 0 ? [`${plural(-apart, "decision")} counted here ${apart === -1 ? "is" : "are"} missing in this agent's evidence. `] : [];
  const second = h("p", {}, touch(view), lost(view), late(view), view.sites.apart.length ? `${view.sites.apart.length === 1 ? "One site differs" : "Sites differ"}: see the note.` : "");
  if (!order.length) {
    const waiting = open(view) || view.experiment.open_decisions;
    const title = waiting ? `${plural(waiting, "visit")}, no reward is final yet.` : "No reward yet: every arm is equally likely the best.";
    const why = waiting && view.experiment.reward_window ? `Windows close ${duration(view.experiment.reward_window)} after a visit; until then rates would favour arms whose rewards arrive fast. ` : "";
    return [h("h1", {}, worse, missing, title), h("p", {}, why, touch(view), lost(view))];
  }
  const [first, next] = order;
  const mean = view.arms[first].mean;
  const versus = next ? [", ", said(`${unit.other(view.arms[next].mean)} with `, `${isolated(next)}: ${unit.value(view.arms[next].mean)} ${unit.of}, of closed decisions.`), h("span", { class: "whole" }, bdi(next), ".")] : ["."];
  return [h("h1", {}, worse, missing, bdi(first), " leads: ", said(unit.lead(mean), `${isolated(first)}: ${unit.value(mean)} ${unit.of}, of closed decisions.`), versus, judged(view, first)), second];
};

const box = (title, ...inner) => h("div", {}, h("dt", {}, title), h("dd", {}, ...inner));
const big = (...inner) => h("div", { class: "big" }, ...inner);
const small = (...inner) => h("span", { class: "quiet small" }, ...inner);

const leaderBox = (view, [first, next]) => {
  if (!first) return box("Leader", big("None yet"), small("no reward is final"));
  const chance = view.arms[first].probability_best ?? 0;
  const unit = measure(view.agent);
  const [mean, other] = [view.arms[first].mean, next ? view.arms[next].mean : null];
  const gain = other === null ? "" : unit.rate && other > 0 ? `+${percent(mean / other - 1, 0)} over the next` : `+${short(mean - other)} over the next`;
  const k = Object.keys(view.arms).indexOf(first);
  return box("Leader", big(bdi(first), " ", h("small", {}, gain)),
    meter(chance, 1, `${isolated(first)} is ${sure(chance)} likely the best arm, given the evidence so far. Frequent looks make this overconfident; the verdict allows for that.`, colour(k), 1),
    small(`likely best: ${sure(chance)}, on the evidence so far`));
};

const verdictBox = (view) => {
  const { verdict, experiment } = view;
  if (experiment.half_life) return box("Verdict", big("None"), small(`with a half-life of ${duration(experiment.half_life)} the best arm may change`));
  if (experiment.context) return box("Verdict", big("None"), small("with contexts every kind of visitor has its own best arm"));
  if (!verdict) return box("Verdict", big("None"), small("set ", h("code", {}, "stop"), " in a new experiment to get a stopping rule"));
  const words = { winner: "Winner", "no-difference": "No difference", "good-enough": "Good enough", "keep-going": "Keep going" };
  if (verdict.evidence === null) return box("Verdict", big(words[verdict.verdict]), small(said(verdict.arm ? "by expected loss" : "waiting for a neighbour's evidence", verdict.sentence)));
  const tip = `${verdict.sentence}.`;
  return box("Verdict", big(words[verdict.verdict], " ", h("small", {}, `evidence ${nats(verdict.evidence)} of ${nats(verdict.needed)} needed`)), meter(verdict.evidence, verdict.needed, tip, verdict.verdict === "winner" ? "c2" : "c6"),
    small(verdict.verdict === "keep-going" ? "the leader wins when the bar reaches the mark" : `${verdict.since ? `since ${stamp(verdict.since)} UTC; ` : ""}you decide when to stop`));
};

const networkBox = (view) => {
  const agents = Object.entries(view.network.agents);
  const behind = total(agents.map(([, each]) => each.experiments[view.agent.experiment]?.behind ?? 0));
  const slow = agents.filter(([, each]) => each.lag !== null).sort((a, b) => b[1].lag - a[1].lag)[0];
  const down = view.network.links.filter((link) => link.state !== "up");
  return box("Network", big(`${reached(view)} of ${plural(agents.length, "agent")} `, h("small", {}, "reachable")),
    small(slow ? [said(`longest delay ${duration(slow[1].lag)}`, `Evidence of ${isolated(slow[0])} takes ${duration(slow[1].lag)} to reach this agent.`), " (", bdi(slow[0]), ")"] : "no message from other agents yet",
      down.length ? `; ${plural(down.length, "link")} down` : "", behind ? ["; ", said(`${whole(behind)} on their way`, "Decisions that other agents have counted and that have not arrived here yet.")] : ""));
};

const auditBox = (view) => {
  const { audit, agent } = view;
  if (!audit) return box("Audit", big("No count"), small("decisions fade with their half-life, and add up to no count"));
  const apart = balance(audit);
  const even = apart === 0;
  const tip = even ? "Every decision of this agent was counted once: the counter stored beside them and its own evidence agree."
    : apart > 0 ? "Neighbours returned decisions that this agent's disk had lost: the store was restored from a copy, or is new." : "Decisions that this agent counted are missing in its evidence.";
  return box("Audit", h("div", { class: "sum big", tip }, h("span", { id: "counted" }, count(audit.counted)), h("span", { class: even ? "eq" : "eq off" }, even ? "=" : "≠"), h("span", { id: "own" }, count(audit.in_evidence)), h("small", {}, even ? "nothing lost" : `${whole(Math.abs(apart))} apart`)),
    small("decisions counted here = decisions in ", bdi(agent.name), "'s own evidence; network ", said(count(audit.in_network), "Decisions of all agents, as they are known here.")));
};

export const strip = (view) => {
  const order = ranking(view);
  return [leaderBox(view, order), verdictBox(view), networkBox(view), auditBox(view)];
};

const note = (look, word, ...text) => h("p", { class: `note ${look}` }, h("b", {}, word), h("span", {}, ...text));

export const notes = (view) => {
  const unit = measure(view.agent);
  const made = [];
  const { pinned, paused } = view.controls;
  if (pinned) made.push(note("", "Pinned", bdi(pinned), " gets every visit here until somebody resumes."));
  if (paused.length && paused.length === Object.keys(view.arms).length) made.push(note("bad", "Paused", "Every arm is paused: no decision can be made here."));
  for (const each of view.sites.apart.slice(0, 3)) {
    const here = view.sites.sites[each.site]?.arms[each.arm]?.mean;
    if (here === undefined || here === null) continue;
    const advice = view.experiment.sites.read === "alike" ? ["Numbers over all sites mix the two; ", h("code", {}, 'sites = "differ"'), " gives every site its own."] : ["Partial pooling weighs the evidence of other sites."];
    made.push(note("partly", "Site differs", bdi(each.site), `: ${unit.value(here)} ${unit.of} with `, bdi(each.arm), `, elsewhere ${unit.value(each.elsewhere)}. `, made.some((one) => one.textContent.startsWith("Site differs")) ? "" : advice));
  }
  const apart = balance(view.audit);
  if (apart > 0) made.push(note("partly", `${whole(apart)} apart`, `Neighbours hold ${plural(apart, "decision")} of this agent that its disk had lost: the store was restored from a copy, or is new. Nothing is missing; decisions that were open in the copy are superseded.`));
  if (apart < 0) made.push(note("bad", `${whole(-apart)} apart`, `${plural(-apart, "decision")} that this agent counted are missing in its evidence: see its log.`));
  const { late_rewards: missed, rewards, longest_lateness: longest } = view.experiment;
  if (missed >= 10 && missed > 0.03 * (rewards + missed)) made.push(note("partly", "Late", `${whole(missed)} of ${whole(rewards + missed)} rewards (${percent(missed / (rewards + missed), 1)}) came after the window of ${duration(view.experiment.reward_window ?? 0)}, the latest by ${duration(longest)}, and did not count: lengthen `, h("code", {}, "reward_window"), "."));
  return made;
};
