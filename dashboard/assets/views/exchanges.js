// Exchanges: the list with a picture of the whole routing, and one of them with its part of that picture.

import { get, list, part, put, query, remove } from "../api.js";
import { confirm, form } from "../dialog.js";
import { h, icon } from "../dom.js";
import { count } from "../format.js";
import { renew } from "../main.js";
import { table } from "../table.js";
import { bindingsTable } from "./bindings.js";
import { routingMap } from "./map.js";
import { badge, exchangeLink, fields, head } from "./parts.js";
import { publishForm } from "./publish.js";

/** Bindings that a picture can hold and still be read. */
const DRAWN_MAX = 60;

const COLUMNS = [
  { title: "Name", kind: "name", cell: (row) => exchangeLink(row.name) },
  { title: "Type", cell: (row) => badge(row.type, "accent") },
  { title: "Kind", cell: (row) => h("span.badges", kinds(row)) },
  { title: "Bindings", kind: "num", cell: (row) => count(row.binding_count) },
  { title: "Alternate", kind: "name", cell: (row) => (row.alternate_exchange ? exchangeLink(row.alternate_exchange) : "–") },
];

function kinds(row) {
  return [
    row.predeclared ? badge("always there") : null,
    row.durable ? badge("durable") : badge("transient"),
    row.auto_delete ? badge("auto-delete") : null,
  ].filter(Boolean);
}

export function exchanges() {
  const rows = table({
    caption: "Exchanges",
    key: (row) => row.name,
    searchable: true,
    empty: "No exchanges.",
    tools: [h("button.primary", { type: "button", onclick: create }, icon("plus", true), "New exchange")],
    columns: COLUMNS,
    load: ({ search, offset, limit }) => list(`/exchanges${query({ search, offset, limit })}`),
  });
  const picture = h("section.card", { "aria-label": "Routing" });
  let drawn = "";
  return {
    element: [head("Exchanges"), rows.element, picture],
    async refresh() {
      const [, page, all] = await Promise.all([rows.refresh(), list(`/bindings?limit=${DRAWN_MAX}`), list("/exchanges?limit=200")]);
      const now = JSON.stringify([page, all.data.map((one) => [one.name, one.type, one.alternate_exchange])]);
      if (now === drawn) return;
      drawn = now;
      const note = page.total > page.data.length ? `The first ${count(page.data.length)} of ${count(page.total)} bindings. An exchange shows its own.` : "Which messages go where.";
      picture.replaceChildren(h("div.card-head", h("h2", "Routing"), h("span.muted.small", note)), routingMap(page.data, all.data));
    },
  };
}

export function exchange(name) {
  const path = `/exchanges/${part(name)}`;
  const signs = h("span.badges");
  const facts = h("div.card");
  const picture = h("section.card", { "aria-label": "Routing" });
  const bindings = bindingsTable({ exchange: name });
  let drawn = "";
  return {
    element: [
      head(name, {
        crumbs: { href: "#/exchanges", label: "Exchanges" },
        badges: [signs],
        actions: [
          h("button.primary", { type: "button", onclick: () => publishForm({ exchange: name }) }, icon("send", true), "Publish"),
          h("button.danger", { type: "button", onclick: () => deleteForm(name) }, "Delete"),
        ],
      }),
      facts, picture, h("h2", "Bindings"), bindings.element,
    ],
    async refresh() {
      const one = await get(path);
      const [page] = await Promise.all([list(`/bindings${query({ exchange: name, limit: DRAWN_MAX })}`), bindings.refresh()]);
      const now = JSON.stringify([one, page]);
      if (now === drawn) return;
      drawn = now;
      signs.replaceChildren(badge(one.type, "accent"), ...kinds(one));
      facts.replaceChildren(fields([
        ["Bindings", count(one.binding_count)],
        ...(one.totals ? [["Published", count(one.totals.published)], ["Unroutable", count(one.totals.unroutable)]] : []),
        ["Alternate exchange", one.alternate_exchange ? exchangeLink(one.alternate_exchange) : "–"],
      ]));
      picture.replaceChildren(h("div.card-head", h("h2", "Routing")), routingMap(page.data, [one]));
    },
  };
}

function create() {
  form({
    title: "New exchange",
    action: "Create",
    fields: [
      { name: "name", label: "Name", required: true, wide: true },
      { name: "type", label: "Type", kind: "select", options: ["direct", "topic", "fanout", "headers"], value: "direct" },
      { name: "alternate_exchange", label: "Alternate exchange", hint: "gets what no binding takes" },
      { name: "durable", label: "Survives a restart", kind: "check", value: true },
      { name: "auto_delete", label: "Goes with its last binding", kind: "check" },
    ],
    async submit({ name, ...settings }) {
      await put(`/exchanges/${part(name)}`, settings);
      await renew();
      return `Exchange ${name} is there.`;
    },
  });
}

function deleteForm(name) {
  confirm({
    title: `Delete ${name}`,
    text: "The exchange and its bindings will be gone for good.",
    name,
    action: "Delete",
    async submit() {
      await remove(`/exchanges/${part(name)}`);
      location.hash = "#/exchanges";
      return `Exchange ${name} deleted.`;
    },
  });
}
