// The picker of segments: shows the arms for visitors with chosen attributes, averaged over the others.
import { bdi, h, render } from "./dom.js";
import { ask } from "./stream.js";

const values = (field) => (Array.isArray(field) ? field : field === "flag" || field.flag ? [true, false] : field.categories ?? [field.low, (field.low + field.high) / 2, field.high]);
const word = (value) => (value === true ? "yes" : value === false ? "no" : String(value));
const option = (value, chosen) => h("option", { value: JSON.stringify(value), selected: value === chosen }, word(value));
const select = (name, field, chosen) => h("label", { "data-key": name }, bdi(name), " ",
  h("select", { "data-field": name }, h("option", { value: "", selected: chosen === undefined }, "average"), ...values(field).map((value) => option(value, chosen))));

// host: the parent of the selects; show: redraws the table.
export const picker = (host, show) => {
  let [of, chosen, from, at, busy] = ["", {}, null, null, false];
  const any = () => Object.keys(chosen).length > 0;
  // Requests the arms again after every change, one request at a time.
  const look = async (base, view) => {
    if (!any() || busy || from === view.arms) return;
    [busy, from] = [true, view.arms];
    const context = { ...chosen };
    try {
      const found = await (await ask(`${base}arms`, { method: "POST", body: JSON.stringify({ context }) })).json();
      if (JSON.stringify(context) === JSON.stringify(chosen)) at = found;
    } catch {
      from = null; // again with the next change
    }
    busy = false;
    show();
  };
  host.addEventListener("change", ({ target }) => {
    const { field } = target.dataset;
    if (target.value === "") delete chosen[field];
    else chosen[field] = JSON.parse(target.value);
    [from, at] = [null, null];
    show();
  });
  return {
    // The arms to show, and for which visitors; null without contexts.
    arms: (base, view) => {
      const { context } = view.experiment;
      if (of !== base) [of, chosen, from, at] = [base, {}, null, null];
      render(host, ...Object.entries(context?.fields ?? {}).map(([name, field]) => select(name, field, chosen[name])));
      host.hidden = !context;
      if (!context) return { arms: view.arms, whom: null };
      look(base, view);
      const told = Object.entries(chosen).map(([name, value]) => `${name} ${word(value)}`).join(", ");
      return any() && at ? { arms: at, whom: `visitors with ${told}` } : { arms: view.arms, whom: any() ? `visitors with ${told} (loading)` : "an average visitor" };
    },
  };
};
