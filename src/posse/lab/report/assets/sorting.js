"use strict";
// Sorts a table by the column whose header is pressed: up first, then down.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const key = (row, column) => {
    const cell = row.cells[column];
    const text = cell.dataset.by ?? cell.textContent;
    const number = Number(text);
    return text.trim() === "" || Number.isNaN(number) ? text : number;
  };
  const order = (a, b) => {
    if (typeof a === typeof b) return typeof a === "number" ? a - b : a.localeCompare(b, "en");
    return typeof a === "number" ? -1 : 1; // what has no number comes last
  };
  const headers = [...table.tHead.rows[0].cells];
  headers.forEach((header, column) => {
    header.querySelector("button")?.addEventListener("click", () => {
      const up = header.getAttribute("aria-sort") !== "ascending";
      const rows = [...body.rows].sort((first, second) => {
        const [a, b] = [key(first, column), key(second, column)];
        const sign = up || typeof a !== typeof b ? 1 : -1;
        return sign * order(a, b);
      });
      body.append(...rows);
      for (const other of headers) other.setAttribute("aria-sort", "none");
      header.setAttribute("aria-sort", up ? "ascending" : "descending");
    });
  });
}
