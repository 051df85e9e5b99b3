// Sites and arms as a heat map: rates with counts, a mark where a site differs, the gain from sharing.
import { bdi, h, isolated } from "./dom.js";
import { brief, clamp, count, fixed, short, total } from "./format.js";
import { ENOUGH, few, measure, ranking } from "./words.js";

const pooled = (rows, arm) => {
  const cells = rows.map(([, row]) => row.arms[arm]).filter((cell) => cell?.pulls > 0);
  const pulls = total(cells.map((cell) => cell.pulls));
  return { pulls, mean: pulls > 0 ? total(cells.map((cell) => cell.pulls * cell.mean)) / pulls : null };
};

const box = (cell, unit, [low, high], tip, look = "") => {
  const dim = few(cell, unit);
  const depth = dim ? 0 : 4 + 48 * (high > low ? clamp((cell.mean - low) / (high - low), 0, 1) : 0.5);
  const value = cell.mean === null ? "–" : unit.rate ? fixed(100 * cell.mean, 2) : short(cell.mean);
  return h("td", { class: "cell" }, h("div", { class: `box ${dim ? "few" : ""} ${look}`, tip, vars: { "--v": depth.toFixed(1) } },
    h("b", {}, value, unit.rate && cell.mean !== null ? h("span", { class: "narrow-hide" }, "%") : null),
    h("small", { class: "narrow-hide" }, cell.pulls ? count(cell.pulls) : "none"), h("small", { class: "narrow-only" }, cell.pulls ? brief(cell.pulls) : "0")));
};

export const siteMap = (view) => {
  const { sites, why, apart, left_out: others } = view.sites;
  if (why) return [h("div", { class: "blank" }, h("b", {}, "No sites here. "), `${why[0].toUpperCase()}${why.slice(1)}.`)];
  const unit = measure(view.agent);
  const [rows, arms] = [Object.entries(sites), Object.keys(view.arms)];
  const solid = rows.flatMap(([, row]) => Object.values(row.arms)).filter((cell) => !few(cell, unit)).map((cell) => cell.mean);
  const range = solid.length ? [Math.min(...solid), Math.max(...solid)] : [0, 1];
  const leader = ranking(view)[0];
  // of a few visits any evidence is many times as much
  const gains = (row) => (row.gain !== null && leader && (row.arms[leader]?.pulls ?? 0) >= ENOUGH ? row.gain : null);
  const plain = `This is the plain ${unit.rate ? "share" : "mean"}.`;
  const missing = view.experiment.context ? "is not computed with contexts" : `is not shown: fewer than ${ENOUGH} closed visits of the leading arm there`;
  const gained = (name, gain) => (gain === null ? `The gain from sharing at ${isolated(name)} ${missing}.` : `By sharing, ${isolated(name)} knows as much about the leading arm as from ${fixed(gain)} times the data that it has alone.`);
  const head = h("tr", {}, h("th", { scope: "col" }, "site"), ...arms.map((arm) => h("th", { scope: "col", tip: isolated(arm) }, bdi(arm))),
    h("th", { scope: "col", class: "gain num", tip: "How many times as many visits a site would have needed to learn as much about the leading arm alone." }, "gain from sharing"));
  const body = rows.map(([name, row]) => h("tr", { "data-key": name },
    h("th", { scope: "row", tip: isolated(name) }, bdi(name), name === view.agent.name ? h("span", { class: "quiet small narrow-hide" }, " here") : Object.hasOwn(view.network.agents, name) ? null : h("span", { class: "quiet small narrow-hide", tip: `${isolated(name)} was forgotten by an operator, because it left; its visits still count.` }, " left")),
    ...arms.map((arm) => {
      const cell = row.arms[arm] ?? { pulls: 0, mean: null };
      const odd = apart.find((each) => each.site === name && each.arm === arm);
      const basic = cell.mean === null ? `${isolated(name)}, ${isolated(arm)}: no closed visit.` : `${isolated(name)}, ${isolated(arm)}: ${unit.value(cell.mean)} ${unit.of}, of ${count(cell.pulls)} closed. ${plain}`;
      const more = odd ? ` Elsewhere ${unit.value(odd.elsewhere)}: more than chance explains.` : few(cell, unit) && cell.pulls ? " Too few visits for a colour." : "";
      return box(cell, unit, range, basic + more, odd ? `differs ${odd.higher ? "" : "low"}` : "");
    }),
    h("td", { class: "gain num", tip: gained(name, gains(row)) }, gains(row) === null ? "–" : `×${fixed(gains(row))}`)));
  const all = rows.length > 1 ? h("tr", { class: "all", "data-key": " all" }, h("th", { scope: "row" }, "all sites"),
    ...arms.map((arm) => { const cell = pooled(rows, arm); return box(cell, unit, range, `${isolated(arm)}, all sites shown: ${cell.mean === null ? "no closed visit" : `${unit.value(cell.mean)} ${unit.of}, of ${count(cell.pulls)} closed. ${plain} The table of arms estimates, with a weak prior: its numbers differ a little`}.`); }), h("td", { class: "gain" })) : null;
  return [
    h("div", { class: "scroll" }, h("table", { class: "heat", "data-grid": true, vars: { "--arms": arms.length } }, h("caption", { class: "sr" }, "Means by site and arm, with visits below"), h("thead", {}, head), h("tbody", {}, ...body, all))),
    h("p", { class: "key" }, range[1] > range[0] && solid.length ? h("span", {}, unit.axis(range[0]), h("span", { class: "ramp" }), `${unit.axis(range[1])} ${unit.of}`) : null,
      h("span", {}, "small numbers: closed (finished) visits"), apart.length ? h("span", {}, h("span", { class: "mark" }), "▲ higher, ▼ lower than elsewhere, beyond chance") : null,
      h("span", {}, "no fill: too few visits"), others ? h("span", {}, `and ${others} sites with fewer visits`) : null),
  ];
};
