// Tooltips: a sentence for every number, by hover, focus, or arrow keys inside a grid; Esc hides it.
import { $, h } from "./dom.js";
import { clamp } from "./format.js";

const WAYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
let shown = null;

const box = () => $("tip") ?? document.body.appendChild(h("div", { id: "tip", role: "tooltip", hidden: true }));
const hide = () => {
  box().hidden = true;
  shown?.removeAttribute("aria-describedby");
  shown = null;
};
const place = () => {
  const tip = box();
  const target = shown.getBoundingClientRect();
  const wide = document.documentElement.clientWidth;
  const left = clamp(target.left + Math.min(target.width, 240) / 2 - tip.offsetWidth / 2, 8, Math.max(8, wide - tip.offsetWidth - 8));
  const above = target.top - tip.offsetHeight - 8;
  tip.style.left = `${left + scrollX}px`;
  tip.style.top = `${(above > 4 ? above : target.bottom + 8) + scrollY}px`;
};
const show = (target) => {
  if (shown !== target) hide();
  shown = target;
  box().textContent = target.dataset.tip;
  box().hidden = false;
  target.setAttribute("aria-describedby", "tip");
  place();
};
const middle = (each) => {
  const { left, top, width, height } = each.getBoundingClientRect();
  return [left + width / 2, top + height / 2];
};
const beside = (grid, from, way) => {
  const [x, y] = middle(from);
  let [next, least] = [null, Infinity];
  for (const each of grid.querySelectorAll("[data-tip]")) {
    if (!each.checkVisibility()) continue;
    const [ex, ey] = middle(each);
    const along = (ex - x) * way[0] + (ey - y) * way[1];
    const across = Math.abs((ex - x) * way[1]) + Math.abs((ey - y) * way[0]);
    if (along > 3 && along + 4 * across < least) [next, least] = [each, along + 4 * across];
  }
  return next;
};
const find = (event) => event.target.closest?.("[data-tip]");

// Every grid is one stop of the Tab key (roving tabindex); new elements join it, and a tip follows its number.
export const settle = (anew = false) => {
  for (const grid of document.querySelectorAll("[data-grid]")) {
    // checking visibility forces a layout of the page, so not every second
    if (!anew && grid.querySelector('[tabindex="0"]') && !grid.querySelector("[data-tip]:not([tabindex], button)")) continue;
    const cells = [...grid.querySelectorAll("[data-tip]:not(button)")];
    const stop = cells.find((each) => each.tabIndex === 0 && each.hasAttribute("tabindex") && each.checkVisibility()) ?? cells.find((each) => each.checkVisibility());
    for (const each of cells) if (each.getAttribute("tabindex") !== (each === stop ? "0" : "-1")) each.setAttribute("tabindex", each === stop ? "0" : "-1");
  }
  if (!shown) return;
  if (!shown.isConnected || !shown.dataset.tip) hide();
  else if (box().textContent !== shown.dataset.tip) show(shown);
};

export const explain = () => {
  box();
  document.addEventListener("pointerover", (event) => {
    const target = find(event);
    if (target) show(target);
    else if (!document.activeElement?.dataset?.tip) hide();
  });
  document.addEventListener("focusin", (event) => {
    const target = find(event);
    if (target && event.target.matches(":focus-visible")) show(target);
    else hide();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return hide();
    const grid = event.target.closest?.("[data-grid]");
    const way = WAYS[event.key];
    if (!grid || !way || !event.target.dataset.tip) return;
    event.preventDefault();
    const next = beside(grid, event.target, way);
    if (!next) return;
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  addEventListener("resize", () => settle(true)); // other elements may be visible now
  settle();
};
