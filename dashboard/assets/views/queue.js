// One queue: what goes through it, what is in it, who consumes it, what leads to it, and what can be done with it.

import { get, part, post, remove } from "../api.js";
import { DEPTHS, RATES, chart } from "../chart.js";
import { confirm, form } from "../dialog.js";
import { h, icon, setText } from "../dom.js";
import { bytes, count, plural, rate, short, span } from "../format.js";
import { live, onLive } from "../live.js";
import { renew } from "../main.js";
import { consumersTable } from "./links.js";
import { messages } from "./messages.js";
import { bindingsTable } from "./bindings.js";
import { features, fields, head, queueLink, queueHref, settingsList, verdict } from "./parts.js";
import { publishForm } from "./publish.js";
import { schemaPanel } from "./schemas.js";

export function queue(name, wanted) {
  const path = `/queues/${part(name)}`;
  let detail = null;
  const signs = h("span.badges");
  // What makes no sense for a stream, from which nobody takes; shown when it is known that this is none.
  const taking = [
    h("button", { type: "button", hidden: true, onclick: () => moveForm(name) }, "Move"),
    h("button", { type: "button", hidden: true, onclick: () => redriveForm(name) }, "Redrive"),
  ];
  const page = h("div.stack");
  const heading = head(name, {
    crumbs: { href: "#/queues", label: "Queues" },
    badges: [signs],
    actions: [
      h("button.primary", { type: "button", onclick: () => publishForm({ queue: name }) }, icon("send", true), "Publish"),
      ...taking,
      h("button.danger", { type: "button", onclick: () => purgeForm(name, detail) }, "Purge"),
      h("button.danger", { type: "button", onclick: () => deleteForm(name, detail) }, "Delete"),
    ],
  });
  const tabs = tabbed(name, [
    { id: "metrics", title: "Metrics", make: () => metrics(name, () => detail) },
    { id: "messages", title: "Messages", make: () => messages(name) },
    { id: "consumers", title: "Consumers", make: () => consumersTable(`${path}/consumers`, "Nobody consumes this queue.") },
    { id: "bindings", title: "Bindings", make: () => bindingsTable({ queue: name }) },
    { id: "dead-letters", title: "Dead letters", make: () => deadLetters(name, () => detail) },
    { id: "schema", title: "Schema", make: () => schemaPanel(name) },
  ], wanted);
  page.append(heading, tabs.element);

  return {
    element: page,
    setTab: tabs.choose,
    async refresh() {
      detail = await get(path);
      for (const button of taking) button.hidden = detail.type === "stream";
      tabs.show("dead-letters", detail.type !== "stream");
      const sign = [verdict(detail).badge, ...features(detail)];
      if (signs.textContent !== sign.map((one) => one.textContent).join("")) signs.replaceChildren(...sign);
      tabs.count("messages", detail.messages);
      tabs.count("consumers", detail.consumer_count);
      await tabs.refresh();
    },
    dispose: tabs.dispose,
  };
}

/** Tabs whose choice is part of the address. */
function tabbed(name, all, wanted) {
  const bar = h("div.tabs", { role: "tablist", "aria-label": `About ${name}` });
  const panel = h("div", { role: "tabpanel", tabindex: "0", id: "panel" });
  let current = null;
  let made = null;
  const buttons = new Map();
  for (const one of all) {
    const number = h("span.count");
    const button = h("button", { type: "button", role: "tab", id: `tab-${one.id}`, "aria-controls": "panel", onclick: () => go(one.id) }, one.title, number);
    button.number = number;
    buttons.set(one.id, button);
    bar.append(button);
  }
  bar.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const open = all.filter((one) => !buttons.get(one.id).hidden);
    const at = open.findIndex((one) => one.id === current);
    const next = open[(at + by + open.length) % open.length].id;
    go(next);
    buttons.get(next).focus();
  });

  function go(id) {
    history.replaceState(null, "", queueHref(name, id));
    choose(id);
    renew();
  }

  function choose(id) {
    const found = all.find((one) => one.id === id) ?? all[0];
    if (found.id === current) return;
    current = found.id;
    made?.dispose?.();
    made = found.make();
    for (const [key, button] of buttons) {
      button.setAttribute("aria-selected", String(key === current));
      button.tabIndex = key === current ? 0 : -1;
    }
    panel.setAttribute("aria-labelledby", `tab-${current}`);
    panel.replaceChildren(...[made.element].flat());
  }
  choose(wanted);
  return {
    element: h("div.stack", bar, panel),
    choose,
    show: (id, is) => {
      buttons.get(id).hidden = !is;
    },
    count: (id, number) => setText(buttons.get(id).number, number ? ` ${short(number)}` : ""),
    refresh: () => made.refresh?.(),
    dispose: () => made?.dispose?.(),
  };
}

