// Charts on one time axis: curves or stacked shares, events above, values at the pointer.
import { cut, h, render, s } from "./dom.js";
import { clamp, clock, day, elapsed, stamp } from "./format.js";
import { colour } from "./marks.js";

const STEPS = [1, 5, 10, 30, 60, 120, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000, 7776000];
const nice = (span, most) => {
  const power = 10 ** Math.floor(Math.log10(span / most));
  return power * [1, 2, 5, 10].find((each) => span / (each * power) <= most + 1e-9);
};
const series = (panel) => panel.lines ?? panel.stack;
const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

// Runs of consecutive points with known values.
const runs = (length, known) => {
  const found = [];
  for (let i = 0; i < length; i += 1) {
    if (!known(i)) continue;
    if (found.length && found.at(-1).at(-1) === i - 1) found.at(-1).push(i);
    else found.push([i]);
  }
  return found;
};

// Moves the labels at the ends of curves apart.
const apart = (ends, top, ground) => {
  ends.sort((a, b) => a.y - b.y);
  ends.forEach((end, i) => (end.y = Math.max(end.y, i ? ends[i - 1].y + 14 : top)));
  for (let i = ends.length - 1; i >= 0; i -= 1) ends[i].y = Math.min(ends[i].y, i < ends.length - 1 ? ends[i + 1].y - 14 : ground + 2);
  return ends;
};

