// Creates elements from values and updates pages in place: text is text, never markup.
const SVG = "http://www.w3.org/2000/svg";

const put = (made, attributes, children) => {
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "tip") made.setAttribute("data-tip", value);
    else if (key === "vars") made.setAttribute("data-vars", JSON.stringify(value));
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  return made; // strings become text nodes
};
export const h = (name, attributes, ...children) => put(document.createElement(name), attributes, children);
export const s = (name, attributes, ...children) => put(document.createElementNS(SVG, name), attributes, children);
export const bdi = (name) => h("bdi", {}, name);
export const $ = (id) => document.getElementById(id);

// A name in plain text, isolated so that a right-to-left name does not reorder the rest.
export const isolated = (name) => `\u2068${name}\u2069`;
export const cut = (name, most = 24) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);

// CSS variables: the content security policy forbids style attributes, but not style properties set by scripts.
const KEPT = new Set(["tabindex", "aria-describedby"]); // stay on the focused element
const dress = (node) => {
  if (!node.dataset?.vars) return;
  for (const [name, value] of Object.entries(JSON.parse(node.dataset.vars))) {
    if (node.style.getPropertyValue(name) !== String(value)) node.style.setProperty(name, value);
  }
};

const same = (one, two) => one.nodeType === two.nodeType && one.nodeName === two.nodeName && one.getAttribute?.("data-key") === two.getAttribute?.("data-key");

const morph = (old, fresh) => {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const name of fresh.getAttributeNames()) {
    const value = fresh.getAttribute(name);
    if (old.getAttribute(name) !== value && !(KEPT.has(name) && old.hasAttribute(name))) old.setAttribute(name, value);
  }
  for (const name of old.getAttributeNames()) if (!fresh.hasAttribute(name) && !KEPT.has(name) && name !== "style") old.removeAttribute(name);
  dress(old);
  children(old, [...fresh.childNodes]);
};

const children = (host, fresh) => {
  let place = host.firstChild;
  for (const each of fresh) {
    while (place && !same(place, each) && !fresh.some((other) => same(place, other))) {
      const gone = place;
      place = place.nextSibling;
      gone.remove();
    }
    if (place && same(place, each)) {
      if (!place.isEqualNode(each)) morph(place, each);
      place = place.nextSibling;
    } else {
      host.insertBefore(each, place);
      dress(each);
      each.querySelectorAll?.("[data-vars]").forEach(dress);
    }
  }
  while (place) {
    const gone = place;
    place = place.nextSibling;
    gone.remove();
  }
};

// Updates the content of an element; unchanged parts keep their focus.
export const render = (host, ...fresh) => children(host, [...h("div", {}, ...fresh).childNodes]);
