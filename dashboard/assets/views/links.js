// Links: who may send how much to whom, and why nothing flows.

import { list } from "../api.js";
import { h } from "../dom.js";
import { count } from "../format.js";
import { paged, table } from "../table.js";
import { badge, connectionHref, exchangeLink, queueLink, reasons } from "./parts.js";

function addressLink(link) {
  if (link.address === null) return h("span.muted", "(each message says)");
  return link.node === "exchange" ? exchangeLink(link.address) : queueLink(link.address);
}

const COLUMNS = {
  link: { title: "Link", kind: "name", cell: (row) => h("span", row.name ?? "–", " ", h("span.faint.small", row.id)) },
  connection: { title: "Connection", cell: (row) => h("a", { href: connectionHref(row.connection) }, row.connection) },
  role: { title: "Role", cell: (row) => badge(row.role, row.role === "consumer" ? "accent" : "") },
  address: { title: "Address", kind: "name", cell: addressLink },
  credit: { title: "Credit", kind: "num", cell: (row) => count(row.credit) },
  unsettled: { title: "Unsettled", kind: "num", cell: (row) => count(row.unsettled) },
  kind: { title: "Kind", cell: (row) => h("span.badges", row.browsing ? badge("browses") : null, row.settled ? badge("pre-settled") : null, row.filter ? badge(`filter: ${row.filter}`) : null) },
  waits: { title: "Waits for", cell: (row) => reasons(row.waits) },
};

/** The consumers of one queue. */
export function consumersTable(path, empty) {
  const made = table({
    caption: "Consumers",
    key: (row) => row.id,
    empty,
    columns: ["link", "connection", "credit", "unsettled", "kind", "waits"].map((name) => COLUMNS[name]),
    load: async (page) => paged((await list(path)).data, page),
  });
  return { element: made.element, refresh: made.refresh };
}

/** The links of one connection, from what is known already. */
export function linksTable(links) {
  return table({
    caption: "Links",
    key: (row) => row.id,
    empty: "No links.",
    columns: ["link", "role", "address", "credit", "unsettled", "kind", "waits"].map((name) => COLUMNS[name]),
    load: async (page) => paged(links(), page),
  });
}
