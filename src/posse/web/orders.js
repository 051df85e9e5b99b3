// Orders of operators (pins, pauses, agents that left): asks once more, with their scope, and by whom and why.
import { $, bdi, h, isolated, render } from "./dom.js";
import { whole } from "./format.js";
import { gone } from "./words.js";

const WORDS = {
  pin: { verb: "Pin", effect: "Every visitor there gets this arm until somebody undoes it. The other arms get no visits, so nothing more is learnt about them." },
  pause: { verb: "Pause", effect: "No visitor there gets this arm until somebody resumes it. Its numbers stay." },
  forget: { verb: "Forget", effect: "It left: headlines and the drawing of the network leave it out. Its visits still count, and if it comes back, it is shown again." },
  resume: { verb: "Resume", effect: "The pin or pause of this arm ends: visitors get the arms by the evidence again." },
};
let person = ""; // stays until the page is closed

// Where an order acts, in words.
const scope = (view, subject) => {
  const agents = Object.keys(view.network.agents).filter((name) => name !== subject).length;
  if (!view.controls.operator) return [" at ", bdi(view.agent.name), agents > 1 ? " only?" : "?"];
  return [agents > 1 ? ` at all ${whole(agents)} sites?` : " at this site?"];
};
const late = (view, subject) => {
  const missing = view.controls.operator ? gone(view).filter(([name]) => name !== subject) : [];
  return missing.length ? ` ${whole(missing.length)} of these sites ${missing.length === 1 ? "is" : "are"} not reachable now, and will follow when ${missing.length === 1 ? "it is" : "they are"} back.` : "";
};
const field = (id, label, longest, value) => [h("label", { for: id }, label), h("input", { id, maxlength: longest, value, autocomplete: "off" })];

// Asks for confirmation; subject: {arm} or {agent}; then give(act, {...subject, by, reason}).
export const confirmOrder = (view, act, subject, give) => {
  const { verb, effect } = WORDS[act];
  const [name] = Object.values(subject);
  const dialog = $("confirm");
  render(dialog, h("form", { "data-key": `${act} ${name}` },
    h("h2", { id: "confirm-title" }, `${verb} `, bdi(name), ...scope(view, subject.agent)),
    h("p", {}, effect, late(view, subject.agent)),
    ...field("by", "Who are you? (for the log of events)", 100, person), ...field("reason", "Why?", 300, ""),
    h("div", { class: "choices" }, h("button", { type: "button", value: "cancel" }, "Cancel"), h("button", { class: "sure", "aria-label": `${verb} ${isolated(name)}` }, verb))));
  const form = dialog.querySelector("form");
  $("by").value = person; // what was typed into an earlier question is gone
  $("reason").value = "";
  form.onsubmit = (event) => {
    event.preventDefault();
    dialog.close();
    person = $("by").value.trim();
    const notes = { by: person, reason: $("reason").value.trim() };
    give(act, { ...subject, ...Object.fromEntries(Object.entries(notes).filter(([, text]) => text)) });
  };
  form.querySelector("[value=cancel]").onclick = () => dialog.close();
  dialog.showModal();
  $("by").focus();
};
