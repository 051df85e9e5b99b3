// Light or dark: as the system has it, or as the button says for this tab.
import { $ } from "./dom.js";

const system = matchMedia("(prefers-color-scheme: dark)");
const root = document.documentElement;
const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);

export const theme = () => {
  const kept = sessionStorage.getItem("theme");
  if (kept) root.dataset.theme = kept;
  const button = $("theme");
  const name = () => {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `${button.textContent}: switch the colours`);
  };
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    sessionStorage.setItem("theme", root.dataset.theme);
    name();
  });
  system.addEventListener("change", name);
  name();
};
