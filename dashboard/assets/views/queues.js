// All queues, a page at a time: searched and sorted by the broker, so that ten thousand are no harder than ten.

import { list, part, put, query } from "../api.js";
import { form } from "../dialog.js";
import { h, icon } from "../dom.js";
import { bytes, count, rate } from "../format.js";
import { renew } from "../main.js";
import { table } from "../table.js";
import { features, head, queueLink, verdict } from "./parts.js";

export function queues() {
  // Counters of the round before, for rates.
  let before = new Map();
  let flow = new Map();
  let kind = "queues";
  const rows = table({
    caption: "Queues",
    key: (row) => row.name,
    searchable: true,
    sort: "name",
    empty: "There are no queues yet. Clients can create them, the configuration can, and the button above.",
    tools: [
      h("div.segments", { role: "group", "aria-label": "Show" }, ["queues", "streams"].map((one) => h("button", { type: "button", "aria-pressed": String(one === kind), onclick: (event) => choose(one, event.currentTarget) }, one === "queues" ? "Queues" : "Streams"))),
      h("button", { type: "button", onclick: createStream }, icon("plus", true), "New stream"),
      h("button.primary", { type: "button", onclick: create }, icon("plus", true), "New queue"),
    ],
    columns: [
      { title: "Name", kind: "name", sort: "name", cell: (row) => queueLink(row.name) },
      { title: "State", cell: (row) => verdict(row).badge },
      { title: "Ready", kind: "num", sort: "depth", cell: (row) => count(row.depth) },
      { title: "In flight", kind: "num", sort: "in_flight", cell: (row) => count(row.in_flight) },
      { title: "Size", kind: "num", sort: "bytes", cell: (row) => bytes(row.bytes) },
      { title: "In", kind: "num", cell: (row) => rate(flow.get(row.name)?.in) },
      { title: "Out", kind: "num", cell: (row) => rate(flow.get(row.name)?.out) },
      { title: "Consumers", kind: "num", sort: "consumer_count", cell: (row) => count(row.consumer_count) },
      { title: "Kind", cell: (row) => h("span.badges", features(row)) },
    ],
    async load({ search, sort, offset, limit }) {
      // Streams come by name only.
      const page = await list(kind === "queues" ? `/queues${query({ search, sort, offset, limit })}` : `/streams${query({ search, offset, limit })}`);
      const at = performance.now();
      const fresh = new Map();
      flow = new Map();
      for (const { name, totals } of page.data) {
        fresh.set(name, { at, published: totals.published, delivered: totals.delivered });
        const old = before.get(name);
        if (!old || at - old.at < 300) continue;
        const per = (key) => Math.max(0, ((totals[key] - old[key]) * 1000) / (at - old.at));
        flow.set(name, { in: per("published"), out: per("delivered") });
      }
      before = fresh;
      return page;
    },
  });
  function choose(one, button) {
    kind = one;
    for (const other of button.parentElement.children) other.setAttribute("aria-pressed", String(other === button));
    rows.first();
  }
  return { element: [head("Queues"), rows.element], refresh: rows.refresh };
}

function createStream() {
  form({
    title: "New stream",
    text: "A log that reading does not empty. Without limits it keeps everything.",
    action: "Create",
    fields: [
      { name: "name", label: "Name", required: true, wide: true },
      { name: "max_age_ms", label: "Messages go after", kind: "number", hint: "milliseconds" },
      { name: "max_bytes", label: "Bytes at most", kind: "number" },
      { name: "max_messages", label: "Messages at most", kind: "number" },
      { name: "durable", label: "Survives a restart", kind: "check", value: true },
    ],
    async submit({ name, ...settings }) {
      await put(`/streams/${part(name)}`, settings);
      await renew();
      return `Stream ${name} is there.`;
    },
  });
}

const OPTIONS = {
  overflow: ["", "reject", "drop-head", "reject-dlx"],
  failure: ["", "dlq", "drop", "infinite"],
};

function create() {
  form({
    title: "New queue",
    action: "Create",
    wide: true,
    fields: [
      { name: "name", label: "Name", required: true, wide: true },
      { name: "durable", label: "Survives a restart", kind: "check", value: true },
      { name: "auto_delete", label: "Goes with its last consumer", kind: "check" },
      { name: "message_ttl_ms", label: "Messages expire after", kind: "number", hint: "milliseconds" },
      { name: "max_length", label: "Messages at most", kind: "number" },
      { name: "max_bytes", label: "Bytes at most", kind: "number", more: true },
      { name: "overflow", label: "When it is full", kind: "select", options: OPTIONS.overflow, more: true },
      { name: "max_priority", label: "Levels of priority", kind: "number", hint: "up to 32", more: true },
      { name: "max_deliveries", label: "Attempts at most", kind: "number", hint: "0 is no limit", more: true },
      { name: "failure_policy", label: "What cannot be consumed", kind: "select", options: OPTIONS.failure, more: true },
      { name: "dead_letter_exchange", label: "Dead letters go to exchange", more: true },
      { name: "dead_letter_routing_key", label: "with routing key", more: true },
      { name: "expires_ms", label: "Deleted when unused for", kind: "number", hint: "milliseconds", more: true },
      { name: "lock_timeout_ms", label: "A consumer may hold a message for", kind: "number", hint: "milliseconds", more: true },
      { name: "single_active_consumer", label: "One consumer at a time", kind: "check", more: true },
    ],
    async submit({ name, ...settings }) {
      if (!settings.single_active_consumer) delete settings.single_active_consumer;
      await put(`/queues/${part(name)}`, settings);
      await renew();
      return `Queue ${name} is there.`;
    },
  });
}
