// The network as this agent knows it: a ring of agents, their links, and a table with the same facts.
import { bdi, cut, h, isolated, s } from "./dom.js";
import { ago, count, duration, plural, total } from "./format.js";

const NAMED = 16; // up to this many agents, the picture names all
const ROOMY = 8; // and shows their state, and the delay of links
const SLOW = 2; // seconds of delay on a link

const news = (agent, now) => (agent.heard === null ? "never seen" : ago(now - agent.heard));
const state = (agent, now) => {
  if (agent.state === "here") return "this agent";
  if (agent.state === "up") return news(agent, now);
  if (agent.state === "silent") return agent.heard === null ? "silent" : `silent ${duration(now - agent.heard)}`;
  return agent.state === "down" ? "missing" : "evidence only";
};
const lost = (agent) => agent.state === "down" || agent.state === "silent";
const sentence = (name, agent, now) => {
  const shown = isolated(name);
  if (agent.state === "here") return `${shown} is the agent that serves this page.`;
  if (agent.state === "known") return `This agent has evidence of ${shown}, but no status.`;
  const heard = `it was last seen ${news(agent, now)}`;
  if (agent.state === "down") return `${shown} is not connected, and no other agent has seen it since; ${heard}. Its decisions so far are counted here.`;
  if (agent.state === "silent") return `${shown} has sent no status for two minutes; ${heard}. Its decisions so far are counted here.`;
  return `${shown} is reachable; ${heard}.`;
};
const wire = (link) => (link.state === "down" ? "down" : link.state === "half" ? "half" : link.lag !== null && link.lag > SLOW ? "slow" : "");
const linkWord = (link) => (link.state === "down" ? "down" : link.state === "half" ? "one way" : link.lag === null ? "" : duration(link.lag));
const linkSentence = (link) => {
  const ends = `${isolated(link.a)} to ${isolated(link.b)}`;
  if (link.state === "down") return `${ends}: no message gets through.`;
  if (link.state === "half") return `${ends}: one end reports it up, the other down.`;
  return link.lag === null ? `${ends}: up.` : `${ends}: messages take ${duration(link.lag)}.`;
};

const picture = (agents, links, now) => {
  const names = agents.map(([name]) => name);
  const wide = innerWidth < 700 ? 350 : 520;
  const tall = names.length > ROOMY ? 380 : names.length > 2 ? 280 : 110;
  const places = new Map(names.map((name, i) => {
    const angle = (names.length === 2 ? -Math.PI : -Math.PI / 2) + (2 * Math.PI * i) / names.length;
    return [name, [wide / 2 + (wide / 2 - (wide < 400 ? 86 : 100)) * Math.cos(angle), tall / 2 + 6 + (tall / 2 - 46) * Math.sin(angle)]];
  }));
  const [many, crowded] = [names.length > NAMED, names.length > ROOMY];
  const wires = [];
  const labels = [];
  for (const link of links) {
    if (!places.has(link.a) || !places.has(link.b)) continue;
    const [[x1, y1], [x2, y2]] = [places.get(link.a), places.get(link.b)];
    const [word, tip] = [linkWord(link), linkSentence(link)];
    const near = Math.abs(names.indexOf(link.a) - names.indexOf(link.b));
    const part = near === 1 || near === names.length - 1 || names.length === 2 ? 0.5 : 0.36;
    const [x, y] = [x1 + (x2 - x1) * part, y1 + (y2 - y1) * part];
    wires.push(s("line", { class: `wire ${wire(link)}`, x1: x1.toFixed(1), y1: y1.toFixed(1), x2: x2.toFixed(1), y2: y2.toFixed(1), tip: many ? null : tip }));
    if (word && !crowded) labels.push(s("g", { tip: many ? null : tip }, s("rect", { class: "lagback", x: (x - 4 - word.length * 3.3).toFixed(1), y: (y - 8).toFixed(1), width: 8 + word.length * 6.6, height: 16 }), s("text", { x: x.toFixed(1), y: (y + 4).toFixed(1), "text-anchor": "middle" }, word)));
  }
  let last = 0; // the place of the last name around the ring: the next needs room
  const clear = (i) => Math.min(i - last, names.length - i) > names.length / NAMED && ((last = i), true);
  const bodies = agents.map(([name, agent], i) => {
    const [x, y] = places.get(name);
    const side = Math.abs(x - wide / 2) < 30 ? 0 : Math.sign(x - wide / 2);
    const anchor = side === 0 ? "middle" : side > 0 ? "start" : "end";
    const [tx, ty] = side === 0 ? [x, y < tall / 2 ? y - 29 : y + 24] : [x + side * 15, y - 2];
    const named = !many || agent.state === "here" || (lost(agent) && clear(i));
    const told = named && (!crowded || agent.state === "here" || lost(agent));
    return s("g", { class: `${agent.state === "here" ? "me" : ""} ${lost(agent) ? "lost" : ""}`, tip: sentence(name, agent, now), "data-agent": name },
      s("circle", { class: "body", cx: x.toFixed(1), cy: y.toFixed(1), r: !many ? 9 : wide < 400 ? 4 : 6 }),
      lost(agent) ? s("path", { class: "cross", d: `M${(x - 4).toFixed(1)} ${(y - 4).toFixed(1)}l8 8m0 -8l-8 8` }) : null,
      named ? s("text", { class: "title", x: tx.toFixed(1), y: ty.toFixed(1), "text-anchor": anchor }, cut(name, wide < 400 ? 10 : 13)) : null,
      told ? s("text", { class: "state", x: tx.toFixed(1), y: (ty + 14).toFixed(1), "text-anchor": anchor }, state(agent, now)) : null);
  });
  return s("svg", { class: "net", viewBox: `0 0 ${wide} ${tall}`, role: "group", "aria-label": `Network of ${plural(names.length, "agent")}. The table below has the same facts.`, "data-grid": true }, ...wires, ...labels, ...bodies);
};

