// Guardrails: further metrics of every arm with their limits; only where an experiment has metrics.
import { bdi, h, isolated } from "./dom.js";
import { count, short } from "./format.js";
import { mark } from "./marks.js";

const LOOKS = "The interval may be looked at every day: it holds at every look, in 95 of 100 experiments.";
// A word for a row, its look, and what it means. reference: whether the other arms' limit is computed from this one.
const judge = (each, reference, paused) => {
  if (each.mean === null) return ["no values yet", "quiet", `No value of ${each.metric} was reported for ${isolated(each.arm)} yet.`];
  if (reference) return ["reference", "quiet", `${isolated(each.arm)} is the control arm, with which the others are compared: their limit is computed from its interval.`];
  if (each.limit === null) return ["no limit", "quiet", "This metric has no limit in the settings."];
  if (each.breached) return ["beyond its limit", "badge bad", `The whole interval lies beyond the limit: ${paused ? `${isolated(each.arm)} is paused` : `${isolated(each.arm)} gets visits until a person pauses it`}.`];
  if (each.low <= each.limit && each.limit <= each.high) return ["not clear yet", "badge", "The limit lies inside the interval: there are too few visits to say on which side the true mean is."];
  return ["within its limit", "badge good", "The whole interval lies within the limit."];
};

// The table of an experiment's metrics, by metric and arm.
export const guardrailTable = (view) => {
  const arms = Object.keys(view.arms);
  const head = h("tr", {}, h("th", { scope: "col" }, "metric"), h("th", { scope: "col" }, "arm"), h("th", { scope: "col" }, "state"),
    h("th", { scope: "col", class: "num", tip: "The mean over visits with this arm for which the metric was reported, at all sites, in the unit in which the application reports it." }, "mean"),
    h("th", { scope: "col", class: "num", tip: `Where the true mean lies. ${LOOKS}` }, "between"),
    h("th", { scope: "col", class: "num", tip: "The value that the mean should not cross: a number in the settings, or a percentage of the control arm. Each limit says which." }, "limit"),
    h("th", { scope: "col", class: "num narrow-hide", tip: "Visits for which the metric was reported, with those of visitors who always get the control arm." }, "visits with a value"));
  return h("table", { class: "guards tall", "data-grid": true }, h("caption", { class: "sr" }, "Metrics and their limits"), h("thead", {}, head),
    h("tbody", {}, ...view.guardrails.map((each) => {
      const limits = view.guardrails.filter((other) => other.metric === each.metric);
      const control = limits.find((other) => other.limit === null); // has none of its own where limits are relative to it
      const [word, look, meaning] = judge(each, each.limit === null && limits.some((other) => other.limit !== null), view.controls.paused.includes(each.arm));
      const origin = each.limit === null || each.mean === null ? null : control ? `A percentage of ${isolated(control.arm)}, the control arm: computed from the end of its interval that favours ${isolated(each.arm)}.` : "A number in the settings, the same for every arm.";
      const range = each.low === null || each.high === null ? "–" : `${short(each.low)} and ${short(each.high)}`;
      return h("tr", { "data-key": `${each.metric} ${each.arm}` }, h("th", { scope: "row" }, each.metric),
        h("td", {}, h("span", { class: "row" }, arms.includes(each.arm) ? mark(arms.indexOf(each.arm)) : null, bdi(each.arm))),
        h("td", {}, h("span", { class: look, tip: meaning }, word)),
        h("td", { class: "num" }, each.mean === null ? "–" : short(each.mean)), h("td", { class: "num" }, range),
        h("td", { class: "num", tip: origin }, each.limit === null || each.mean === null ? "–" : short(each.limit)), h("td", { class: "num narrow-hide" }, count(each.decisions)));
    })));
};
