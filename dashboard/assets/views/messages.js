// Messages of a queue, looked at without taking them, and one of them in full.

import { get, list, part, query } from "../api.js";
import { show, toast } from "../dialog.js";
import { h } from "../dom.js";
import { bytes, count, moment, span } from "../format.js";
import { renew } from "../main.js";
import { badge, fields, reasons } from "./parts.js";

const PAGE = 25;
/** Bytes of each payload in the list: a glance. */
const GLANCE = 256;
const STATES = { ready: "good", held: "accent", delayed: "" };

export function messages(name, { path = "/messages", empty = "No messages." } = {}) {
  let from = null;
  const body = h("tbody");
  const nothing = h("p.empty", { hidden: true }, empty);
  const grid = h("table", h("caption.hidden", `Messages of ${name}`),
    h("thead", h("tr", ["Position", "Id", "State", "Attempt", "Published", "Size", "Payload"].map((title, at) => h(at === 0 || at === 3 || at === 5 ? "th.num" : "th", { scope: "col" }, title)))), body);
  const start = h("input", { type: "number", min: 0, "aria-label": "From position", placeholder: "from position" });
  const next = h("button.small", { type: "button", onclick: () => go(last + 1) }, "Next");
  const first = h("button.small", { type: "button", onclick: () => go(null) }, "Oldest");
  const range = h("span", { role: "status" });
  let last = -1;
  let shown = "";
  start.addEventListener("change", () => go(start.value === "" ? null : Number(start.value)));

  function go(position) {
    from = position;
    renew();
  }

  async function refresh() {
    const { data } = await list(`/queues/${part(name)}${path}${query({ from, limit: PAGE, payload_max: GLANCE })}`);
    last = data.at(-1)?.position ?? last;
    next.disabled = data.length < PAGE;
    first.disabled = from === null;
    range.textContent = data.length ? `Positions ${count(data[0].position)} to ${count(last)}` : "";
    const now = JSON.stringify(data);
    if (now === shown) return;
    shown = now;
    const focused = document.activeElement?.dataset?.position;
    body.replaceChildren(...data.map((row) => h("tr",
      h("th.num", { scope: "row" }, h("button.link", { type: "button", "data-position": row.position, "aria-label": `Message at ${row.position}`, onclick: () => inspect(row) }, count(row.position))),
      h("td", row.id), h("td", badge(row.state, STATES[row.state] ?? "")), h("td.num", count(row.attempt)), h("td", moment(row.published_at)), h("td.num", bytes(row.payload_bytes)),
      h("td.preview", glance(row)))));
    if (focused) body.querySelector(`[data-position="${CSS.escape(focused)}"]`)?.focus();
    grid.hidden = !data.length;
    nothing.hidden = data.length > 0;
  }

  return {
    element: [
      h("div.row.spread", h("p.muted", "Looking takes nothing: consumers do not notice."), h("div.row", h("div", start))),
      h("div.card.flush", h("div.table-wrap", { tabindex: "0", role: "region", "aria-label": `Messages of ${name}` }, grid), nothing, h("div.pager", range, h("span.push"), first, next)),
    ],
    refresh,
  };
}

function decode(payload) {
  const bytes = Uint8Array.from(atob(payload), (char) => char.charCodeAt(0));
  try {
    return { bytes, text: new TextDecoder("utf-8", { fatal: true }).decode(bytes) };
  } catch {
    return { bytes, text: null };
  }
}

function glance(row) {
  const { bytes, text } = decode(row.payload);
  if (!bytes.length) return "";
  return text === null && !row.truncated ? hex(bytes.subarray(0, 24)) : (text ?? new TextDecoder().decode(bytes)).slice(0, 120);
}

function hex(bytes) {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
}

/** Sixteen bytes a line, with what can be read of them. */
function dump(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const line = bytes.subarray(at, at + 16);
    const text = [...line].map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hex(line).padEnd(47)}  ${text}`);
  }
  return lines.join("\n");
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return null;
  }
}

/** One message with everything that is known of it. */
async function inspect(row) {
  let message = row;
  try {
    message = await get(`/queues/${part(row.queue)}/messages/${row.position}`);
  } catch (problem) {
    toast(problem.message, true);
    return;
  }
  const { bytes: raw, text } = decode(message.payload);
  const json = text === null ? null : pretty(text);
  const forms = [json !== null && ["JSON", json], text !== null && ["Text", text], ["Bytes", dump(raw)]].filter(Boolean);
  const payload = h("pre.payload", { tabindex: "0", role: "region", "aria-label": "Payload" });
  const choices = forms.map(([label, content]) => h("button", { type: "button", "aria-pressed": "false", onclick: (event) => choose(event.currentTarget, content) }, label));
  function choose(button, content) {
    for (const one of choices) one.setAttribute("aria-pressed", String(one === button));
    payload.textContent = content;
  }
  choose(choices[0], forms[0][1]);
  const copy = h("button.small", { type: "button", onclick: async () => {
    await navigator.clipboard.writeText(payload.textContent);
    toast("Copied.");
  } }, "Copy");
  const entries = (object) => Object.entries(object ?? {});
  const dialog = h("dialog.wide", { "aria-labelledby": "message-title" }, h("div.dialog-body",
    h("h2", { id: "message-title" }, `Message ${message.id}`),
    h("div.grid-2",
      fields([
        ["Queue", message.queue], ["Position", count(message.position)], ["State", message.state], ["Attempt", count(message.attempt)],
        ["Published", moment(message.published_at)], ["Durable", message.durable ? "yes" : "no"], ["Priority", count(message.priority)],
        ["Expires in", message.ttl_ms === null ? "never" : span(message.ttl_ms)],
      ]),
      h("div.stack", h("h3.small", "Why it is here"), reasonsOrNothing(message.why))),
    section("Headers", entries(message.headers)), section("Properties", entries(message.properties)),
    message.deaths?.length ? h("div", h("h3", "Was a dead letter before"), h("ul", message.deaths.map((death) => h("li", `${death.reason} in ${death.queue}, ${count(death.count)}×, ${moment(death.time)}`)))) : null,
    h("div.row.spread", h("h3", `Payload, ${bytes(message.payload_bytes)}${message.truncated ? " (its beginning)" : ""}`), h("div.row", h("div.segments", { role: "group", "aria-label": "Show payload as" }, choices), copy)),
    payload,
    h("div.dialog-foot", h("button.primary", { type: "button", onclick: () => dialog.close() }, "Close"))));
  show(dialog);
}

function reasonsOrNothing(why) {
  return why?.length ? reasons(why) : h("p.muted", "Nothing holds it back.");
}

function section(title, pairs) {
  return pairs.length ? h("div", h("h3", title), fields(pairs)) : null;
}
