// The sentences of the page: the headline, the strip of four boxes, and notes that need a decision.
import { bdi, h, isolated } from "./dom.js";
import { ago, count, duration, fixed, percent, plural, short, stamp, sure, total, whole } from "./format.js";
import { colour, meter } from "./marks.js";

const said = (text, tip) => h("span", { tip }, text);
// The evidence as a share of what a winner needs; a share of 100% is left to winners.
const part = ({ evidence, needed }) => `${fixed(Math.min(99, Math.floor((100 * Math.max(0, evidence)) / needed)), 0)}% of the evidence needed`;
const nats = (value) => (value < 100 ? fixed(value) : whole(value));

const hundred = (v) => fixed(100 * v, v < 0.02 ? 2 : 1);
// How rewards are written: rates of success as percent, all others as they are.
export const measure = (agent) => ["bernoulli", "logistic"].includes(agent.family)
  ? { rate: true, column: "converts", value: (v) => percent(v), axis: (v) => percent(v, 1), range: (low, high) => `${fixed(100 * low)} to ${percent(high, 1)}`, lead: (v) => `${hundred(v)} of 100 visits convert`, would: (v) => `${hundred(v)} of 100 would convert`, past: (v) => `${hundred(v)} of 100 visits converted`, other: hundred, of: "of visits convert", loss: (v) => `${short(1000 * v)} conversions in 1,000 visits` }
  : { rate: false, column: "mean reward", value: short, axis: short, range: (low, high) => `${short(low)} to ${short(high)}`, lead: (v) => `mean reward ${short(v)}`, would: (v) => `a reward of ${short(v)} on average`, past: (v) => `the mean reward was ${short(v)}`, other: short, of: "mean reward", loss: (v) => `${short(v)} of reward a visit` };

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

// What happened, whatever the arms and visitors: closed visits of all sites; null where sites are not known one by one.
export const happened = ({ sites }) => {
  const cells = Object.values(sites.sites).flatMap((site) => Object.values(site.arms)).filter((cell) => cell.pulls > 0);
  const pulls = total(cells.map((cell) => cell.pulls));
  return pulls && !sites.left_out ? { pulls, mean: total(cells.map((cell) => cell.pulls * cell.mean)) / pulls } : null;
};
export const ENOUGH = 30; // closed visits
// With few visits differences between means would show only chance.
export const few = ({ pulls, mean }, unit) => mean === null || pulls < ENOUGH || (unit.rate && pulls * mean * (1 - mean) < 15);

export const gone = (view) => Object.entries(view.network.agents).filter(([, each]) => each.state === "down" || each.state === "silent");
export const reached = (view) => Object.values(view.network.agents).filter((each) => each.state === "here" || each.state === "up").length;

const UNCLEAR = "Not clear yet";
export const ONE_LOOK = "This is the chance at this look; a proof must hold however often you look.";
const likely = (p) => (p > 0.99 ? "Very likely the best" : p > 0.9 ? "Likely the best" : p > 0.6 ? "Perhaps the best" : UNCLEAR);

