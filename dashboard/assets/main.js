// The frame: which screen is shown for which address, the keys that work everywhere, and the sign of life.

import { h, icon, setText } from "./dom.js";
import { show } from "./dialog.js";
import { count, span } from "./format.js";
import { first, live, onLive, watch } from "./live.js";
import { overview } from "./views/overview.js";
import { queues } from "./views/queues.js";
import { queue } from "./views/queue.js";
import { exchange, exchanges } from "./views/exchanges.js";
import { connection, connections } from "./views/connections.js";
import { schema, schemas } from "./views/schemas.js";
import { settings } from "./views/settings.js";

const REFRESH_MS = 2000;

const SCREENS = [
  { path: "overview", title: "Overview", view: overview },
  { path: "queues", title: "Queues", view: queues, one: queue, number: "queue_count" },
  { path: "exchanges", title: "Exchanges", view: exchanges, one: exchange, number: "exchange_count" },
  { path: "connections", title: "Connections", view: connections, one: connection, number: "connection_count" },
  { path: "schemas", title: "Schemas", view: schemas, one: schema },
  { path: "settings", title: "Settings", view: settings },
];

const main = document.getElementById("main");
const nav = document.getElementById("nav");
const app = document.getElementById("app");
const counts = new Map();
let screen = null;
let timer = null;

function frame() {
  for (const one of SCREENS) {
    const number = h("span.count");
    if (one.number) counts.set(one.number, number);
    nav.append(h("a", { href: `#/${one.path}`, "data-path": one.path, title: one.title }, icon(one.path), h("span", one.title), number));
  }
  const state = h("span.live", { "data-state": "waiting" }, h("span.text", "Connecting"));
  const version = h("span.text");
  const uptime = h("span.text");
  const theme = h("button.quiet.small", { type: "button", onclick: turnTheme }, icon("sun", true));
  const help = h("button.quiet.small", { type: "button", "aria-label": "Keys and help", title: "Keys and help (?)", onclick: showHelp }, icon("help", true));
  document.getElementById("side-foot").append(version, uptime, h("div.row", state, h("span.push"), theme, help));
  const names = { live: "Live", lost: "Not connected", waiting: "Connecting" };
  onLive(({ state: now, stats }) => {
    if (state.dataset.state !== now) {
      state.dataset.state = now;
      setText(state.firstChild, names[now]);
    }
    if (!stats) return;
    setText(version, `Version ${stats.version}, ${stats.runtime}, ${stats.store}`);
    setText(uptime, `Up ${span(stats.uptime_ms)}`);
    for (const [name, element] of counts) setText(element, count(stats[name]));
  });
  applyTheme(theme);

  function applyTheme(button) {
    const dark = isDark();
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    const label = dark ? "Light colours" : "Dark colours";
    button.setAttribute("aria-label", label);
    button.setAttribute("title", label);
    button.replaceChildren(icon(dark ? "sun" : "moon", true));
  }
  function turnTheme() {
    localStorage.setItem("theme", isDark() ? "light" : "dark");
    applyTheme(theme);
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => applyTheme(theme));
}

function isDark() {
  const chosen = localStorage.getItem("theme");
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** The parts of the address behind the #, decoded. */
function place() {
  const parts = location.hash.replace(/^#\/?/, "").split("/");
  try {
    return parts.map(decodeURIComponent);
  } catch {
    return ["overview"];
  }
}

async function route() {
  const [path, name, tab] = place();
  const found = SCREENS.find((one) => one.path === path) ?? SCREENS[0];
  const same = screen && screen.found === found && screen.name === (name || null) && screen.setTab;
  if (same) {
    screen.setTab(tab);
    return;
  }
  clearTimeout(timer);
  screen?.dispose?.();
  for (const link of nav.children) {
    if (link.dataset.path === found.path) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const isOne = Boolean(name && found.one);
  watch(isOne && found.path === "queues" ? name : null);
  const made = isOne ? found.one(name, tab) : found.view();
  screen = { ...made, found, name: isOne ? name : null };
  document.title = `${isOne ? name : found.title} – Quark-Queue`;
  const moved = document.activeElement !== document.body && main.childElementCount > 0;
  main.replaceChildren(...[made.element].flat());
  const heading = main.querySelector("h1");
  heading?.setAttribute("tabindex", "-1");
  if (moved) heading?.focus();
  await again();
}

/** Renews the screen now and then, as long as somebody can see it. */
async function again() {
  const mine = screen;
  clearTimeout(timer);
  if (!document.hidden) {
    try {
      await mine.refresh?.();
      trouble(null);
    } catch (problem) {
      trouble(problem);
    }
  }
  if (mine === screen) timer = setTimeout(again, REFRESH_MS);
}

const banner = h("div.banner", { role: "alert", hidden: true });

/** What is wrong with asking the broker, above the screen. */
function trouble(problem) {
  if (!problem) {
    banner.remove();
    return;
  }
  const text = problem.message;
  if (!banner.isConnected || banner.textContent !== text) {
    banner.hidden = false;
    banner.replaceChildren(icon("alert"), h("span", text));
    main.prepend(banner);
  }
}

/** For views: ask again at once, after something was changed. */
export function renew() {
  return again();
}

function showHelp() {
  const keys = [
    ["1 – 6", "Screens"], ["/", "Search"], ["[", "Narrow or wide sidebar"], ["Backspace", "Up to the list"],
    ["← →", "Tabs, when one has the focus"], ["Esc", "Close a dialog"], ["?", "This help"],
  ];
  const dialog = h("dialog", { "aria-labelledby": "help-title" }, h("div.dialog-body",
    h("h2", { id: "help-title" }, "Keys"),
    h("dl.fields", keys.map(([key, text]) => [h("dt", h("kbd", key)), h("dd", text)])),
    h("p.muted.small", "Everything here is also in the HTTP API (", h("a", { href: "../api/v1/openapi.json" }, "its description"), ") and in the command line qqctl."),
    h("div.dialog-foot", h("button.primary", { type: "button", onclick: () => dialog.close() }, "Close"))));
  show(dialog);
}

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest?.("input, textarea, select, dialog");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const at = Number(event.key);
  if (at >= 1 && at <= SCREENS.length) location.hash = `#/${SCREENS[at - 1].path}`;
  else if (event.key === "/") main.querySelector("[data-search]")?.focus();
  else if (event.key === "[") app.classList.toggle("narrow");
  else if (event.key === "?") showHelp();
  else if (event.key === "Backspace" && screen?.name) location.hash = `#/${screen.found.path}`;
  else return;
  event.preventDefault();
});

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
window.addEventListener("hashchange", route);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && screen) again();
});
frame();
route();
first();
