// What the broker says about itself, second by second: one stream of events for the whole page, and what it said in the
// last minutes. When the stream breaks the browser tries again; the page says so meanwhile.

import { get, query, url } from "./api.js";

/** Seconds that are kept. */
export const KEPT = 300;
const AGAIN_MS = 3000;

const listeners = new Set();
let source = null;
let watched = null;
let timer = null;

export const live = { state: "waiting", stats: null, history: [], queue: null, queueHistory: [] };

/** Calls `listener` whenever something is new; returns what ends that. */
export function onLive(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell() {
  for (const listener of listeners) listener(live);
}

/** Watches one queue more closely, or none; forgets what was known of another. */
export function watch(name) {
  if (name === watched && source) return;
  watched = name;
  live.queue = null;
  live.queueHistory = [];
  open();
}

function open() {
  clearTimeout(timer);
  source?.close();
  // What changes of every queue is not shown, and would be the most of it.
  const wanted = watched === null ? { only: "stats" } : { queue: watched };
  source = new EventSource(url(`/events${query(wanted)}`));
  source.addEventListener("stats", (event) => {
    const stats = JSON.parse(event.data);
    live.stats = stats;
    live.state = "live";
    keep(live.history, stats.totals, stats.messages - stats.in_flight, stats.in_flight);
    tell();
  });
  source.addEventListener("queue", (event) => {
    const queue = JSON.parse(event.data);
    // A queue that is gone has nothing to say.
    if (queue?.name !== watched) return;
    live.queue = queue;
    keep(live.queueHistory, queue.totals, queue.depth, queue.in_flight);
    tell();
  });
  source.onerror = () => {
    live.state = "lost";
    tell();
    // A stream that was refused is not tried again by the browser.
    if (source.readyState === EventSource.CLOSED) timer = setTimeout(open, AGAIN_MS);
  };
}

/** Adds a point: counters become rates against the point before. */
function keep(history, totals, ready, held) {
  const now = performance.now();
  const last = history.at(-1);
  const point = { at: now, totals, ready, held, published: null, delivered: null, acked: null };
  if (last) {
    const seconds = (now - last.at) / 1000;
    // Events that came late and together say nothing about a second: the next one covers them.
    if (seconds < 0.3) return;
    for (const name of ["published", "delivered", "acked"]) {
      // A counter that fell belongs to a broker that started anew.
      const more = totals[name] - last.totals[name];
      point[name] = more >= 0 ? more / seconds : null;
    }
  }
  history.push(point);
  while (history.length > KEPT) history.shift();
}

/** The first numbers, without waiting for the stream. */
export async function first() {
  try {
    live.stats ??= await get("/stats");
    tell();
  } catch {
    live.state = "lost";
    tell();
  }
}