const REFUSALS = 4;
const refused = (reasons) => {
  const all = Object.entries(reasons).filter(([, number]) => number > 0).sort((a, b) => b[1] - a[1]);
  if (!all.length) return ["0", "No message was refused there."];
  const shown = all.slice(0, REFUSALS).map(([reason, number]) => `${number} ${reason}`).join("; ");
  return [count(total(all.map(([, number]) => number))), `Refused there since its start: ${shown}${all.length > REFUSALS ? "; and others" : ""}.`];
};

const table = (view, agents) => h("div", { class: "agents", tabindex: agents.length > 12 ? 0 : null, role: agents.length > 12 ? "region" : null, "aria-label": agents.length > 12 ? "Agents" : null },
  h("table", { class: "tall", "data-grid": true }, h("caption", { class: "sr" }, "Agents"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "agent"),
      h("th", { scope: "col", class: "num", tip: "Time since its last status reached this agent." }, "last seen"),
      h("th", { scope: "col", class: "num", tip: "Visits that it has counted and whose numbers have not arrived here yet." }, "on their way"),
      h("th", { scope: "col", class: "num narrow-hide", tip: "Visits that it has counted, open ones included." }, "visits"),
      h("th", { scope: "col", class: "num", tip: "Messages of others that failed a check there since its start, and did not count. Each number says why." }, "refused"))),
    h("tbody", {}, ...agents.map(([name, agent]) => {
      const mine = agent.experiments[view.agent.experiment] ?? {};
      const visits = Math.max(mine.counted ?? 0, mine.held ?? 0); // its status may be a minute old
      const [number, reasons] = refused(agent.refused);
      const relayed = agent.via && agent.via !== name;
      return h("tr", { "data-key": name }, h("th", { scope: "row", tip: sentence(name, agent, view.now) + (relayed ? ` ${isolated(agent.via)} forwards its status to this agent.` : "") }, bdi(name), relayed ? h("span", { class: "quiet small narrow-hide" }, " via ", bdi(agent.via)) : null),
        h("td", { class: `num ${lost(agent) ? "lost" : ""}`, tip: sentence(name, agent, view.now) }, agent.state === "here" ? "here" : state(agent, view.now),
          agent.state === "here" || agent.state === "up" ? null : [" ", h("button", { type: "button", class: "act", "data-act": "forget", "data-agent": name, "aria-label": `Forget ${isolated(name)}` }, "Forget")]),
        h("td", { class: "num", tip: typeof mine.behind === "number" ? `${count(mine.behind)} of ${count(visits)} decisions of ${isolated(name)} have not arrived here yet.` : `The number of decisions of ${isolated(name)} on their way is unknown.` }, typeof mine.behind === "number" ? count(mine.behind) : "–"),
        h("td", { class: "num narrow-hide", tip: `${isolated(name)} has counted ${count(visits)} decisions, as far as is known here.` }, count(visits)),
        h("td", { class: "num", tip: reasons }, number));
    }))));

// Orders agents around the ring along links, so that few links cross.
const around = (names, links) => {
  const near = new Map(names.map((name) => [name, new Set()]));
  for (const { a, b } of links) if (near.has(a) && near.has(b)) [near.get(a).add(b), near.get(b).add(a)];
  const [order, left] = [[], new Set(names)];
  let at = names[0];
  while (at !== undefined) {
    order.push(at);
    left.delete(at);
    const free = (name) => [...near.get(name)].filter((each) => left.has(each)).length;
    const next = [...near.get(at)].filter((each) => left.has(each)).sort((a, b) => free(a) - free(b) || (a < b ? -1 : 1))[0];
    at = next ?? [...left][0];
  }
  return order;
};

export const network = (view) => {
  const { agents: known, links } = view.network;
  const names = around(Object.keys(known).sort((a, b) => (known[b].state === "here") - (known[a].state === "here") || (a < b ? -1 : 1)), links);
  const agents = names.map((name) => [name, known[name]]);
  const bad = agents.filter(([, agent]) => lost(agent));
  const listed = agents.length > 12 ? [...new Set([agents[0], ...bad, ...agents])].slice(0, 60) : agents;
  return [picture(agents, links, view.now), table(view, listed), listed.length < agents.length ? h("p", { class: "key" }, `and ${plural(agents.length - listed.length, "agent")} more${bad.length < listed.length ? ", all reachable or with evidence only" : ""}`) : null];
};