const judged = (view, leader) => {
  const { verdict, experiment, agent } = view;
  const chance = likely(view.arms[leader].probability_best ?? 0);
  if (experiment.half_life) return [` ${chance} now; with a half-life there is no lasting winner.`];
  if (experiment.context) return [` ${chance} for the average visitor; each kind of visitor may have another best arm.`];
  if (!verdict) return [` ${chance}; this experiment has no stopping rule.`];
  const error = percent(agent.error ?? 0.05, 0);
  const odds = `wrong in at most ${error} of such experiments, however often you look`;
  if (verdict.verdict === "winner") return [" ", said("Proven the best", `A winner is ${odds}.`), ". You decide when to stop."];
  if (verdict.verdict === "no-difference") return [" ", said("The arms differ by no more than your tolerance", `This is ${odds}.`), ": choose by other reasons."];
  if (verdict.verdict === "good-enough") return [" ", said("Good enough", `${verdict.sentence}.`), `: ${percent(verdict.probability_best ?? 0, 0)} likely the best, and it probably loses less than your tolerance; not proven.`];
  const far = verdict.evidence === null ? "" : ` (${part(verdict)})`;
  const tip = verdict.evidence === null ? verdict.sentence : `Evidence ${nats(verdict.evidence)}; a winner needs ${nats(verdict.needed)}, and is ${odds}.`;
  const known = chance === UNCLEAR ? chance : said(`${chance}, not yet proven`, `Likely the best: ${sure(view.arms[leader].probability_best ?? 0)}. ${ONE_LOOK}`);
  return [" ", known, ": ", said(`keep going${far}`, tip), "."];
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

// Since when the experiment runs, and how many visits it had; with a half-life visits fade, and only those here are counted.
const ran = (view) => {
  const { start, audit, experiment, now } = view;
  if (!start) return "";
  const visits = audit ? audit.in_network : experiment.decisions;
  const known = start.exact ? "The first agent that knows of it began to record then." : "This agent recorded its first numbers then, and there were visits before.";
  const held = view.uplift ? ` Visits of the ${percent(view.uplift.holdout, 0)} of visitors who always get ${isolated(view.uplift.control_arm)} are not among them.` : "";
  const where = audit ? `Visits at all sites, open ones included.${held}` : "Visits at this agent since its start: old visits fade with the half-life.";
  return [said(`Running since ${stamp(start.since)} UTC${start.exact ? "" : " or earlier"}`, known), ` (${duration(now - start.since)}), `, said(plural(visits, "visit"), where), `${audit ? "" : " here since its start"}. `];
};

const open = (view) => total(Object.values(view.arms).map((arm) => arm.open_in_network));

// With contexts: what happened, and for a linear model, what the leader alone would have brought. A logistic model would need the
// context of every visitor for that, because the mean of its curve is not the curve at the mean.
const chosen = (view, leader) => {
  const all = view.experiment.context ? happened(view) : null;
  if (!all || all.pulls < ENOUGH) return "";
  const unit = measure(view.agent);
  const tip = `The mean of all ${count(all.pulls)} closed visits, whichever arm each visitor got.`;
  const alone = view.agent.family === "linear" && leader ? [", ", said(`about ${unit.other(view.arms[leader].mean)} if all had got `, "Estimated at the average of all visitors, which is exact for a linear model. The difference is what choosing by visitor gained, exploration included."), bdi(leader)] : "";
  return ["What happened: ", said(unit.past(all.mean), tip), ", with arms chosen by visitor", alone, ". "];
};

export const lead = (view) => {
  const order = ranking(view);
  const unit = measure(view.agent);
  const worse = absent(view) ?? [];
  const apart = balance(view.audit);
  const missing = apart < 0 ? [`${plural(-apart, "decision")} counted here ${apart === -1 ? "is" : "are"} missing in this agent's evidence. `] : [];
  const second = h("p", {}, ran(view), chosen(view, order[0]), touch(view), lost(view), late(view), view.sites.apart.length ? `${view.sites.apart.length === 1 ? "One site differs" : "Sites differ"}: see the note.` : "");
  if (!order.length) {
    const waiting = open(view) || view.experiment.open_decisions;
    const title = waiting ? `${plural(waiting, "visit")}, no reward is final yet.` : "No reward yet: every arm is equally likely the best.";
    const why = waiting && view.experiment.reward_window ? `Windows close ${duration(view.experiment.reward_window)} after a visit; until then rates would favour arms whose rewards arrive fast. ` : "";
    return [h("h1", {}, worse, missing, title), h("p", {}, why, ran(view), touch(view), lost(view))];
  }
  const [first, next] = order;
  const mean = view.arms[first].mean;
  const average = Boolean(view.experiment.context);
  const kind = average ? "for the average visitor, estimated from closed visits. Arms are chosen by visitor, so this is not what happened" : "estimated from closed visits";
  const versus = next ? [", ", said(`${unit.other(view.arms[next].mean)} with `, `${isolated(next)}: ${unit.value(view.arms[next].mean)} ${unit.of}, ${kind}.`), h("span", { class: "whole" }, bdi(next), ".")] : ["."];
  const leads = average ? " leads for the average visitor: " : " leads: ";
  return [h("h1", {}, worse, missing, bdi(first), leads, said((average ? unit.would : unit.lead)(mean), `${isolated(first)}: ${unit.value(mean)} ${unit.of}, ${kind}.`), versus, judged(view, first)), second];
};

const box = (title, ...inner) => h("div", {}, h("dt", {}, title), h("dd", {}, ...inner));
const big = (...inner) => h("div", { class: "big" }, ...inner);
const small = (...inner) => h("span", { class: "quiet small" }, ...inner);

const signed = (value, text) => `${value < 0 ? "" : "+"}${text(value)}`;
// The lift of the leader over the next arm, as the agent computed it: for these two arms, or not at all.
const lifted = (view, first, next) => {
  const found = view.lift?.arm === first && view.lift.over === next ? view.lift.lift : null;
  if (!next || !found) return [next ? "too few visits to compare" : "", ""];
  const digits = found.high - found.low < 0.1 ? 1 : 0;
  const text = (value) => signed(value, found.relative ? (v) => percent(v, digits) : short);
  const tip = `How much more ${isolated(first)} brings than ${isolated(next)}: ${text(found.estimate)} by the means so far. The true value lies between ${text(found.low)} and ${text(found.high)}, right in 95 of 100 cases at one look. Frequent looks make this overconfident; the verdict allows for that.`;
  return [[said(text(found.estimate), tip), " over ", bdi(next)], said(`between ${text(found.low)} and ${text(found.high)}`, tip)];
};

const leaderBox = (view, [first, next]) => {
  const title = view.experiment.context ? "Leader for the average visitor" : "Leader";
  if (!first) return box(title, big("None yet"), small("no reward is final"));
  const chance = view.arms[first].probability_best ?? 0;
  const [gain, range] = lifted(view, first, next);
  const k = Object.keys(view.arms).indexOf(first);
  return box(title, big(bdi(first), " ", h("small", {}, gain)),
    meter(chance, 1, `${isolated(first)} is ${sure(chance)} likely the best arm, given the evidence so far. ${ONE_LOOK}`, colour(k), 1),
    small(range, range ? "; " : "", said(`likely best: ${sure(chance)} at this look`, ONE_LOOK)));
};

const expected = ({ seconds_left: left }) => {
  if (!left) return "a proof holds at every look; the leader wins when the bar reaches the mark";
  const range = left.most === null ? `Not before ${duration(left.least)}, perhaps much later` : `Between ${duration(left.least)} and ${duration(left.most)}`;
  return said(`a proof holds at every look; a winner in about ${duration(left.likely)} at this rate`, `${range}, if decisions come at the rate so far and the arms are as they look now.`);
};

const verdictBox = (view) => {
  const { verdict, experiment } = view;
  if (experiment.half_life) return box("Verdict", big("None"), small(`with a half-life of ${duration(experiment.half_life)} the best arm may change`));
  if (experiment.context) return box("Verdict", big("None"), small("with contexts every kind of visitor has its own best arm"));
  if (!verdict) return box("Verdict", big("None"), small("set ", h("code", {}, "stop"), " in a new experiment to get a stopping rule"));
  const words = { winner: "Winner", "no-difference": "No difference", "good-enough": "Good enough", "keep-going": "Keep going" };
  if (verdict.evidence === null) return box("Verdict", big(words[verdict.verdict]), small(said(verdict.arm ? "by expected loss" : "waiting for a neighbour's evidence", verdict.sentence)));
  const tip = `${verdict.sentence}. Evidence ${nats(verdict.evidence)}; a winner needs ${nats(verdict.needed)}, the mark on the bar.`;
  return box("Verdict", big(words[verdict.verdict], " ", h("small", {}, verdict.verdict === "winner" ? "proven" : part(verdict))), meter(verdict.evidence, verdict.needed, tip, verdict.verdict === "winner" ? "c2" : "c6"),
    small(verdict.verdict === "keep-going" ? expected(verdict) : `${verdict.since ? `since ${stamp(verdict.since)} UTC; ` : ""}you decide when to stop`));
};

const networkBox = (view) => {
  const agents = Object.entries(view.network.agents);
  const behind = total(agents.map(([, each]) => each.experiments[view.agent.experiment]?.behind ?? 0));
  const slow = agents.filter(([, each]) => each.lag !== null).sort((a, b) => b[1].lag - a[1].lag)[0];
  const down = view.network.links.filter((link) => link.state !== "up");
  return box("Network", big(`${reached(view)} of ${plural(agents.length, "agent")} `, h("small", {}, "reachable")),
    small(slow ? [said(`longest delay ${duration(slow[1].lag)}`, `Evidence of ${isolated(slow[0])} takes ${duration(slow[1].lag)} to reach this agent.`), " (", bdi(slow[0]), ")"] : "no message from other agents yet",
      down.length ? `; ${plural(down.length, "link")} down` : "", behind ? ["; ", said(`${whole(behind)} on their way`, "Visits that other agents have counted and whose numbers have not arrived here yet.")] : ""));
};

const auditBox = (view) => {
  const { audit, agent } = view;
  if (!audit) return box("Audit", big("No count"), small("decisions fade with their half-life, and add up to no count"));
  const apart = balance(audit);
  const even = apart === 0;
  const tip = even ? "Every visit at this agent was counted once: the counter stored beside them and its own evidence agree."
    : apart > 0 ? "Neighbours returned decisions that this agent's disk had lost: the store was restored from a copy, or is new." : "Decisions that this agent counted are missing in its evidence.";
  return box("Audit", h("div", { class: "sum big", tip }, h("span", { id: "counted" }, count(audit.counted)), h("span", { class: even ? "eq" : "eq off" }, even ? "=" : "≠"), h("span", { id: "own" }, count(audit.in_evidence)), h("small", {}, even ? "nothing lost" : `${whole(Math.abs(apart))} apart`)),
    small("visits counted at ", bdi(agent.name), " = visits in its evidence; all sites: ", said(count(audit.in_network), "Visits of all agents, as they are known here, open ones included.")));
};

// What choosing arms earned, compared with visitors who always get the control arm; null without a holdout.
const earnedBox = (view) => {
  const { uplift } = view;
  if (!uplift) return null;
  const unit = measure(view.agent);
  const [size, of] = unit.rate ? [(v) => signed(100 * v, (w) => fixed(w, 2)), "conversions per 100 visits"] : [(v) => signed(v, short), "reward per visit"];
  const title = "Earned by choosing arms";
  if (uplift.uplift === null) return box(title, big("Not known yet"), small("no closed visits to compare yet"));
  const side = ({ mean, decisions }) => `${unit.value(mean)} ${unit.of} (${count(decisions)} closed visits)`;
  const tip = `Where agents choose the arm: ${side(uplift.bandit)}. ${percent(uplift.holdout, 0)} of visitors always get ${isolated(uplift.control_arm)}: ${side(uplift.control)}. The interval may be looked at every day: it holds at every look, in 95 of 100 experiments.`;
  const range = uplift.low === null ? "too few closed visits for an interval" : `between ${size(uplift.low)} and ${size(uplift.high)}`;
  return box(title, h("div", { class: "big", tip }, size(uplift.uplift), " ", h("small", {}, of)), small(said(range, tip), ", compared with ", bdi(uplift.control_arm), " for everybody"));
};

export const strip = (view) => {
  const order = ranking(view);
  return [leaderBox(view, order), verdictBox(view), earnedBox(view), networkBox(view), auditBox(view)];
};

const note = (look, word, ...text) => h("p", { class: `note ${look}` }, h("b", {}, word), h("span", {}, ...text));

// Who changed pins and pauses last, and why: a record holds all of them, but only its last change has a name.
const lastChange = ({ controls }) => {
  const record = [controls.here, controls.network].find((each) => each?.by || each?.reason);
  if (!record) return "";
  const where = record === controls.here ? "at this agent" : "in the whole network";
  return [` Last change ${where}`, record.by ? [" by ", bdi(record.by)] : "", record.reason ? [": ", bdi(record.reason)] : "", "."];
};

// The arm with the highest mean at a site, of those that visitors get and that have enough visits there.
const ahead = (view, site, unit) => {
  const cells = view.sites.sites[site].arms;
  const known = playable(view).map(([name]) => name).filter((name) => cells[name] && !few(cells[name], unit));
  return known.length > 1 ? known.reduce((best, name) => (cells[name].mean > cells[best].mean ? name : best)) : null;
};

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
export const notes = (view) => {
  const unit = measure(view.agent);
  const made = [];
  const { pinned, paused } = view.controls;
  if (pinned) made.push(note("", "Pinned", bdi(pinned), " gets every visit here until somebody resumes.", lastChange(view)));
  else if (paused.length && paused.length < Object.keys(view.arms).length) made.push(note("", "Paused", ...paused.slice(0, 3).flatMap((arm, i) => [i ? ", " : "", bdi(arm)]), paused.length > 3 ? ` and ${whole(paused.length - 3)} more` : "", ` ${paused.length === 1 ? "gets" : "get"} no visits until somebody resumes.`, lastChange(view)));
  if (paused.length && paused.length === Object.keys(view.arms).length) made.push(note("bad", "Paused", "Every arm is paused: no decision can be made here."));
  for (const each of view.sites.apart.slice(0, 3)) {
    const here = view.sites.sites[each.site]?.arms[each.arm]?.mean;
    if (here === undefined || here === null) continue;
    const alike = view.experiment.sites.read === "alike";
    const advice = alike ? ["Numbers over all sites mix the two. Whoever runs the agents can give every site its own, by the setting ", h("code", {}, 'sites = "differ"'), "."] : ["Partial pooling weighs the evidence of other sites."];
    const first = view.experiment.context ? null : ahead(view, each.site, unit);
    const others = alike && first && first !== ranking(view)[0] ? [", not ", bdi(ranking(view)[0])] : "";
    made.push(note("partly", "Site differs", bdi(each.site), `: ${unit.value(here)} ${unit.of} with `, bdi(each.arm), `, elsewhere ${unit.value(each.elsewhere)}. `, first ? ["Ahead there so far: ", bdi(first), others, ". "] : "", made.some((one) => one.textContent.startsWith("Site differs")) ? "" : advice));
  }
  for (const each of (view.guardrails ?? []).filter((one) => one.breached)) made.push(note("bad", "Guardrail", `${capital(each.metric)} of `, bdi(each.arm), ` is ${short(each.mean)}, between ${short(each.low)} and ${short(each.high)}, ${each.mean > each.limit ? "above" : "below"} its limit of ${short(each.limit)}. `, ...paused.includes(each.arm) ? [bdi(each.arm), " is paused."] : ["Consider pausing it: ", h("code", {}, `posse pause ${each.arm}`), "."]));
  const apart = balance(view.audit);
  if (apart > 0) made.push(note("partly", `${whole(apart)} apart`, `Neighbours hold ${plural(apart, "decision")} of this agent that its disk had lost: the store was restored from a copy, or is new. Nothing is missing; decisions that were open in the copy are superseded.`));
  if (apart < 0) made.push(note("bad", `${whole(-apart)} apart`, `${plural(-apart, "decision")} that this agent counted are missing in its evidence: see its log.`));
  const { late_rewards: missed, rewards, longest_lateness: longest } = view.experiment;
  if (missed >= 10 && missed > 0.03 * (rewards + missed)) made.push(note("partly", "Late", `${whole(missed)} of ${whole(rewards + missed)} rewards (${percent(missed / (rewards + missed), 1)}) came after the window of ${duration(view.experiment.reward_window ?? 0)}, the latest by ${duration(longest)}, and did not count: lengthen `, h("code", {}, "reward_window"), "."));
  return made;
};
