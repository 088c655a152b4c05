// Tables: rows that are asked for page by page, searched and sorted by the broker, and renewed in place, so that neither
// the focus nor what is being read jumps away.

import { h, icon, setText } from "./dom.js";
import { count } from "./format.js";
import { renew as askAgain } from "./main.js";

const PAGE = 50;
const PAUSE_MS = 250;

/**
 * `columns` are { title, cell(row), kind, sort }: a cell is a text or an element, `kind` a class, `sort` the field that
 * the broker sorts by. `load({ search, sort, offset, limit })` gives { data, total }.
 */
export function table({ caption, columns, load, key, searchable, sort = null, empty, tools = [] }) {
  const state = { search: "", sort, offset: 0 };
  const shown = new Map();
  const body = h("tbody");
  const heads = columns.map((column) => h(`th.${column.kind ?? "text"}`, { scope: "col" },
    column.sort ? h("button.sort", { type: "button", onclick: () => order(column.sort, column.kind) }, column.title) : column.title));
  const grid = h("table", h("caption.hidden", caption), h("thead", h("tr", heads)), body);
  const nothing = h("p.empty", { hidden: true });
  const range = h("span", { role: "status" });
  const back = h("button.small", { type: "button", onclick: () => turn(-PAGE) }, "Previous");
  const next = h("button.small", { type: "button", onclick: () => turn(PAGE) }, "Next");
  const pager = h("div.pager", range, h("span.push"), back, next);
  const parts = [];
  if (searchable || tools.length) {
    parts.push(h("div.row.spread", searchable ? search() : h("span"), h("div.actions", tools)));
  }
  const scroll = h("div.table-wrap", { tabindex: "0", role: "region", "aria-label": caption }, grid);
  const element = h("div.stack", parts, h("div.card.flush", scroll, nothing, pager));

  function search() {
    let timer;
    const input = h("input", { type: "search", placeholder: `Search ${caption.toLowerCase()}`, "aria-label": `Search ${caption.toLowerCase()}`, "data-search": true });
    input.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        state.search = input.value;
        state.offset = 0;
        askAgain();
      }, PAUSE_MS);
    });
    return h("div.search", icon("search"), input, h("kbd", { "aria-hidden": "true" }, "/"));
  }

  function order(field, kind) {
    const [up, down] = [field, `-${field}`];
    // Of numbers people want the largest first.
    const firstTry = kind === "num" ? down : up;
    state.sort = state.sort === firstTry ? (firstTry === up ? down : up) : firstTry;
    state.offset = 0;
    askAgain();
  }

  function turn(by) {
    state.offset = Math.max(0, state.offset + by);
    askAgain();
  }

  let asked = 0;
  async function refresh() {
    asked += 1;
    const mine = asked;
    const { data, total } = await load({ ...state, limit: PAGE });
    if (mine !== asked) return;
    if (!data.length && state.offset > 0) {
      state.offset = 0;
      await refresh();
      return;
    }
    draw(data, total);
  }

  function draw(rows, total) {
    const seen = new Set();
    const order = rows.map((row) => {
      const id = key(row);
      seen.add(id);
      let line = shown.get(id);
      if (!line) {
        line = h("tr", columns.map((column, at) => h(at ? `td.${column.kind ?? "text"}` : `th.${column.kind ?? "text"}`, at ? {} : { scope: "row" })));
        shown.set(id, line);
      }
      columns.forEach((column, at) => renew(line.children[at], column.cell(row)));
      return line;
    });
    for (const [id, line] of shown) {
      if (!seen.has(id)) {
        line.remove();
        shown.delete(id);
      }
    }
    order.forEach((line, at) => {
      if (body.children[at] !== line) body.insertBefore(line, body.children[at] ?? null);
    });
    columns.forEach((column, at) => {
      if (!column.sort) return;
      const direction = state.sort === column.sort ? "ascending" : state.sort === `-${column.sort}` ? "descending" : "none";
      heads[at].setAttribute("aria-sort", direction);
    });
    grid.hidden = !rows.length;
    nothing.hidden = rows.length > 0;
    setText(nothing, state.search ? `Nothing matches “${state.search}”.` : empty);
    pager.hidden = total <= PAGE && state.offset === 0;
    setText(range, rows.length ? `${count(state.offset + 1)}–${count(state.offset + rows.length)} of ${count(total)}` : "");
    back.disabled = state.offset === 0;
    next.disabled = state.offset + rows.length >= total;
  }

  /** From the first row on, when what is listed has changed. */
  function first() {
    state.offset = 0;
    return askAgain();
  }

  return { element, refresh, first };
}

/** Puts a value into a cell unless it shows the same already. */
function renew(cell, value) {
  if (!(value instanceof Node)) {
    setText(cell, String(value ?? "–"));
    return;
  }
  const old = cell.firstChild;
  if (old && cell.childNodes.length === 1 && old.isEqualNode(value) && !value.querySelector?.("button")) return;
  if (old?.contains?.(document.activeElement)) {
    // What has the focus stays; its row is renewed when the focus has gone on.
    return;
  }
  cell.replaceChildren(value);
}

/** For lists that come whole: gives out a page of them. */
export function paged(rows, { offset, limit }) {
  return { data: rows.slice(offset, offset + limit), total: rows.length };
}
