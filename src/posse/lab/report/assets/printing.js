// On paper nothing is folded away.
addEventListener("beforeprint", () => {
  for (const each of document.querySelectorAll("details:not([open])")) {
    each.open = true;
    each.dataset.opened = "";
  }
});
addEventListener("afterprint", () => {
  for (const each of document.querySelectorAll("details[data-opened]")) {
    each.open = false;
    delete each.dataset.opened;
  }
});
