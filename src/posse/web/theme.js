// Light or dark: the system's setting, or the choice of the button for this tab.
import { $ } from "./dom.js";

const system = matchMedia("(prefers-color-scheme: dark)");
const root = document.documentElement;
const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);

export const theme = () => {
  const stored = sessionStorage.getItem("theme");
  if (stored) root.dataset.theme = stored;
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
