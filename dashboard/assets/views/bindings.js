// Bindings: which messages of an exchange go where.

import { list, post, query, remove } from "../api.js";
import { confirm, form } from "../dialog.js";
import { h, icon } from "../dom.js";
import { renew } from "../main.js";
import { table } from "../table.js";
import { badge, exchangeLink, queueLink } from "./parts.js";

function argumentsText(binding) {
  const pairs = Object.entries(binding.arguments ?? {});
  return pairs.length ? pairs.map(([key, value]) => `${key}=${JSON.stringify(value)}`).join(" ") : "–";
}

/** Bindings that lead to a queue, or from an exchange, or all. */
export function bindingsTable(filter) {
  const made = table({
    caption: "Bindings",
    key: (row) => JSON.stringify(row),
    empty: "No bindings. Messages still reach a queue by its own name.",
    tools: [h("button", { type: "button", onclick: () => bindForm(filter) }, icon("plus", true), "New binding")],
    columns: [
      { title: "From exchange", kind: "name", cell: (row) => exchangeLink(row.exchange) },
      { title: "To", kind: "name", cell: (row) => (row.queue === undefined || row.queue === null ? h("span.row", badge("exchange"), exchangeLink(row.to_exchange)) : queueLink(row.queue)) },
      { title: "Routing key", cell: (row) => h("code", row.routing_key || "–") },
      { title: "Arguments", cell: (row) => h("code.wrap", argumentsText(row)) },
      { title: "Action", cell: (row) => h("button.small.danger", { type: "button", onclick: () => unbindForm(row) }, "Unbind") },
    ],
    load: ({ offset, limit }) => list(`/bindings${query({ ...filter, offset, limit })}`),
  });
  return { element: made.element, refresh: made.refresh };
}

function bindForm(filter) {
  form({
    title: "New binding",
    action: "Bind",
    fields: [
      { name: "exchange", label: "From exchange", required: true, value: filter.exchange },
      { name: "destination", label: "To", required: true, value: filter.queue },
      { name: "kind", label: "which is", kind: "select", options: ["queue", "exchange"], value: "queue" },
      { name: "routing_key", label: "Routing key", hint: "topic: * is one word, # any number" },
      { name: "arguments", label: "Arguments", kind: "area", hint: "for headers exchanges: a JSON object such as {\"x-match\": \"all\", \"format\": \"jpeg\"}" },
    ],
    async submit({ exchange, destination, kind, routing_key = "", arguments: text }) {
      const body = { exchange, routing_key, [kind === "queue" ? "queue" : "to_exchange"]: destination };
      if (text) {
        try {
          body.arguments = JSON.parse(text);
        } catch (problem) {
          throw new Error(`The arguments are no JSON: ${problem.message}`);
        }
      }
      await post("/bindings", body);
      await renew();
      return `${destination} is bound to ${exchange}.`;
    },
  });
}

function unbindForm(row) {
  const to = row.queue ?? row.to_exchange;
  confirm({
    title: `Unbind ${to} from ${row.exchange}`,
    text: "Messages will no longer go this way.",
    name: to,
    action: "Unbind",
    async submit() {
      const values = { exchange: row.exchange, queue: row.queue, to_exchange: row.to_exchange, arguments: Object.keys(row.arguments ?? {}).length ? JSON.stringify(row.arguments) : undefined };
      await remove(`/bindings${query(values)}&routing_key=${encodeURIComponent(row.routing_key ?? "")}`);
      await renew();
      return `${to} is no longer bound to ${row.exchange} by that.`;
    },
  });
}
