// Small pictures in text and tables: the shape of an arm, a meter, a sparkline.
import { s } from "./dom.js";

const SHAPES = ["M5 0A5 5 0 1 1 5 10A5 5 0 1 1 5 0", "M0 0H10V10H0Z", "M5 0L10 10H0Z", "M5 0L10 5L5 10L0 5Z", "M0 0H10L5 10Z", "M0 3H10V7H0Z"];
export const colour = (k) => `c${k % 7}`;
export const mark = (k) => s("svg", { class: `dotmark ${colour(k)}`, viewBox: "0 0 10 10", "aria-hidden": "true" }, s("path", { d: SHAPES[k % SHAPES.length] }));

export const meter = (value, goal, tip, look = "c0", top = goal * 1.12) =>
  s("svg", { class: `meter ${look}`, role: "img", "aria-label": tip, tip },
    s("rect", { class: "track", x: 0, y: 2, width: "100%", height: 6, rx: 3 }),
    s("rect", { class: "fill", x: 0, y: 2, width: `${((100 * Math.min(Math.max(value, 0), top)) / top).toFixed(2)}%`, height: 6, rx: 3 }),
    goal < top ? s("line", { class: "goal", x1: `${(100 * goal) / top}%`, x2: `${(100 * goal) / top}%`, y1: 0, y2: 10 }) : null);

// values from 0 to 1; null for a gap
export const spark = (values, look) => {
  const step = 144 / Math.max(1, values.length - 1);
  const base = s("line", { class: "base", x1: 0, x2: 144, y1: 26.5, y2: 26.5 });
  const parts = [];
  let run = [];
  const end = () => {
    if (run.length > 1) {
      const d = run.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
      parts.push(s("path", { class: "area", d: `${d}V26H${run[0][0].toFixed(1)}Z` }), s("path", { class: "line", d }));
    }
    run = [];
  };
  values.forEach((value, i) => (value === null ? end() : run.push([i * step, 26 - 24 * value])));
  end();
  return s("svg", { class: `spark ${look}`, viewBox: "0 0 144 28", preserveAspectRatio: "none", "aria-hidden": "true" }, base, ...parts);
};
