// What is said when there is nothing to show, or when what is shown is old.
import { bdi, h } from "./dom.js";
import { duration, seconds } from "./format.js";

const note = (look, word, ...text) => h("p", { class: `note ${look}` }, h("b", {}, word), h("span", {}, ...text));
const again = () => h("button", { type: "button", "data-act": "again" }, "Ask now");

// What grows every second is seen, and not told again every second to who listens.
const since = (silence) => h("span", { "aria-hidden": "true" }, ` for ${duration(silence)}`);

// No news for some seconds: a notice that stays bright above what greys out.
export const stale = (silence, last, error, neighbours) => {
  const others = neighbours.slice(0, 3).flatMap((name, i) => [i ? ", " : "", bdi(name)]);
  const where = others.length ? [" The same network is seen from ", ...others, "."] : [];
  if (error && silence > 15) return note("bad", "No answer", "This agent has not answered", since(silence), ". What it acknowledged is safe on its disk.", ...where, " ", again());
  return note("bad", "Not live", "No news from this agent", since(silence), `. What you see is from ${seconds(last)} UTC. `, again());
};
export const refused = (error) => {
  if (error.status === 401) return note("partly", "Token", "This agent shows its numbers to those who have its token. Type it above, under “token”; it stays in this tab only.");
  if (error.status === 404) return note("bad", "Gone", `${error.message}. `, h("a", { href: "./" }, "Show another experiment"));
  return note("bad", "No answer", "This agent does not answer. ", again());
};

// A visitor as the schema of contexts has one.
const example = (fields) => Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, Array.isArray(field) ? field[0] : field === "flag" || field.flag ? true : field.categories?.[0] ?? field.low]));

// Before the first reward: how to get one.
export const empty = (view) => {
  const route = new URL(view.agent.experiments.length > 1 ? `v1/experiments/${view.agent.experiment}` : "v1", location.href).href;
  const json = "-H 'content-type: application/json'";
  const known = view.experiment.context ? `, "context": ${JSON.stringify(example(view.experiment.context.fields))}` : "";
  return h("div", { class: "blank" }, "Ask for an arm, then say how it went:",
    h("pre", {}, `curl ${json} ${route}/decisions -d '{"decision": "visit-1"${known}}'\ncurl ${json} ${route}/decisions/visit-1/reward -d '{"reward": 1}'`));
};
