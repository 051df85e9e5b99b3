// The network of a swarm: agents as rings of the arms they play, links, and marks of all faults.
import { cut, render, s } from "./dom.js";
import { percent, whole } from "./format.js";
import { colour } from "./marks.js";
import { known, largest, letter, word } from "./swarm-words.js";

// The ring of agents: its size, theirs, room at its sides and above, and how it bulges (1: an ellipse).
const WIDE = { wide: 760, tall: 500, r: 30, x: 122, y: 90, bulge: 1 };
const NARROW = { wide: 343, tall: 450, r: 21, x: 96, y: 78, bulge: 0.55 };
const CROWDED = { ...NARROW, tall: 600 }; // more agents than have room one below the other
const TAG = 22; // from one tag to the next
const LATE = 24; // missing visits per agent that are shown in another colour
const CORES = { killed: "✕", stopped: "‖", starts: "…" };

const arc = (r, from, to) => {
  const at = (turn) => `${(r * Math.sin(2 * Math.PI * turn)).toFixed(2)} ${(-r * Math.cos(2 * Math.PI * turn)).toFixed(2)}`;
  return to - from > 0.999 ? `M0 ${-r}A${r} ${r} 0 1 1 -0.01 ${-r}` : `M${at(from)}A${r} ${r} 0 ${to - from > 0.5 ? 1 : 0} 1 ${at(to)}`;
};
const arcs = (shares, r) => {
  let sum = 0;
  return shares.map((share, k) => {
    const d = arc(r, sum, sum + share);
    sum += share;
    return share > 0.005 ? s("path", { class: `arc ${colour(k)}`, d }) : null;
  });
};
const tag = (text, look, x, y, anchor) => {
  const wide = text.length * 6.6 + 14;
  const from = x - { start: 0, middle: wide / 2, end: wide }[anchor];
  return s("g", { class: `tag ${look}` }, s("rect", { x: from, y: y - 10, width: wide, height: 20, rx: 10 }), s("text", { x: from + wide / 2, y: y + 4 }, text, " "));
};

const sentence = (view, i) => {
  const name = view.agents[i];
  const state = view.states[i];
  const plays = known(view, i) ? ` It plays ${view.arms[largest(view.shares[i])][0]} in ${percent(Math.max(...view.shares[i]), 0)} of visits.` : "";
  if (state === "runs") return `${name}: ${view.behind[i] ? `${whole(view.behind[i])} acknowledged visits of others have not arrived yet` : "it has every acknowledged visit of every agent"}.${plays}`;
  if (state === "starts") return `${name} is starting from its disk.`;
  return state === "stopped" ? `${name} is stopped: it neither answers nor receives.` : `${name} is killed: ${whole(view.visits[i])} acknowledged visits are on its disk.`;
};

