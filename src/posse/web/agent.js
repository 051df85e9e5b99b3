// The page of one agent: receives changes, draws its sections, sends orders.
import { $, h, render } from "./dom.js";
import { fixed, stamp, total } from "./format.js";
import { armTable } from "./arms.js";
import { timeChart } from "./chart.js";
import { guardrailTable } from "./guardrails.js";
import { network } from "./network.js";
import { confirmOrder } from "./orders.js";
import { panels, recent } from "./past.js";
import { picker } from "./segments.js";
import { siteMap } from "./sites.js";
import * as states from "./states.js";
import { ask, follow, storeToken, token } from "./stream.js";
import { theme } from "./theme.js";
import { explain, settle } from "./tips.js";
import { lead, measure, notes, strip } from "./words.js";

const STALE = 3; // seconds without an update
const view = { now: 0 }; // the sections as they last were
const past = { scale: "day", day: null, shown: null, asked: "" };
let [updated, trouble, streamed, stop] = [0, null, true, null];
let base = "v1/";
let chart = null;

const wanted = () => {
  const name = location.hash.slice(1);
  try {
    return decodeURIComponent(name);
  } catch { // somebody's own %
    return name;
  }
};
const neighbours = () => Object.keys(view.network?.neighbours ?? {});

/* Changes */
export const take = (change, byStream) => {
  [updated, trouble, streamed] = [performance.now(), null, byStream];
  view.now = change.now;
  Object.assign(view, change.sections);
  try {
    if (view.arms) show();
  } catch (error) {
    reportError(error); // an error of this page: the agent is well, and the next change may be drawn
  }
};
const fail = (error) => {
  trouble = error;
  beat();
};
// Requests its own rights, then follows the experiment of the address, or the first.
const begin = async () => {
  stop?.();
  const mine = new AbortController();
  stop = () => mine.abort();
  Object.assign(past, { day: null, shown: null, asked: "" });
  try {
    const caller = await (await ask("v1/caller", { signal: mine.signal })).json();
    introduce(caller);
    if (!caller.admitted) return fail({ status: 401 });
    const name = wanted() || caller.experiments[0];
    if (!caller.experiments.includes(name)) return fail({ status: 404, message: "This agent has no such experiment" });
    if (mine.signal.aborted) return;
    const address = `v1/experiments/${encodeURIComponent(name)}/`;
    if (address !== base) { // the past of another experiment must not stay until its own arrives
      chart?.show({ times: [], panels: [], events: [] });
      render($("events"));
    }
    base = address;
    stop = follow(base, take, fail);
  } catch (error) {
    if (mine.signal.aborted) return;
    fail(error);
    setTimeout(() => { if (!mine.signal.aborted) begin(); }, 2000);
  }
};

