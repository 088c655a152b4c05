// Schemas: which message type a queue takes.

import { Problem, get, list, part, put } from "../api.js";
import { form } from "../dialog.js";
import { h } from "../dom.js";
import { count, setting } from "../format.js";
import { renew } from "../main.js";
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
    element: [h("div.row.spread", h("span"), h("div.actions", h("button", { type: "button", onclick: () => registerForm(name) }, "Register schema"))), element],
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
      // The descriptor says the same as the text, for programs.
      const { proto: text, descriptor, ...rest } = found;
      element.replaceChildren(
        fields(Object.entries(rest).map(([key, value]) => [key.replaceAll("_", " "), setting(value, key)])),
        h("pre.payload", { tabindex: "0", role: "region", "aria-label": "Definition" }, text ?? `registered as a descriptor of ${descriptor?.length ?? 0} characters`));
    },
  };
}

function registerForm(name) {
  form({
    title: `Register a schema for ${name}`,
    text: "A new version must keep to the rule of the queue's schema.",
    action: "Register",
    wide: true,
    fields: [
      { name: "message_type", label: "Message type", required: true, placeholder: "shop.Order" },
      { name: "compatibility", label: "New versions may change", kind: "select", options: ["", "none", "backward", "forward", "full"] },
      { name: "proto", label: "Definition", kind: "area", required: true, hint: "the text of one .proto file" },
    ],
    async submit(body) {
      const { version } = await put(`/schemas/${part(name)}`, body);
      await renew();
      return `Version ${version} of the schema of ${name} is in effect.`;
    },
  });
}
