// Connections: who is there, and one of them down to its links.

import { get, list, part, query, remove } from "../api.js";
import { confirm } from "../dialog.js";
import { h, setText } from "../dom.js";
import { count, moment } from "../format.js";
import { paged, table } from "../table.js";
import { linksTable } from "./links.js";
import { badge, connectionHref, fields, head } from "./parts.js";

export function connections() {
  const rows = table({
    caption: "Connections",
    key: (row) => row.id,
    searchable: true,
    empty: "Nobody is connected.",
    columns: [
      { title: "Peer", kind: "name", cell: (row) => h("a", { href: connectionHref(row.id) }, row.peer) },
      { title: "Protocol", cell: (row) => badge(row.protocol, "accent") },
      { title: "Container", kind: "name", cell: (row) => row.container ?? "–" },
      { title: "User", cell: (row) => row.user ?? "–" },
      { title: "Product", cell: (row) => row.product ?? "–" },
      { title: "Producers", kind: "num", cell: (row) => count(row.producer_count) },
      { title: "Consumers", kind: "num", cell: (row) => count(row.consumer_count) },
      { title: "In flight", kind: "num", cell: (row) => count(row.in_flight) },
      { title: "State", cell: (row) => (row.pressed ? badge("held back", "warn") : badge("running", "good")) },
      { title: "Since", cell: (row) => moment(row.connected_at) },
    ],
    load: ({ search, offset, limit }) => list(`/connections${query({ search, offset, limit })}`),
  });
  return { element: [head("Connections"), rows.element], refresh: rows.refresh };
}

export function connection(id) {
  const path = `/connections/${part(id)}`;
  const facts = h("div.card");
  const signs = h("span.badges");
  const fresh = h("p.muted.small");
  let detail = { sessions: [], links: [] };
  const sessions = table({
    caption: "Sessions",
    key: (row) => row.channel,
    empty: "No sessions.",
    columns: [
      { title: "Channel", kind: "num", cell: (row) => count(row.channel) },
      { title: "Links", kind: "num", cell: (row) => count(row.link_count) },
      { title: "Incoming window", kind: "num", cell: (row) => count(row.incoming_window) },
      { title: "Outgoing window", kind: "num", cell: (row) => count(row.outgoing_window) },
      { title: "Peer's incoming window", kind: "num", cell: (row) => count(row.remote_incoming_window) },
      { title: "Unsettled in", kind: "num", cell: (row) => count(row.unsettled_incoming) },
      { title: "Unsettled out", kind: "num", cell: (row) => count(row.unsettled_outgoing) },
    ],
    load: async (page) => paged(detail.sessions, page),
  });
  const links = linksTable(() => detail.links);
  return {
    element: [
      head(`Connection ${id}`, {
        crumbs: { href: "#/connections", label: "Connections" },
        badges: [signs],
        actions: [h("button.danger", { type: "button", onclick: () => closeForm(id) }, "Close connection")],
      }),
      facts, h("h2", "Links"), links.element, h("h2", "Sessions"), sessions.element, fresh,
    ],
    async refresh() {
      detail = await get(path);
      signs.replaceChildren(badge(detail.protocol, "accent"), detail.pressed ? badge("held back", "warn") : badge("running", "good"));
      const more = Object.entries(detail.details ?? {}).map(([name, value]) => [name.replaceAll("_", " "), typeof value === "object" ? JSON.stringify(value) : value]);
      facts.replaceChildren(fields([
        ["Peer", detail.peer], ["Container", detail.container ?? "–"], ["User", detail.user ?? "–"], ["Product", detail.product ?? "–"],
        ["Since", moment(detail.connected_at)], ["In flight", count(detail.in_flight)], ...more,
      ]));
      setText(fresh, detail.fresh ? "" : "The connection itself did not answer; this is what the broker knows of it.");
      await Promise.all([links.refresh(), sessions.refresh()]);
    },
  };
}

function closeForm(id) {
  confirm({
    title: `Close connection ${id}`,
    text: "The client is told; what it holds goes back to its queues.",
    name: id,
    action: "Close connection",
    fields: [{ name: "reason", label: "Reason that the client is given", wide: true }],
    async submit({ reason }) {
      await remove(`/connections/${part(id)}${query({ reason })}`);
      location.hash = "#/connections";
      return `Connection ${id} closed.`;
    },
  });
}