// host: where it is drawn. pick(agent, link): somebody picked one of them.
// show(view, agent, link) draws; place(i) says where an agent is; flights: a layer for messages, between links and agents.
export const network = (host, pick) => {
  const [links, flights, cuts, agents] = [s("g"), s("g", { "aria-hidden": "true" }), s("g", { "aria-hidden": "true" }), s("g")];
  const picture = s("svg", { class: "swarm", role: "group", "aria-label": "The network: Tab goes through links and agents, Enter picks one." }, links, flights, cuts, agents);
  host.replaceChildren(picture);
  const small = matchMedia("(max-width: 44rem)");
  let [size, n] = [WIDE, 1];
  const place = (i) => {
    const angle = -Math.PI / 2 + (2 * Math.PI * (i + 0.5)) / n;
    const across = Math.cos(angle);
    return [size.wide / 2 + (size.wide / 2 - size.x) * Math.sign(across) * Math.abs(across) ** size.bulge, size.tall / 2 - 8 + (size.tall / 2 - size.y) * Math.sin(angle)];
  };

  const cutmark = (view, l) => {
    const [[x1, y1], [x2, y2]] = view.links[l].map(place);
    return s("text", { class: "cutmark", x: (x1 + (x2 - x1) * 0.45).toFixed(1), y: (y1 + (y2 - y1) * 0.45 + 4).toFixed(1) }, "cut");
  };
  const link = (view, [a, b], l, picked) => {
    const [[x1, y1], [x2, y2]] = [place(a), place(b)].map((point) => point.map((value) => value.toFixed(1)));
    const down = view.cut.includes(l);
    const names = `${view.agents[a]}–${view.agents[b]}`;
    const tip = down ? `Link ${names} is cut: nothing gets through.` : `Link ${names}.`;
    return s("g", { class: "edge", role: "button", tabindex: 0, "data-key": `link ${names}`, "data-link": l, "aria-pressed": picked, "aria-label": `link ${view.agents[a]} to ${view.agents[b]}, ${down ? "cut" : "up"}`, tip },
      s("line", { class: `wire ${down ? "cut" : ""}`, x1, y1, x2, y2 }), s("line", { class: "hit", x1, y1, x2, y2 }));
  };

  // Labels stand outside the ring of agents, away from links.
  const label = ([x, y]) => {
    const { wide, tall, r } = size;
    const side = Math.abs(x - wide / 2) > wide / 6 ? Math.sign(x - wide / 2) : 0;
    if (side) return [(r + 12) * side, -2, side > 0 ? "start" : "end", 1];
    const up = y < tall / 2;
    const aside = x - wide / 2;
    const [from, anchor] = !small.matches || Math.abs(aside) < 4 ? [0, "middle"] : aside < 0 ? [-aside - 5, "end"] : [5 - aside, "start"];
    return [from, up ? -r - 27 : r + 22, anchor, up ? -1 : 1];
  };
  const agent = (view, i, picked) => {
    const [at, state, { r }] = [place(i), view.states[i], size];
    const [x, y, anchor, way] = label(at);
    const off = state === "killed" || state === "stopped" ? "off" : view.behind[i] > LATE * n ? "behind" : "";
    const [name, liked] = [cut(view.agents[i], 14), known(view, i) ? view.arms[largest(view.shares[i])][0] : ""];
    const core = CORES[state] ?? (liked ? letter(liked) : "");
    const tags = [view.lies[i] ? ["lies", "lies"] : null, view.differs[i] ? ["differs", "differs"] : null].filter(Boolean);
    return s("g", { class: `node ${state}`, role: "button", tabindex: 0, "data-key": `agent ${view.agents[i]}`, "data-agent": i, transform: `translate(${at[0].toFixed(1)} ${at[1].toFixed(1)})`, "aria-pressed": picked, "aria-label": `${name}: ${[word(view, i), ...tags.map(([text]) => text), core].filter(Boolean).join(", ")}${liked ? `${CORES[state] ? ", prefers" : " for"} ${liked}` : ""}`, tip: sentence(view, i) },
      s("circle", { class: "disc", r }), s("circle", { class: "pick", r: r + 6 }), ...arcs(view.shares[i], r - 4), s("circle", { class: "ring", r: r + 1 }),
      // in the order of the label, which begins with what is seen
      s("text", { class: "who", x, y, "text-anchor": anchor }, name, " "), s("text", { class: `sub ${off}`, x, y: y + 16, "text-anchor": anchor }, word(view, i), " "),
      ...tags.map(([text, look], row) => tag(text, look, x, way > 0 ? y + 34 + TAG * row : y - 24 - TAG * row, anchor)), s("text", { class: "core", y: 5 }, core));
  };

  const chosen = (event) => {
    const target = event.target.closest("[data-agent], [data-link]");
    if (!target) return;
    event.preventDefault();
    pick(target.dataset.agent === undefined ? null : Number(target.dataset.agent), target.dataset.link === undefined ? null : Number(target.dataset.link));
  };
  picture.addEventListener("click", chosen);
  picture.addEventListener("keydown", (event) => (event.key === "Enter" || event.key === " ") && chosen(event));

  return {
    flights,
    place,
    radius: () => size.r,
    show: (view, picked, edge) => {
      n = view.agents.length;
      size = !small.matches ? WIDE : n > 8 ? CROWDED : NARROW;
      const more = view.agents.some((_, i) => view.lies[i] && view.differs[i]) ? TAG : 0; // room for a second tag
      picture.setAttribute("viewBox", `0 ${-more} ${size.wide} ${size.tall + 2 * more}`);
      render(links, ...view.links.map((each, l) => link(view, each, l, String(l === edge))));
      render(cuts, ...view.cut.map((l) => cutmark(view, l)));
      render(agents, ...view.agents.map((name, i) => agent(view, i, String(name === picked))));
    },
  };
};
