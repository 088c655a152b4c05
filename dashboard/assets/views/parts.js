// What several screens show: headings, names that lead somewhere, signs of state, reasons to wait.

import { h } from "../dom.js";
import { part } from "../api.js";
import { setting } from "../format.js";

export function head(title, { crumbs, badges = [], actions = [], text } = {}) {
  return h("div.head",
    h("div.head-text",
      crumbs ? h("nav.crumbs", { "aria-label": "Where this is" }, h("a", { href: crumbs.href }, crumbs.label), " /") : null,
      h("div.row", h("h1", title), h("span.badges", badges)),
      text ? h("p.muted", text) : null),
    actions.length ? h("div.actions", actions) : null);
}

export function badge(text, kind = "") {
  return h(kind ? `span.badge.${kind}` : "span.badge", text);
}

export const queueHref = (name, tab = "") => `#/queues/${part(name)}${tab ? `/${tab}` : ""}`;
export const exchangeHref = (name) => `#/exchanges/${part(name)}`;
export const connectionHref = (id) => `#/connections/${part(id)}`;

export function queueLink(name) {
  return h("a.wrap", { href: queueHref(name) }, name);
}

export function exchangeLink(name) {
  return name === "" ? h("span.muted", "(default exchange)") : h("a.wrap", { href: exchangeHref(name) }, name);
}

/** What a queue is like, in words. */
export function features(queue) {
  return [
    queue.type === "stream" ? badge("stream", "accent") : null,
    queue.durable ? badge("durable") : badge("transient"),
    queue.exclusive ? badge("exclusive") : null,
    queue.auto_delete ? badge("auto-delete") : null,
  ].filter(Boolean);
}

/** Whether somebody should look at a queue: its sign, and how urgent it is. */
export function verdict(queue) {
  if (queue.state !== "running") return { rank: 0, badge: badge(queue.state, "bad") };
  if (/\.dlq$/.test(queue.name) && queue.messages > 0) return { rank: 1, badge: badge("dead letters", "warn") };
  if (queue.depth > 0 && queue.consumer_count === 0) return { rank: 2, badge: badge("no consumer", "warn") };
  return { rank: 3, badge: badge("running", "good") };
}

/** Why nothing flows over a link; empty is that it does. */
export function reasons(list) {
  if (!list?.length) return badge("flows", "good");
  return h("div.waits", list.map((why) => h("div", badge(why.code, why.code === "no-message" ? "" : "warn"), " ", h("span.small.muted", why.text))));
}

/** Names and values, one below the other. */
export function fields(pairs) {
  return h("dl.fields", pairs.map(([name, value]) => [h("dt", name), h("dd", value instanceof Node ? value : String(value ?? "–"))]));
}

/** Settings as they are called everywhere. */
export function settingsList(settings, leaveOut = []) {
  const pairs = Object.entries(settings ?? {}).filter(([name]) => !leaveOut.includes(name));
  return fields(pairs.map(([name, value]) => [name, setting(value, name)]));
}
