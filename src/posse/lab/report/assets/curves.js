"use strict";
// Draws the curves of every chart of the embedded report, and reads their values to who points at them.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const STROKE = 2.2; // the width of a curve, as in the style sheet
  const known = (value) => typeof value === "number" && Number.isFinite(value);

  const element = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children); // strings become text nodes, never markup
    return made;
  };

  const shape = (parent, name, attributes, text) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  };

  const FEW = new Intl.NumberFormat("en", { maximumSignificantDigits: 6 });
  const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
  const digits = { minimumSignificantDigits: 4, maximumSignificantDigits: 4 };
  const FOUR = new Intl.NumberFormat("en", digits);
  const label = (value) => FEW.format(value).replace("-", "−");
  const exact = (value) => {
    if (!known(value)) return "–";
    const format = value === 0 || Math.abs(value) >= 1000 ? WHOLE : FOUR;
    return format.format(value).replace("-", "−");
  };

  const linearTicks = (low, high, count) => {
    const span = high - low;
    const power = 10 ** Math.floor(Math.log10(span / count));
    const step = power * [1, 2, 5, 10].find((each) => span / (each * power) <= count);
    const ticks = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * span; i += 1) {
      ticks.push(Number((i * step).toPrecision(12)));
    }
    return ticks;
  };

  const logTicks = (low, high, count) => {
    const first = Math.floor(Math.log10(low));
    const last = Math.ceil(Math.log10(high));
    const decades = Math.log10(high / low);
    const every = Math.max(1, Math.ceil(decades / count));
    const parts = decades * 3 <= count + 2 ? [1, 2, 5] : [1];
    const ticks = [];
    for (let power = first; power <= last; power += every) {
      for (const part of parts) {
        const tick = Number((part * 10 ** power).toPrecision(12));
        if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
      }
    }
    return ticks.length > 2 || decades > 2 ? ticks : linearTicks(low, high, count);
  };

  const scale = (low, high, start, end, log) => {
    const bend = log ? Math.log10 : (value) => value;
    const slope = (end - start) / (bend(high) - bend(low));
    return (value) => start + (bend(value) - bend(low)) * slope;
  };

  // A gap in the data, or a value that a logarithm cannot show, breaks the line.
  const line = (points) => {
    let pen = "M";
    return points
      .map(([x, y]) => {
        const part = known(x) && known(y) ? `${pen}${x.toFixed(1)} ${y.toFixed(1)}` : "";
        pen = part ? "L" : "M";
        return part;
      })
      .join("");
  };

  const band = (curve, x, y, floor) => {
    const inside = curve.times
      .map((time, i) => [x(time), curve.low[i], curve.high[i]])
      .filter((point) => point.every(known) && point[2] >= floor);
    const upper = inside.map(([at, , high]) => [at, y(high)]);
    const lower = inside.map(([at, low]) => [at, y(Math.max(low, floor))]).reverse();
    return inside.length ? `${line([...upper, ...lower])}Z` : "";
  };

  const swatch = (look) => {
    const nowhere = document.createDocumentFragment();
    const picture = shape(nowhere, "svg", { viewBox: "0 0 34 10", "aria-hidden": "true" });
    shape(picture, "path", { class: look.class, d: "M0 5H34", "stroke-dasharray": look.dash });
    return picture;
  };

  // The bound gives a slope only, so the line is hung on the lowest final regret.
  const boundOf = (chart) => {
    const ends = chart.curves.map((curve) => curve.mean.at(-1)).filter(known);
    const times = [...new Set(chart.curves.flatMap((curve) => curve.times))].sort((a, b) => a - b);
    if (!chart.bound || !ends.length) return null;
    const { slope, text } = chart.bound;
    const level = Math.min(...ends) - slope * Math.log(times.at(-1));
    const mean = times.map((time) => (time > 0 ? slope * Math.log(time) + level : null));
    return { name: text, times, mean, class: "bound", dash: "7 5", bound: true };
  };

  // The looks of the printed figures: dashes are in line widths, the colours have a class each.
  const lookOf = (report, i) => {
    const dash = report.dashes[i % report.dashes.length].map((length) => length * STROKE);
    return { class: `curve c${i % report.colours}`, dash: dash.join(" ") || "none" };
  };

  const draw = (figure, chart, report) => {
    const lines = chart.curves.map((curve, i) => ({ ...curve, ...lookOf(report, i) }));
    const bound = boundOf(chart);
    if (bound) lines.push(bound);
    const hidden = new Set();
    const quantity = chart.quantity.split(" ")[0].toLowerCase(); // "regret" of "Regret per agent"
    const log = { time: false, value: chart.log };
    let redrawn = 0; // the width of the last drawing
    let crosshair = null; // set by draw: moves the crosshair to a recorded time
    let pointed = null; // the index of the time under the crosshair

    const legend = element("div", { class: "legend", role: "group", "aria-label": "Curves" });
    lines.forEach((each) => {
      const button = element("button", { type: "button", "aria-pressed": "true" });
      button.append(swatch(each), element("bdi", {}, each.name));
      button.addEventListener("click", () => {
        if (!hidden.delete(each)) hidden.add(each);
        button.setAttribute("aria-pressed", String(!hidden.has(each)));
        redraw();
      });
      legend.append(button);
    });
    const options = element("div", { class: "options" });
    for (const [axis, name] of [["time", "time"], ["value", quantity]]) {
      const box = element("input", { type: "checkbox", name: `log-${name}` });
      box.autocomplete = "off"; // a reload starts with the axes that are drawn
      box.checked = log[axis];
      box.addEventListener("change", () => {
        log[axis] = box.checked;
        redraw();
      });
      options.append(element("label", {}, box, ` log ${name}`));
    }
    const plot = element("div", { class: "plot" });
    const tooltip = element("div", { class: "tooltip", role: "status", hidden: "" });
    const names = chart.curves.map((curve) => `\u2068${curve.name}\u2069`).join(", ");
    const svg = shape(plot, "svg", { class: "chart", tabindex: "0", role: "img" });
    svg.setAttribute("aria-label", `${chart.quantity} over time: ${names}. Arrow keys read values.`);
    plot.append(tooltip);
    figure.append(options, plot, legend);

    const domain = (curves) => {
      const usable = (axis) => (value) => known(value) && (!log[axis] || value > 0);
      const times = curves.flatMap((each) => each.times).filter(usable("time"));
      const means = curves.flatMap((each) => each.mean).filter(usable("value"));
      const tops = curves.flatMap((each) => each.high).filter(usable("value"));
      const ends = (values, least) => {
        const low = values.reduce((a, b) => Math.min(a, b), least);
        const high = values.reduce((a, b) => Math.max(a, b), -Infinity);
        if (!values.length) return [1, 10];
        return low < high ? [low, high] : [low, low > 0 ? low * 10 : low + 1];
      };
      const [bottom, top] = ends([...means, ...tops], log.value ? Infinity : 0);
      // Four decades show enough: the first rounds would press everything else to the top.
      return [ends(times, log.time ? Infinity : 0), [log.value ? Math.max(bottom, top / 1e4) : bottom, top]];
    };

    const redraw = () => {
      const width = plot.clientWidth;
      const height = Math.round(Math.min(440, Math.max(270, width * 0.5)));
      redrawn = width;
      const shown = lines.filter((each) => !hidden.has(each));
      const curves = shown.filter((each) => !each.bound);
      const [[start, end], [low, top]] = domain(curves.length ? curves : chart.curves);
      const yTicks = (log.value ? logTicks : linearTicks)(low, top, height / 50);
      const step = yTicks.length > 1 ? yTicks.at(-1) - yTicks.at(-2) : 0;
      const high = log.value ? top * 1.1 : Math.max(top, Math.ceil(top / step - 1e-9) * step || 0);
      if (!log.value && high > yTicks.at(-1) + step / 2) yTicks.push(high);
      const left = 14 + 7.2 * Math.max(...yTicks.map((tick) => label(tick).length));
      const right = width - Math.max(10, 3.8 * label(end).length); // half of the last label
      const [ceiling, ground] = [30, height - 44];
      const x = scale(start, end, left, right, log.time);
      const y = scale(low, high, ground, ceiling, log.value);
      const floor = log.value ? low : -Infinity;

      svg.replaceChildren();
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      const clip = shape(shape(svg, "defs", {}), "clipPath", { id: `clip-${chart.id}` });
      const area = { x: left, y: ceiling, width: right - left, height: ground - ceiling };
      shape(clip, "rect", { ...area, y: ceiling - 3, height: area.height + 5 });
      for (const tick of yTicks) {
        shape(svg, "path", { class: "grid", d: `M${left} ${y(tick)}H${right}` });
        const at = { class: "tick-y", x: left - 7, y: y(tick) + 4, "text-anchor": "end" };
        shape(svg, "text", at, label(tick));
      }
      for (const tick of (log.time ? logTicks : linearTicks)(start, end, area.width / 55)) {
        shape(svg, "path", { class: "axis", d: `M${x(tick)} ${ground}v5` });
        const at = { class: "tick-x", x: x(tick), y: ground + 18, "text-anchor": "middle" };
        shape(svg, "text", at, label(tick));
      }
      shape(svg, "path", { class: "axis", d: `M${left} ${ground}H${right}` });
      const scaled = (axis) => (log[axis] ? ", logarithmic" : "");
      shape(svg, "text", { class: "name", x: 4, y: 14 }, `${chart.quantity}${scaled("value")}`);
      const foot = { class: "name", x: right, y: height - 6, "text-anchor": "end" };
      shape(svg, "text", foot, `Round t${scaled("time")}`);

      const drawing = shape(svg, "g", { "clip-path": `url(#clip-${CSS.escape(chart.id)})` });
      for (const each of curves) {
        const look = { class: each.class.replace("curve", "band"), d: band(each, x, y, floor) };
        shape(drawing, "path", look);
      }
      for (const each of shown) {
        const d = line(each.times.map((time, i) => [x(time), known(each.mean[i]) ? y(each.mean[i]) : null]));
        shape(drawing, "path", { class: each.class, "stroke-dasharray": each.dash, d });
      }
      crosshair = pointer(curves, { x, y, left, ceiling, ground });
      tooltip.hidden = true;
      pointed = null;
      figure.dataset.drawn = "true";
    };

    // Returns a function of a place in the chart (or a step from the last place).
    const pointer = (curves, { x, y, left, ceiling, ground }) => {
      const times = [...new Set(curves.flatMap((each) => each.times))]
        .filter((time) => known(x(time)))
        .sort((a, b) => a - b);
      const nearest = (among, distance) =>
        among.reduce((best, each, i) => (distance(each) < distance(among[best]) ? i : best), 0);
      const layer = shape(svg, "g", { class: "crosshair" });
      return ({ at, step }) => {
        if (!times.length) return;
        pointed =
          step === undefined
            ? nearest(times, (time) => Math.abs(x(time) - at))
            : Math.min(times.length - 1, Math.max(0, (pointed ?? times.length) + step));
        const time = times[pointed];
        layer.replaceChildren();
        shape(layer, "path", { class: "cross", d: `M${x(time)} ${ceiling}V${ground}` });
        const rows = curves.map((each) => {
          const i = nearest(each.times, (other) => Math.abs(other - time));
          const other = each.times[i] === time ? "" : ` (t = ${label(each.times[i])})`;
          return { each, mean: each.mean[i], low: each.low[i], high: each.high[i], other };
        });
        rows.sort((a, b) => (b.mean ?? -Infinity) - (a.mean ?? -Infinity)); // as in the picture
        const table = element("table");
        for (const { each, mean, low, high, other } of rows) {
          if (known(mean) && known(y(mean)) && y(mean) <= ground + 1) {
            const dot = { class: each.class.replace("curve", "dot"), r: 3.5 };
            shape(layer, "circle", { ...dot, cx: x(time), cy: y(mean) });
          }
          const range = known(low) && known(high) ? `${exact(low)} to ${exact(high)}` : "";
          const cells = [[swatch(each)], [element("bdi", {}, each.name), other], [exact(mean)], [range]];
          table.insertRow().append(...cells.map((cell) => element("td", {}, ...cell)));
        }
        tooltip.replaceChildren(element("strong", {}, `Round ${label(time)}`), table);
        tooltip.hidden = false;
        const wide = tooltip.offsetWidth;
        // Regret grows, so the space above the curves is to the left of the crosshair.
        const after = x(time) + 14;
        const beside = x(time) - 14 - wide >= left ? x(time) - 14 - wide : after;
        const fits = beside + wide <= plot.clientWidth;
        tooltip.style.left = `${fits ? beside : Math.max(0, plot.clientWidth - wide)}px`;
        // Where it cannot stand beside the crosshair it would hide the curves: it goes below.
        tooltip.style.top = `${fits ? ceiling + 4 : ground + 24}px`;
      };
    };

    const leave = () => {
      svg.querySelector(".crosshair")?.replaceChildren();
      tooltip.hidden = true;
      pointed = null;
    };
    const point = (event) => crosshair({ at: event.clientX - svg.getBoundingClientRect().left });
    svg.addEventListener("pointermove", point);
    svg.addEventListener("pointerdown", point);
    // A lifted finger leaves the values to be read; the next touch elsewhere takes them away.
    svg.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && leave());
    document.addEventListener("pointerdown", (event) => svg.contains(event.target) || leave());
    svg.addEventListener("blur", leave);
    svg.addEventListener("keydown", (event) => {
      const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: 20, PageDown: -20, Home: -Infinity, End: Infinity };
      const step = steps[event.key];
      if (event.key === "Escape") leave();
      if (step === undefined) return;
      event.preventDefault();
      crosshair({ step });
    });
    redraw();
    new ResizeObserver(() => {
      if (plot.clientWidth !== redrawn) requestAnimationFrame(redraw);
    }).observe(plot);
  };

  const report = JSON.parse(document.getElementById("report").textContent);
  document
    .querySelectorAll("figure[data-chart]")
    .forEach((figure, i) => draw(figure, report.charts[i], report));
})();
