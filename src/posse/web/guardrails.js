// Guardrails: further metrics of every arm with their limits; only where an experiment has metrics.
import { bdi, h, isolated } from "./dom.js";
import { count, short } from "./format.js";
import { mark } from "./marks.js";

const LOOKS = "The interval may be looked at every day: it holds at every look, in 95 of 100 experiments.";
const state = (each) => {
  if (each.mean === null) return ["no values yet", "quiet"];
  if (each.limit === null) return ["no limit", "quiet"];
  return each.breached ? ["beyond its limit", "badge bad"] : ["within its limit", "badge good"];
};
const meaning = (each) => {
  if (each.mean === null) return `No value of ${each.metric} was reported for ${isolated(each.arm)} yet.`;
  if (each.limit === null) return "This metric has no limit in the settings.";
  return each.breached ? `The whole interval lies beyond the limit: consider pausing ${isolated(each.arm)}. Nothing stops by itself.` : "The interval does not lie beyond the limit as a whole.";
};

// The table of an experiment's metrics, by metric and arm.
export const guardrailTable = (view) => {
  const arms = Object.keys(view.arms);
  const head = h("tr", {}, h("th", { scope: "col" }, "metric"), h("th", { scope: "col" }, "arm"),
    h("th", { scope: "col", class: "num", tip: "The mean over visits with this arm for which the metric was reported, at all sites." }, "mean"),
    h("th", { scope: "col", class: "num", tip: `Where the true mean lies. ${LOOKS}` }, "between"),
    h("th", { scope: "col", class: "num", tip: "The value that the mean should not cross. A limit in percent is computed from the control arm." }, "limit"),
    h("th", { scope: "col", class: "num narrow-hide", tip: "Visits for which the metric was reported." }, "visits"), h("th", { scope: "col" }, "state"));
  return h("table", { class: "guards tall", "data-grid": true }, h("caption", { class: "sr" }, "Metrics and their limits"), h("thead", {}, head),
    h("tbody", {}, ...view.guardrails.map((each) => {
      const [word, look] = state(each);
      const range = each.low === null || each.high === null ? "–" : `${short(each.low)} and ${short(each.high)}`;
      return h("tr", { "data-key": `${each.metric} ${each.arm}` }, h("th", { scope: "row" }, each.metric),
        h("td", {}, h("span", { class: "row" }, arms.includes(each.arm) ? mark(arms.indexOf(each.arm)) : null, bdi(each.arm))),
        h("td", { class: "num" }, each.mean === null ? "–" : short(each.mean)), h("td", { class: "num" }, range),
        h("td", { class: "num" }, each.limit === null ? "–" : short(each.limit)), h("td", { class: "num narrow-hide" }, count(each.decisions)),
        h("td", {}, h("span", { class: look, tip: meaning(each) }, word)));
    })));
};