function metrics(name, detail) {
  const rates = chart("Message rates", RATES, rate);
  const depths = chart("Depth", DEPTHS, short);
  const facts = h("div.card");
  const settings = h("div.card");
  const end = onLive(draw);
  function draw({ queueHistory }) {
    rates.update(queueHistory);
    depths.update(queueHistory);
  }
  draw(live);
  return {
    element: [h("div.grid-2", rates.element, depths.element), h("div.grid-2", facts, settings)],
    refresh() {
      const now = detail();
      if (!now) return;
      const { totals } = now;
      facts.replaceChildren(h("h2", "Numbers"), fields([
        ["Ready", count(now.depth)],
        ["In flight", count(now.in_flight)],
        ["Payload that waits", bytes(now.bytes)],
        ["Oldest message", typeof now.oldest_message_age_ms === "number" ? `${span(now.oldest_message_age_ms)} old` : "–"],
        ["Bodies on disk only", count(now.paged)],
        ["Consumers, producers", `${count(now.consumer_count)}, ${count(now.producer_count)}`],
        ["Published, delivered", `${count(totals.published)}, ${count(totals.delivered)}`],
        ["Settled, returned", `${count(totals.acked)}, ${count(totals.nacked)}`],
        ["Delivered again", count(totals.redelivered)],
        ["Dead letters, expired", `${count(totals.dead_lettered)}, ${count(totals.expired)}`],
        ["Dropped, refused, duplicates", `${count(totals.dropped)}, ${count(totals.refused)}, ${count(totals.duplicates)}`],
        ["Next position", count(now.next_position)],
      ]));
      settings.replaceChildren(h("h2", "Settings"), settingsList(now.settings, ["name"]));
    },
    dispose: end,
  };
}

/** Whether a queue holds the dead letters of another, or has such a queue: both are shown here. */
function deadLetters(name, detail) {
  const target = h("p");
  const inner = h("div.stack");
  let shown = null;
  let list = null;
  return {
    element: [h("div.row.spread", target, h("div.actions",
      h("button", { type: "button", onclick: () => retryForm(name) }, "Retry all"),
      h("button.danger", { type: "button", onclick: () => purgeDeadForm(name) }, "Delete all"))), inner],
    async refresh() {
      const queue = detail()?.dead_letter_queue ?? null;
      if (queue !== shown || !list) {
        shown = queue;
        target.replaceChildren(...(queue ? [h("span", "They wait in ", queueLink(queue), ".")] : [h("span.muted", "This queue has no queue of dead letters of its own.")]));
        list = messages(name, { path: "/dlq", empty: "No dead letters." });
        inner.replaceChildren(...[list.element].flat());
      }
      await list.refresh();
    },
  };
}

function purgeForm(name, detail) {
  confirm({
    title: `Purge ${name}`,
    text: `${detail ? plural(detail.depth, "message") : "All messages"} that no consumer has will be removed for good.`,
    name,
    action: "Purge",
    async submit() {
      const { purged } = await post(`/queues/${part(name)}/purge`);
      await renew();
      return `${plural(purged, "message")} removed.`;
    },
  });
}

function deleteForm(name, detail) {
  confirm({
    title: `Delete ${name}`,
    text: `${detail?.type === "stream" ? "The stream" : "The queue"} and its ${detail ? plural(detail.messages, "message") : "messages"} will be gone for good. Consumers are told.`,
    name,
    action: "Delete",
    async submit() {
      await remove(`/queues/${part(name)}?delete=true`);
      location.hash = "#/queues";
      return `Queue ${name} deleted.`;
    },
  });
}

function purgeDeadForm(name) {
  confirm({
    title: `Delete the dead letters of ${name}`,
    text: "They will be gone for good.",
    name,
    action: "Delete all",
    async submit() {
      const { purged } = await remove(`/queues/${part(name)}/dlq`);
      await renew();
      return `${plural(purged, "message")} removed.`;
    },
  });
}

function retryForm(name) {
  form({
    title: `Retry the dead letters of ${name}`,
    text: "They go back to the queue, and their attempts count from the beginning.",
    action: "Retry all",
    fields: [],
    async submit() {
      const { retried } = await post(`/queues/${part(name)}/dlq/retry`);
      await renew();
      return `${plural(retried, "message")} back in ${name}.`;
    },
  });
}

/** Moves in steps, so that no request takes long; says how far it is. */
async function inSteps(path, body, limit) {
  const STEP = 10000;
  let moved = 0;
  for (;;) {
    const step = Math.min(STEP, (limit ?? Infinity) - moved);
    const answer = await post(path, { ...body, limit: step });
    moved += answer.moved;
    if (!answer.moved || !answer.left || (limit && moved >= limit)) break;
  }
  await renew();
  return moved;
}

function moveForm(name) {
  confirm({
    title: `Move messages of ${name}`,
    text: "Waiting messages go to another queue, oldest first.",
    name,
    action: "Move",
    fields: [
      { name: "to", label: "To queue", required: true },
      { name: "limit", label: "At most", kind: "number", hint: "empty is all of them" },
    ],
    async submit({ to, limit }) {
      const moved = await inSteps(`/queues/${part(name)}/move`, { to }, limit);
      return `${plural(moved, "message")} moved to ${to}.`;
    },
  });
}

function redriveForm(name) {
  confirm({
    title: `Redrive ${name}`,
    text: "For a queue of dead letters: each message goes back to the queue that it died in last, and its attempts count from the beginning.",
    name,
    action: "Redrive",
    fields: [
      { name: "to", label: "To one queue instead" },
      { name: "limit", label: "At most", kind: "number", hint: "empty is all of them" },
    ],
    async submit({ to, limit }) {
      const moved = await inSteps(`/queues/${part(name)}/redrive`, to ? { to } : {}, limit);
      return `${plural(moved, "message")} moved.`;
    },
  });
}