// host: the parent element. since: "utc" or "elapsed", the format of times.
// show({times, panels, events}): times rise; panels have a title, a unit (and a brief one), a format, an exact format, and
// lines or a stack of {name, k, values, dash, thin}, null where there is no value; events have {time, key, text}.
export const timeChart = (host, since = "utc") => {
  const picture = s("svg", { tabindex: 0, role: "img" });
  const readout = h("div", { class: "readout", role: "status", hidden: true });
  const legend = h("p", { class: "legend narrow-only" });
  const plot = h("div", { class: "plot" }, picture, readout, legend);
  host.replaceChildren(plot);
  let [data, geometry, pointed] = [null, null, null];
  const label = since === "utc" ? stamp : elapsed;
  const tick = (time, step) => (since === "elapsed" ? elapsed(time) : step >= 86400 || time % 86400 === 0 ? day(time) : clock(time));

  const panelOf = (panel, x, top, [left, right]) => {
    const [tall, all] = [panel.height ?? 120, series(panel)];
    const ground = top + tall;
    const seen = panel.lines ? panel.lines.flatMap((each) => each.values).filter((v) => v !== null) : [1];
    const low = Math.min(panel.low ?? 0, ...seen);
    let high = Math.max(panel.high ?? -Infinity, ...seen);
    if (!(high > low)) high = low + 1;
    const step = panel.stack ? 0.5 : nice(high - low, 3);
    const floor = panel.stack ? 0 : Math.floor(low / step + 1e-9) * step;
    const ceiling = panel.stack ? 1 : Math.ceil(high / step - 1e-9) * step;
    const y = (v) => ground - ((clamp(v, floor, ceiling) - floor) / (ceiling - floor)) * tall;
    const drawn = [];
    for (let v = floor; v <= ceiling + step / 2; v += step) {
      drawn.push(s("line", { class: "gridline", x1: left, x2: right, y1: y(v), y2: y(v) }), s("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, panel.format(v)));
    }
    const last = data.times.length - 1;
    const ends = [];
    if (panel.stack) {
      const base = data.times.map(() => 0);
      const known = runs(data.times.length, (i) => all.some((each) => each.values[i] !== null));
      for (const each of all) {
        const below = base.slice();
        each.values.forEach((v, i) => (base[i] += v ?? 0));
        for (const run of known) {
          const over = run.map((i) => [x(data.times[i]), y(base[i])]);
          const under = run.map((i) => [x(data.times[i]), y(below[i])]).reverse();
          if (run.length > 1) drawn.push(s("path", { class: `layer ${colour(each.k)}`, d: `${path(over)}${path(under).replace("M", "L")}Z` }));
        }
        if ((each.values[last] ?? 0) > 0.004) ends.push({ each, y: y((base[last] + below[last]) / 2) });
      }
    } else {
      for (const each of all) {
        for (const run of runs(data.times.length, (i) => each.values[i] !== null)) {
          const points = run.map((i) => [x(data.times[i]), y(each.values[i])]);
          if (points.length === 1) drawn.push(s("circle", { class: `dot ${colour(each.k)}`, cx: points[0][0].toFixed(1), cy: points[0][1].toFixed(1), r: 2.5 }));
          else drawn.push(s("path", { class: `curve ${colour(each.k)} ${each.thin ? "thin" : ""}`, d: path(points), "stroke-dasharray": each.dash }));
        }
        const end = each.values.findLast((v) => v !== null);
        if (end !== undefined) ends.push({ each, y: y(end) });
      }
    }
    return { drawn, ends: apart(ends, top, ground), ground, y };
  };

  const draw = () => {
    const width = plot.clientWidth;
    if (!width || !data?.times.length) return;
    const { times, panels, events = [] } = data;
    const narrow = width < 480;
    const longest = Math.max(...panels.flatMap((p) => series(p).map((each) => cut(each.name, 18).length)));
    const [left, right] = [52, width - (narrow ? 12 : 26 + 7 * longest)];
    const [first, last] = [times[0], Math.max(times.at(-1), times[0] + 1)];
    const x = (time) => left + ((time - first) / (last - first)) * (right - left);
    const [under, over] = [[], []];
    const ceiling = events.length ? 24 : 4;
    const scales = [];
    let y0 = ceiling;
    for (const panel of panels) {
      const { drawn, ends, ground, y } = panelOf(panel, x, y0 + 24, [left, right]);
      over.push(s("text", { class: "name", x: 0, y: y0 + 14 }, panel.title, s("tspan", { class: "unit" }, `  ${narrow ? panel.brief ?? panel.unit : panel.unit}`)), ...drawn);
      if (!narrow) for (const { each, y: at } of ends) over.push(s("text", { class: `label ${colour(each.k)}`, x: right + 8, y: at + 4, tip: each.name.length > 18 ? each.name : null }, s("tspan", { class: "spot" }, "▪ "), cut(each.name, 18)));
      scales.push({ y, panel });
      y0 = ground + 12;
    }
    const ground = y0 - 12;
    const step = STEPS.find((each) => (since === "elapsed" || each >= 60) && (last - first) / each <= (right - left) / 70) ?? STEPS.at(-1);
    for (let time = Math.ceil(first / step) * step; time <= last; time += step) {
      const at = x(time);
      over.push(s("line", { class: "axis", x1: at, x2: at, y1: ground, y2: ground + 4 }), s("text", { x: at, y: ground + 17, "text-anchor": at < left + 14 ? "start" : at > right - 14 ? "end" : "middle" }, tick(time, step)));
    }
    let edge = -99;
    for (const event of events.filter((each) => each.time >= first && each.time <= last)) {
      const at = x(event.time);
      under.push(s("line", { class: "event", x1: at, x2: at, y1: ceiling - 4, y2: ground }));
      const tip = `${label(event.time)}: ${event.text}`;
      if (!event.key) over.push(s("path", { class: "eventmark", d: `M${at - 4} ${ceiling - 8}h8l-4 6Z`, tip }));
      else if (Math.max(at, edge + 19) <= right) {
        edge = Math.max(at, edge + 19);
        over.push(s("g", { tip }, s("rect", { class: "flag", x: edge - 8, y: 2, width: 16, height: 16, rx: 4 }), s("text", { class: "flagtext", x: edge, y: 14 }, event.key)));
      }
    }
    const height = ground + 22;
    const layer = s("g", {});
    picture.replaceChildren(...under, ...over, layer);
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.setAttribute("height", height);
    picture.setAttribute("aria-label", `${panels.map((p) => p.title).join("; ")}, from ${label(first)} to ${label(last)}. Arrow keys read values.`);
    geometry = { x, left, right, first, last, ceiling, ground, scales, layer };
    if (pointed !== null) point(pointed);
  };
  const point = (index) => {
    const { x, ceiling, ground, scales, layer } = geometry;
    pointed = clamp(index, 0, data.times.length - 1);
    const at = x(data.times[pointed]);
    const rows = [];
    layer.replaceChildren(s("line", { class: "cross", x1: at, x2: at, y1: ceiling, y2: ground }));
    for (const { y, panel } of scales) {
      for (const each of panel.lines ?? panel.stack.toReversed()) {
        const value = each.values[pointed];
        if (value === null || (panel.stack && value === 0)) continue;
        if (panel.lines) layer.append(s("circle", { class: `dot ${colour(each.k)}`, cx: at, cy: y(value), r: 3.5 }));
        rows.push(h("tr", {}, h("td", {}, `${panel.short ?? panel.title}, `, h("bdi", {}, cut(each.name, 40))), h("td", {}, (panel.exact ?? panel.format)(value))));
      }
    }
    render(readout, h("b", {}, label(data.times[pointed])), h("table", {}, h("tbody", {}, ...rows)));
    readout.hidden = false;
    const wide = readout.offsetWidth;
    readout.style.left = `${at + 14 + wide > plot.clientWidth ? Math.max(0, at - 14 - wide) : at + 14}px`;
    readout.style.top = `${ceiling + 8}px`;
  };
  const leave = () => {
    pointed = null;
    readout.hidden = true;
    geometry?.layer.replaceChildren();
  };
  const follow = (event) => {
    if (!geometry) return;
    const { left, right, first, last } = geometry;
    const time = first + ((event.clientX - picture.getBoundingClientRect().left - left) / (right - left)) * (last - first);
    const after = data.times.findIndex((each) => each >= time);
    const near = after < 0 ? data.times.length - 1 : after > 0 && time - data.times[after - 1] < data.times[after] - time ? after - 1 : after;
    point(near);
  };
  for (const name of ["pointermove", "pointerdown"]) picture.addEventListener(name, follow);
  for (const name of ["pointerleave", "blur"]) picture.addEventListener(name, leave);
  picture.addEventListener("keydown", (event) => {
    const jump = Math.max(2, Math.round((data?.times.length ?? 0) / 14));
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -jump, PageDown: jump, Home: -1e9, End: 1e9 }[event.key];
    if (!step || !geometry) return;
    event.preventDefault();
    point((pointed ?? data.times.length) + step);
  });
  new ResizeObserver(draw).observe(plot);
  return {
    show: (fresh) => {
      const names = new Map(fresh.panels.flatMap((panel) => series(panel).map((each) => [each.name, [each, Boolean(panel.stack)]])));
      data = fresh;
      plot.hidden = !fresh.times.length;
      render(legend, ...[...names.values()].map(([each, filled]) => h("span", {}, s("svg", { class: `swatch ${colour(each.k)}`, viewBox: "0 0 20 10", "aria-hidden": "true" }, s("path", { class: filled ? "patch" : "curve", d: "M0 5H20", "stroke-dasharray": each.dash })), h("bdi", {}, cut(each.name, 30)))));
      draw();
    },
  };
};
