// How the broker is: what is wrong, how much goes through, what waits where.

import { get, list } from "../api.js";
import { DEPTHS, RATES, chart } from "../chart.js";
import { h, icon, setText } from "../dom.js";
import { bytes, count, plural, rate, short, span } from "../format.js";
import { live, onLive } from "../live.js";
import { table } from "../table.js";
import { head, queueLink, verdict } from "./parts.js";

/** Queues that are looked at for what needs attention: the longest ones. */
const LOOKED_AT = 50;
const SHOWN = 8;

function tile(label) {
  const value = h("span.value", "–");
  const note = h("span.note", "\u00a0");
  const element = h("div.card.tile", h("span.label", label), value, note);
  return { element, set: (text, more) => {
    setText(value, text);
    setText(note, more || "\u00a0");
  } };
}

export function overview() {
  const alarms = h("div.stack");
  const tiles = {
    ready: tile("Messages ready"), held: tile("In flight"), published: tile("Published"), delivered: tile("Delivered"),
    connections: tile("Connections"), memory: tile("Messages in memory"),
  };
  const bar = h("span");
  const meter = h("div.meter", { "aria-hidden": "true" }, bar);
  tiles.memory.element.append(meter);
  const rates = chart("Message rates", RATES, rate);
  const depths = chart("Backlog", DEPTHS, short);
  const totals = h("dl.fields");
  const busiest = table({
    caption: "Queues that need attention",
    key: (row) => row.name,
    empty: "No queue has messages waiting.",
    columns: [
      { title: "Queue", kind: "name", cell: (row) => queueLink(row.name) },
      { title: "State", cell: (row) => verdict(row).badge },
      { title: "Ready", kind: "num", cell: (row) => count(row.depth) },
      { title: "In flight", kind: "num", cell: (row) => count(row.in_flight) },
      { title: "Consumers", kind: "num", cell: (row) => count(row.consumer_count) },
    ],
    async load() {
      const { data } = await list(`/queues?sort=-messages&limit=${LOOKED_AT}`);
      const waiting = data.filter((row) => row.messages > 0 || row.state !== "running");
      waiting.sort((a, b) => verdict(a).rank - verdict(b).rank || b.messages - a.messages);
      const rows = waiting.slice(0, SHOWN);
      return { data: rows, total: rows.length };
    },
  });

  function draw({ stats, history }) {
    if (!stats) return;
    const now = history.at(-1);
    tiles.ready.set(short(stats.messages - stats.in_flight), `in ${plural(stats.queue_count, "queue")}`);
    tiles.held.set(short(stats.in_flight), "with consumers");
    tiles.published.set(now?.published === undefined || now.published === null ? "–" : rate(now.published), `${short(stats.totals.published)} in all`);
    tiles.delivered.set(now?.delivered === undefined || now.delivered === null ? "–" : rate(now.delivered), `${short(stats.totals.delivered)} in all`);
    tiles.connections.set(count(stats.connection_count), `${plural(stats.producer_count, "producer")}, ${plural(stats.consumer_count, "consumer")}`);
    const part = stats.memory_limit_bytes ? stats.queued_bytes / stats.memory_limit_bytes : 0;
    tiles.memory.set(bytes(stats.queued_bytes), `of ${bytes(stats.memory_limit_bytes)}; process ${bytes(stats.memory_alloc_bytes)}`);
    bar.style.setProperty("width", `${Math.min(100, part * 100).toFixed(1)}%`);
    meter.dataset.level = part > 0.95 ? "full" : part > 0.8 ? "high" : "normal";
    rates.update(history);
    depths.update(history);
    const words = { acked: "Settled", nacked: "Returned", redelivered: "Delivered again", dead_lettered: "Became dead letters", expired: "Expired", dropped: "Dropped", refused: "Refused", duplicates: "Duplicates" };
    const pairs = Object.entries(words).map(([key, word]) => [word, count(stats.totals[key])]);
    pairs.push(["Bodies on disk only", count(stats.paged)], ["Exchanges, bindings", `${count(stats.exchange_count)}, ${count(stats.binding_count)}`], ["Up", span(stats.uptime_ms)]);
    if (totals.childElementCount !== pairs.length * 2) totals.replaceChildren(...pairs.flatMap(([name]) => [h("dt", name), h("dd")]));
    pairs.forEach(([, value], at) => setText(totals.children[at * 2 + 1], value));
  }

  const end = onLive(draw);
  draw(live);
  const page = [
    head("Overview"),
    alarms,
    h("div.tiles", Object.values(tiles).map((one) => one.element)),
    h("div.grid-2", rates.element, depths.element),
    h("div.grid-2",
      h("section.stack", { "aria-label": "Needs attention" }, h("h2", "Longest queues"), busiest.element),
      h("section.stack", { "aria-label": "Since the start" }, h("h2", "Since the start"), h("div.card", totals))),
  ];
  return {
    element: page,
    async refresh() {
      const [wrong] = await Promise.all([get("/alarms"), busiest.refresh()]);
      const shown = [...alarms.children].map((one) => one.dataset.text).join();
      if (shown !== wrong.map((one) => one.text).join()) {
        alarms.replaceChildren(...wrong.map((one) => h("div.banner", { role: "alert", "data-text": one.text }, icon("alert"), h("div", h("strong", `Alarm: ${one.name}`), one.text))));
      }
    },
    dispose: end,
  };
}
