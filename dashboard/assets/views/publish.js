// The form that publishes one message.

import { post } from "../api.js";
import { form } from "../dialog.js";
import { renew } from "../main.js";

/** What is sent as it is meant; any other text could change on its way through a number, as 007 or a long id would. */
const PLAIN = /^(true|false|-?(0|[1-9]\d{0,14})(\.\d{1,15})?)$/;

/** Lines `name: value` or `name=value` as an object; numbers and booleans as such. */
function headers(text) {
  const all = {};
  for (const line of text.split("\n").map((one) => one.trim()).filter(Boolean)) {
    const [, name, value] = /^([^:=]+)[:=]\s*(.*)$/.exec(line) ?? [];
    if (!name) throw new Error(`“${line}” is no header: it is name: value`);
    all[name.trim()] = PLAIN.test(value) ? JSON.parse(value) : value;
  }
  return all;
}

/** To a queue or an exchange; the two may have the same name. */
export function publishForm({ queue, exchange }) {
  const name = queue ?? exchange;
  form({
    title: `Publish to ${name}`,
    action: "Publish",
    wide: true,
    fields: [
      exchange === undefined ? null : { name: "routing_key", label: "Routing key" },
      { name: "payload", label: "Payload", kind: "area" },
      { name: "content_type", label: "Content type", placeholder: "text/plain" },
      { name: "message_id", label: "Message id" },
      { name: "headers", label: "Headers", kind: "area", hint: "one per line: name: value", more: true },
      { name: "ordering_key", label: "Ordering key", more: true },
      { name: "idempotency_key", label: "Idempotency key", more: true },
      { name: "priority", label: "Priority", kind: "number", more: true },
      { name: "ttl_ms", label: "Expires after", kind: "number", hint: "milliseconds", more: true },
      { name: "durable", label: "Survives a restart", kind: "check", value: true, more: true },
    ].filter(Boolean),
    async submit({ payload = "", headers: text, ...rest }) {
      const body = { ...(exchange === undefined ? { to: queue } : { exchange }), payload, ...rest };
      if (text) body.headers = headers(text);
      const { routed } = await post("/publish", body);
      await renew();
      if (!routed) throw new Error("No queue wanted this message.");
      return `Published to ${name}.`;
    },
  });
}
