// Schemas: which message type a queue takes.

import { Problem, get, list, part } from "../api.js";
import { h } from "../dom.js";
import { count, setting } from "../format.js";
import { paged, table } from "../table.js";
import { fields, head, queueHref } from "./parts.js";

export function schemas() {
  const rows = table({
    caption: "Schemas",
    key: (row) => row.queue,
    empty: "No queue has a schema. Register one with qqctl schema register.",
    columns: [
      { title: "Queue", kind: "name", cell: (row) => h("a", { href: queueHref(row.queue, "schema") }, row.queue) },
      { title: "Message type", kind: "name", cell: (row) => h("code", row.message_type) },
      { title: "Version", kind: "num", cell: (row) => count(row.version) },
    ],
    load: async (page) => paged((await list("/schemas")).data, page),
  });
  return { element: [head("Schemas"), rows.element], refresh: rows.refresh };
}

export function schema(name) {
  const panel = schemaPanel(name);
  return { element: [head(name, { crumbs: { href: "#/schemas", label: "Schemas" } }), panel.element], refresh: panel.refresh };
}

/** The schema of one queue, or that it has none. */
export function schemaPanel(name) {
  const element = h("div.card");
  let shown = "";
  return {
    element,
    async refresh() {
      let found = null;
      try {
        found = await get(`/schemas/${part(name)}`);
      } catch (problem) {
        if (!(problem instanceof Problem) || problem.status === 0 || problem.status >= 500) throw problem;
      }
      const now = JSON.stringify(found);
      if (now === shown) return;
      shown = now;
      if (!found) {
        element.replaceChildren(h("p.muted", "This queue takes any payload: it has no schema."));
        return;
      }
      const { definition, proto, ...rest } = found;
      const text = definition ?? proto;
      element.replaceChildren(
        fields(Object.entries(rest).map(([key, value]) => [key.replaceAll("_", " "), setting(value, key)])),
        text ? h("pre.payload", { tabindex: "0", role: "region", "aria-label": "Definition" }, text) : "");
    },
  };
}
