// Notices: no data yet, no connection, no access.
import { bdi, h } from "./dom.js";
import { duration, seconds } from "./format.js";

const note = (look, word, ...text) => h("p", { class: `note ${look}` }, h("b", {}, word), h("span", {}, ...text));
const again = () => h("button", { type: "button", "data-act": "again" }, "Retry now");

// The growing number is visible, but hidden from screen readers, which would repeat it every second.
const since = (silence) => h("span", { "aria-hidden": "true" }, ` for ${duration(silence)}`);

// No update for some seconds: a notice that stays bright above the grey page.
export const stale = (silence, last, error, neighbours) => {
  const others = neighbours.slice(0, 3).flatMap((name, i) => [i ? ", " : "", bdi(name)]);
  const where = others.length ? [" The other agents show the same network: ", ...others, "."] : [];
  if (error && silence > 15) return note("bad", "No answer", "This agent has not answered", since(silence), ". Acknowledged rewards are safe on its disk.", ...where, " ", again());
  return note("bad", "Not live", "No update from this agent", since(silence), `. The page shows ${seconds(last)} UTC. `, again());
};
export const refused = (error, hasToken) => {
  if (error.status === 401 && hasToken) return note("bad", "Wrong token", "This agent does not know the token. Enter another one above; an empty one removes it from this tab.");
  if (error.status === 401) return note("partly", "Token", "This agent needs a token. Enter it above, under “token”; it stays in this tab only.");
  if (error.status === 404) return note("bad", "Gone", `${error.message}. `, h("a", { href: "./" }, "Show another experiment"));
  return note("bad", "No answer", "This agent does not answer. ", again());
};

// An example of a visitor in the schema of contexts.
const example = (fields) => Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, Array.isArray(field) ? field[0] : field === "flag" || field.flag ? true : field.categories?.[0] ?? field.low]));

// Before the first reward: how to send one.
export const empty = (view) => {
  const route = new URL(view.agent.experiments.length > 1 ? `v1/experiments/${view.agent.experiment}` : "v1", location.href).href;
  const json = "-H 'content-type: application/json'";
  const known = view.experiment.context ? `, "context": ${JSON.stringify(example(view.experiment.context.fields))}` : "";
  return h("div", { class: "blank" }, "Request a decision, then report its reward:",
    h("pre", {}, `curl ${json} ${route}/decisions -d '{"decision": "visit-1"${known}}'\ncurl ${json} ${route}/decisions/visit-1/reward -d '{"reward": 1}'`));
};
