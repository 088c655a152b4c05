// A picture of the routing: exchanges on the left, queues on the right, keys on the way. What goes from one exchange to
// another runs along their left side, so that no line crosses a box.

import { h, s } from "../dom.js";
import { exchangeHref, queueHref } from "./parts.js";

const BOX = { width: 190, height: 40, gap: 16 };
/** Room for the lines between exchanges, and for those to the queues. */
const SIDE = 150;
const WAY = 330;
const LABEL_MAX = 24;
const KEY_MAX = 22;

function cut(text, max) {
  const chars = [...text];
  return chars.length > max ? `${chars.slice(0, max - 1).join("")}…` : text;
}

export function routingMap(bindings, exchanges) {
  if (!bindings.length) return h("p.muted", "No bindings yet: messages reach queues by their names alone.");
  const kinds = new Map(exchanges.map((one) => [one.name, one]));
  const names = new Set(bindings.flatMap((one) => [one.exchange, one.to_exchange]).filter((name) => name !== undefined && name !== null));
  const alternates = exchanges.filter((one) => one.alternate_exchange && names.has(one.name));
  for (const one of alternates) names.add(one.alternate_exchange);
  const queues = [...new Set(bindings.map((one) => one.queue).filter((name) => name !== undefined && name !== null))];
  const hasSides = alternates.length > 0 || bindings.some((one) => one.to_exchange !== undefined && one.to_exchange !== null);
  const left = hasSides ? SIDE : 2;
  const rows = Math.max(names.size, queues.length);
  const height = rows * (BOX.height + BOX.gap) + 10;
  const width = left + BOX.width + (queues.length ? WAY + BOX.width : 0) + 4;
  const places = new Map();
  const stand = (all, x, isQueue) => {
    const used = all.length * (BOX.height + BOX.gap) - BOX.gap;
    all.forEach((name, row) => places.set(`${isQueue}${name}`, { name, isQueue, x, y: (height - used) / 2 + row * (BOX.height + BOX.gap) }));
  };
  const order = [...names];
  stand(order, left, false);
  // A queue stands about where its exchanges do: fewer lines cross.
  const middle = (queue) => {
    const from = bindings.filter((one) => one.queue === queue).map((one) => order.indexOf(one.exchange));
    return from.reduce((sum, row) => sum + row, 0) / from.length;
  };
  stand([...queues].sort((one, other) => middle(one) - middle(other)), left + BOX.width + WAY, true);

  const edges = [];
  const keys = [];
  const between = new Map();
  const join = (from, to, key, mark) => {
    if (!from || !to) return;
    const pair = `${from.name}→${to.isQueue}${to.name}`;
    const nth = between.get(pair) ?? 0;
    between.set(pair, nth + 1);
    const y1 = from.y + BOX.height / 2;
    const y2 = to.y + BOX.height / 2;
    const end = to.x - 7;
    if (nth === 0) {
      const path = to.isQueue
        ? `M${from.x + BOX.width} ${y1}C${from.x + BOX.width + WAY / 2} ${y1} ${end - WAY / 2} ${y2} ${end} ${y2}`
        : `M${from.x} ${y1 + 8}C${from.x - 70} ${y1 + 8} ${end - 70} ${y2} ${end} ${y2}`;
      edges.push(s(mark ? `path.edge.${mark}` : "path.edge", { d: path }));
      edges.push(s("path.arrow", { d: `M${to.x} ${y2}l-8 -4.5v9z` }));
    }
    if (key && nth < 3) {
      // Keys stand at the side where they are apart: near the end.
      keys.push(s("text.key", { x: end - 5, y: y2 - 5 + nth * 14, "text-anchor": "end" }, cut(nth === 2 ? `${key} …` : key, to.isQueue ? KEY_MAX : KEY_MAX / 2)));
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
