// A picture of the routing: exchanges on the left, queues on the right, keys on the way. Exchanges that are bound to
// others stand further right, in the order that messages take.

import { h, s } from "../dom.js";
import { exchangeHref, queueHref } from "./parts.js";

const BOX = { width: 190, height: 40, gap: 16, column: 360 };
const LABEL_MAX = 24;
const KEY_MAX = 22;

function cut(text, max) {
  const chars = [...text];
  return chars.length > max ? `${chars.slice(0, max - 1).join("")}…` : text;
}

/** How many exchanges a message passes before each, as far as these bindings say. */
function depths(names, bindings) {
  const depth = new Map([...names].map((name) => [name, 0]));
  // Bindings may go in circles: so many rounds as there are exchanges are enough.
  for (let round = 0; round < Math.min(names.size, 6); round += 1) {
    for (const { exchange, to_exchange: to } of bindings) {
      if (to !== undefined && to !== null && to !== exchange) depth.set(to, Math.max(depth.get(to) ?? 0, Math.min(depth.get(exchange) + 1, 5)));
    }
  }
  return depth;
}

export function routingMap(bindings, exchanges) {
  if (!bindings.length) return h("p.muted", "No bindings yet: messages reach queues by their names alone.");
  const kinds = new Map(exchanges.map((one) => [one.name, one]));
  const names = new Set(bindings.flatMap((one) => [one.exchange, one.to_exchange]).filter((name) => name !== undefined && name !== null));
  const alternates = exchanges.filter((one) => one.alternate_exchange && names.has(one.name));
  for (const one of alternates) names.add(one.alternate_exchange);
  const queues = [...new Set(bindings.map((one) => one.queue).filter((name) => name !== undefined && name !== null))];
  const depth = depths(names, bindings);
  const columns = [];
  for (const name of names) (columns[depth.get(name)] ??= []).push({ name, isQueue: false });
  const filled = columns.filter(Boolean);
  if (queues.length) filled.push(queues.map((name) => ({ name, isQueue: true })));

  const tallest = Math.max(...filled.map((column) => column.length));
  const height = tallest * (BOX.height + BOX.gap) + 10;
  const width = (filled.length - 1) * BOX.column + BOX.width + 4;
  const places = new Map();
  filled.forEach((column, at) => {
    const used = column.length * (BOX.height + BOX.gap) - BOX.gap;
    column.forEach((node, row) => {
      places.set(`${node.isQueue}${node.name}`, { ...node, x: 2 + at * BOX.column, y: (height - used) / 2 + row * (BOX.height + BOX.gap) });
    });
  });

  const edges = [];
  const keys = [];
  const between = new Map();
  const join = (from, to, key, mark) => {
    if (!from || !to) return;
    const pair = `${from.name}→${to.isQueue}${to.name}`;
    const nth = between.get(pair) ?? 0;
    between.set(pair, nth + 1);
    const x1 = from.x + BOX.width;
    const y1 = from.y + BOX.height / 2;
    const x2 = to.x > from.x ? to.x - 7 : to.x + BOX.width;
    const y2 = to.y + BOX.height / 2;
    if (nth === 0) {
      const bend = Math.max(60, Math.abs(x2 - x1) / 2);
      edges.push(s(mark ? `path.edge.${mark}` : "path.edge", { d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`, "data-from": from.name, "data-to": to.name }));
      if (to.x > from.x) edges.push(s("path.arrow", { d: `M${x2 + 7} ${y2}l-8 -4.5v9z` }));
    }
    if (key && nth < 3) {
      // Keys stand at the side where they are apart: near the queue.
      keys.push(s("text.key", { x: x2 - 12, y: y2 - 5 + nth * 14, "text-anchor": "end" }, cut(nth === 2 ? `${key} …` : key, KEY_MAX)));
    }
  };
  for (const one of bindings) {
    const isQueue = one.queue !== undefined && one.queue !== null;
    const words = Object.entries(one.arguments ?? {}).map(([name, value]) => `${name}=${value}`).join(" ");
    join(places.get(`false${one.exchange}`), places.get(isQueue ? `true${one.queue}` : `false${one.to_exchange}`), one.routing_key || words, isQueue ? "" : "to-exchange");
  }
  for (const one of alternates) join(places.get(`false${one.name}`), places.get(`false${one.alternate_exchange}`), "(otherwise)", "alternate");

  const boxes = [...places.values()].map((node) => {
    const kind = node.isQueue ? "queue" : `${kinds.get(node.name)?.type ?? ""} exchange`.trim();
    const label = node.name || "(default)";
    return s(node.isQueue ? "a.queue" : "a.exchange", { href: node.isQueue ? queueHref(node.name) : exchangeHref(node.name) },
      s("title", label),
      s("rect.box", { x: node.x, y: node.y, width: BOX.width, height: BOX.height, rx: node.isQueue ? 6 : 20 }),
      s("text", { x: node.x + 16, y: node.y + 18 }, cut(label, LABEL_MAX)),
      s("text.kind", { x: node.x + 16, y: node.y + 32 }, kind));
  });
  const picture = s("svg.map", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `Routing: ${names.size} exchanges, ${queues.length} queues, ${bindings.length} bindings` }, edges, keys, boxes);
  picture.style.setProperty("max-width", `${width}px`);
  return h("div.map-wrap", { tabindex: "0", role: "region", "aria-label": "Picture of the routing" }, picture);
}