/* Drawing */
const show = () => {
  const { agent, arms } = view;
  document.title = `${agent.name} / ${agent.experiment}: posse`;
  render($("who"), h("bdi", { tabindex: 0, tip: "The agent that serves this page. Every agent shows the same network." }, agent.name));
  render($("experiment"), ...agent.experiments.map((name) => h("option", { value: name, selected: name === agent.experiment }, name)));
  $("experiment").disabled = agent.experiments.length < 2;
  $("experiment").value = agent.experiment;
  render($("lead"), ...lead(view));
  render($("strip"), ...strip(view));
  const nothing = !total(Object.values(arms).map((arm) => arm.pulls_in_network + arm.open_in_network)) && !view.experiment.open_decisions;
  render($("notes"), ...notes(view), nothing ? states.empty(view) : null);
  table();
  const who = view.experiment.context ? " Each arm got other visitors." : "";
  $("sites-about").textContent = `What happened: ${measure(agent).rate ? "share of closed visits that converted" : "mean reward of closed visits"}.${who}`;
  render($("sites"), ...siteMap(view));
  $("guards").hidden = !view.guardrails?.length;
  render($("guards-table"), view.guardrails?.length ? guardrailTable(view) : null);
  $("network-about").textContent = `Seen from ${agent.name}; numbers on links: message delay`;
  render($("network"), ...network(view));
  $("content").hidden = false;
  remember();
  beat();
  settle();
};
// The arms, for all visitors or for those of the picker.
const table = () => {
  const { arms, whom } = segments.arms(base, view);
  const where = view.experiment.sites.read === "alike" ? " at all sites" : ", for this site";
  const what = whom ? `What to expect of ${whom}, estimated` : `${measure(view.agent).rate ? "Rates" : "Means"}, estimated`;
  $("arms-about").textContent = `The variants that visitors get. ${what} from closed visits (finished: their reward is final)${where}; bars: 95% intervals; dotted: the leader`;
  render($("arms"), armTable({ ...view, arms }, recent(past.day, arms)));
  settle();
};
const segments = picker($("segments"), table);
const draw = () => {
  if (!past.shown || !view.arms) return;
  const shown = panels(past.shown, view);
  chart ??= timeChart($("chart"));
  chart.show(shown.panels.length ? shown : { ...shown, times: [] });
  const waiting = !shown.panels.length ? "No visits yet: lines begin with the first." : past.shown.times.length < 2 ? "History is recorded once a minute: lines begin with the second point." : null;
  render($("chart-empty"), waiting ? h("p", { class: "blank" }, waiting) : null);
  const events = shown.events.toReversed();
  render($("events"), ...(events.length ? events.map((each) => h("li", { "data-key": `${each.time} ${each.text}` }, h("i", {}, each.key), h("span", {}, stamp(each.time)), h("span", {}, each.text))) : [h("li", {}, h("i"), h("span", {}, "–"), h("span", {}, "No events."))]));
  settle();
};
// Requests the history when there is more of it.
const remember = async () => {
  const mark = JSON.stringify([view.past, past.scale, base]);
  if (mark === past.asked) return;
  past.asked = mark;
  const scale = past.scale;
  try {
    const day = ask(`${base}history/day`).then((answer) => answer.json());
    const other = scale === "day" ? day : ask(`${base}history/${scale}`).then((answer) => answer.json());
    const found = await Promise.all([day, other]);
    if (mark !== past.asked) return; // another experiment or range by now
    [past.day, past.shown] = found;
    draw();
    table();
  } catch {
    if (mark === past.asked) past.asked = ""; // again with the next change
  }
};
// Shows the age of the last update, several times a second.
const beat = () => {
  const silence = updated ? (performance.now() - updated) / 1000 : 0;
  const old = updated ? silence > STALE : false;
  const body = document.body.classList;
  const refusal = trouble && [401, 404].includes(trouble.status);
  body.toggle("is-asking", !updated || (!old && !streamed));
  body.toggle("is-stale", old || Boolean(trouble && !updated && !refusal));
  if (trouble && !updated) render($("lead"), h("h1", { class: "sr" }, "Nothing to show")); // nothing is loading
  $("alive").textContent = !updated ? (refusal ? "nothing shown" : trouble ? "no answer" : "connecting") : old ? `no update for ${Math.floor(silence)} s` : `${streamed ? "live" : "polled"}, ${fixed(silence)} s ago`;
  if (refusal || (trouble && !updated)) render($("notice"), states.refused(trouble, Boolean(token())));
  else render($("notice"), old ? states.stale(Math.floor(silence), view.now, trouble, neighbours()) : null);
  if (trouble?.status === 401 && !$("write").open) $("write").open = true;
};

/* Orders */
const introduce = ({ admitted, operator, known_token: known }) => {
  $("mode").textContent = operator ? "operator" : token() && !known ? "wrong token" : admitted ? "read-only" : token() ? "wrong token" : "token";
  $("told").textContent = !token() || operator ? "" : known ? "This token allows reading, but not pinning or pausing." : admitted ? "Wrong token: it is not the operators'. You can still read." : "Wrong token: the agent does not know it.";
  document.body.classList.toggle("can-write", operator);
};
const order = async (act, given) => {
  const [path, section] = act === "forget" ? ["v1/forget", "network"] : [`${base}${act}`, "controls"];
  try {
    view[section] = await (await ask(path, { method: "POST", body: JSON.stringify(given) })).json();
    show();
  } catch (error) {
    $("told").textContent = error.message;
    $("write").open = true;
  }
};

document.addEventListener("click", (event) => {
  const { act, arm, agent, scale } = event.target.closest("button")?.dataset ?? {};
  if (act === "again") begin();
  else if (act) confirmOrder(view, act, agent ? { agent } : { arm }, order);
  if (!scale) return;
  past.scale = scale;
  for (const each of document.querySelectorAll("#ranges button")) each.setAttribute("aria-pressed", String(each.dataset.scale === scale));
  remember();
});
$("token").addEventListener("submit", async (event) => {
  event.preventDefault();
  storeToken($("secret").value.trim());
  $("secret").value = "";
  await begin();
  $("write").open = $("mode").textContent !== "operator";
});
$("experiment").addEventListener("change", (event) => { location.hash = encodeURIComponent(event.target.value); });
addEventListener("hashchange", begin);
document.addEventListener("visibilitychange", () => (document.hidden ? stop?.() : begin())); // a hidden page needs no changes
addEventListener("pagehide", () => stop?.());
addEventListener("pageshow", (event) => { if (event.persisted) begin(); });

theme();
explain();
if (!document.hidden) begin();
setInterval(beat, 500);
