// The dashboard in a real browser against a living broker: every screen for accessibility, then what people do there.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { chromium } from "playwright-core";

import { NASTY, openReceiver, qqctl, startDaemon } from "./bed.js";
import { DESTRUCTIVE, FORMS, SCREENS } from "./screens.js";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const MANY = 10000;
/** Where pictures of the screens go, when somebody wants to look at them. */
const SHOTS = process.env.QQ_SHOTS;

let daemon;
let browser;
let page;
const held = [];
const trouble = [];

before(async () => {
  daemon = await startDaemon("[limits]\nqueues_max = 20000\n");
  await seed();
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
  page = await open("light");
});
after(async () => {
  await browser?.close();
  for (const link of held) link.close();
  await daemon?.stop();
});

/** A shop: topic and fanout exchanges, some queues with messages, consumers that wait. */
async function seed() {
  const queue = (name, settings = {}) => daemon.api("PUT", `/queues/${encodeURIComponent(name)}`, settings);
  for (const name of ["orders", "orders.dlq", "payments", "audit-log", NASTY, "scratch"]) await queue(name);
  await daemon.api("PUT", "/exchanges/shop", { type: "topic" });
  await daemon.api("PUT", "/exchanges/audit", { type: "fanout" });
  const bind = (binding) => daemon.api("POST", "/bindings", binding);
  await bind({ exchange: "shop", queue: "orders", routing_key: "order.#" });
  await bind({ exchange: "shop", queue: "payments", routing_key: "order.*.paid" });
  await bind({ exchange: "shop", to_exchange: "audit", routing_key: "#" });
  await bind({ exchange: "audit", queue: "audit-log", routing_key: "" });
  for (let n = 0; n < 40; n += 1) await daemon.publish("orders", JSON.stringify({ order: n, note: "</script><b>bold" }), { headers: { region: "eu" }, message_id: `m-${n}` });
  await daemon.publish(NASTY, "x");
  held.push(await openReceiver(daemon, "orders", "<script>alert(2)</script>", 0));
  held.push(await openReceiver(daemon, "payments", "payer", 10));
}

async function open(colorScheme) {
  const context = await browser.newContext({ colorScheme, viewport: { width: 1360, height: 900 } });
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const made = await context.newPage();
  // The browser writes down every refusal of the broker, also those that are expected; nothing else may be there.
  made.on("console", (message) => {
    if (message.type() === "error" && !/status of 40[0-9]/.test(message.text())) trouble.push(message.text());
  });
  made.on("pageerror", (error) => trouble.push(error.message));
  made.on("dialog", (dialog) => {
    trouble.push(`a name ran as code: ${dialog.message()}`);
    dialog.dismiss();
  });
  await made.goto(`${daemon.url}/dashboard/`);
  return made;
}

async function go(where, on = page) {
  await on.goto("about:blank");
  await on.goto(`${daemon.url}/dashboard/#/${where}`);
  await on.waitForSelector("h1");
}

/** Axe finds nothing serious. */
async function isAccessible(on, what) {
  const found = await on.evaluate(() => axe.run());
  const serious = found.violations.filter((one) => ["serious", "critical"].includes(one.impact));
  assert.deepEqual(serious.map((one) => [what, one.id, one.nodes[0].html]), []);
  assert.ok(found.passes.length > 10, "the checker looked at the page");
}

const hasText = (text, on = page) => on.waitForFunction((wanted) => document.querySelector("#main").innerText.includes(wanted), text, { timeout: 15000 });
const choose = (name, on = page) => on.getByRole("button", { name, exact: true }).click();

for (const scheme of ["light", "dark"]) {
  test(`every screen is accessible, ${scheme}`, async () => {
    const other = await open(scheme);
    if (SHOTS) mkdirSync(SHOTS, { recursive: true });
    const session = await other.context().newCDPSession(other);
    // The page's own policy would not let the checker in.
    await session.send("Page.setBypassCSP", { enabled: true });
    const [{ id }] = (await daemon.api("GET", "/connections")).filter((one) => one.container === "ui-payer");
    const screens = { ...SCREENS, connection: [`connections/${encodeURIComponent(id)}`, `Connection ${id}`] };
    for (const [name, [where, heading]] of Object.entries(screens)) {
      await go(where, other);
      assert.equal(await other.textContent("h1"), heading);
      await other.waitForFunction(() => document.querySelector(".live").dataset.state === "live");
      await other.waitForTimeout(1200);
      if (SHOTS) await other.screenshot({ path: join(SHOTS, `${name.replaceAll(" ", "-")}-${scheme}.png`), fullPage: true });
      await other.addScriptTag({ content: AXE });
      await isAccessible(other, name);
    }
    await other.context().close();
  });

  test(`every form is accessible, ${scheme}`, async () => {
    const other = await open(scheme);
    const session = await other.context().newCDPSession(other);
    await session.send("Page.setBypassCSP", { enabled: true });
    for (const [where, button] of FORMS) {
      await go(where, other);
      await other.addScriptTag({ content: AXE });
      await other.getByRole("button", { name: button, exact: true }).first().click();
      const dialog = other.getByRole("dialog");
      await dialog.waitFor();
      if (await dialog.locator("summary").count()) await dialog.locator("summary").click();
      await isAccessible(other, `${button} on ${where}`);
    }
    await other.context().close();
  });
}

test("whatever cannot be undone wants the name typed", async () => {
  for (const [where, button, name] of DESTRUCTIVE) {
    await go(where);
    await page.getByRole("button", { name: button, exact: true }).first().click();
    const dialog = page.getByRole("dialog");
    const send = dialog.locator("button[type=submit]");
    const label = `${button} on ${where}`;
    assert.ok(await send.isDisabled(), `${label}: nothing typed`);
    await dialog.getByLabel(/^Type/).fill(`${name} `);
    await page.keyboard.press("Enter");
    assert.ok(await send.isDisabled() && (await dialog.isVisible()), `${label}: not quite the name`);
    await dialog.getByLabel(/^Type/).fill(name);
    assert.ok(await send.isEnabled(), label);
    await page.keyboard.press("Escape");
  }
  assert.equal((await daemon.api("GET", "/queues/orders")).depth, 40);
});

test("a queue is made, filled, looked into, purged and deleted", async () => {
  await go("queues");
  await choose("New queue");
  await page.getByLabel("Name", { exact: true }).fill("made here");
  await choose("Create");
  await hasText("made here");
  await go("queues/made%20here");
  await choose("Publish");
  await page.getByLabel("Payload").fill('{"hello": "w\u00f6rld"}');
  await page.getByText("More settings").click();
  await page.getByLabel("Headers").fill("region: eu\ncount=3");
  await page.getByRole("dialog").getByRole("button", { name: "Publish" }).click();
  await page.getByRole("tab", { name: "Messages" }).click();
  await hasText("hello");
  await page.getByRole("button", { name: "Message at 0" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText('"hello": "w\u00f6rld"').waitFor();
  assert.match(await dialog.innerText(), /region\s+eu/);
  await page.keyboard.press("Escape");
  await page.locator("dialog").waitFor({ state: "detached" });

  await choose("Purge");
  const purge = page.getByRole("dialog").getByRole("button", { name: "Purge" });
  assert.ok(await purge.isDisabled());
  await page.getByLabel(/Type/).fill("made her");
  assert.ok(await purge.isDisabled(), "a name that is not quite right");
  await page.getByLabel(/Type/).fill("made here");
  await purge.click();
  await hasText("No messages.");
  assert.equal((await daemon.api("GET", "/queues/made%20here")).depth, 0);

  await choose("Delete");
  await page.getByLabel(/Type/).fill("made here");
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.waitForURL(/#\/queues$/);
  await assert.rejects(daemon.api("GET", "/queues/made%20here"), /404/);
});

test("streams are made and shown beside queues", async () => {
  await go("queues");
  await choose("New stream");
  await page.getByLabel("Name", { exact: true }).fill("clicks");
  await page.getByLabel("Messages at most").fill("1000");
  await choose("Create");
  await page.getByRole("button", { name: "Streams", exact: true }).click();
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 1 && document.querySelector("tbody tr").innerText.includes("clicks"));
  await page.getByRole("button", { name: "Queues", exact: true }).click();
  await hasText("payments");
  assert.equal((await daemon.api("GET", "/streams/clicks")).settings.max_length, 1000);
});

test("nobody takes from a stream, so it offers nothing of that kind", async () => {
  await daemon.api("PUT", "/streams/log", {});
  for (const [name, isThere] of [["orders", true], ["log", false]]) {
    await go(`queues/${name}`);
    await hasText("Next position");
    for (const button of ["Move", "Redrive"]) assert.equal(await page.getByRole("button", { name: button, exact: true }).isVisible(), isThere, `${button} of ${name}`);
    assert.equal(await page.getByRole("tab", { name: "Dead letters" }).isVisible(), isThere, name);
  }
  // The arrow keys pass by what is not shown.
  await go("queues/log/bindings");
  await page.getByRole("tab", { name: "Dead letters" }).waitFor({ state: "hidden" });
  await page.getByRole("tab", { name: "Bindings" }).focus();
  await page.keyboard.press("ArrowRight");
  await page.waitForURL(/#\/queues\/log\/schema$/);
});

test("the screen of an exchange publishes to the exchange, and headers arrive as they were written", async () => {
  await daemon.api("PUT", "/queues/twin");
  await daemon.api("PUT", "/queues/behind");
  await daemon.api("PUT", "/exchanges/twin", { type: "fanout" });
  await daemon.api("POST", "/bindings", { exchange: "twin", queue: "behind", routing_key: "" });
  await go("exchanges/twin");
  await choose("Publish");
  await page.getByLabel("Payload").fill("x");
  await page.getByText("More settings").click();
  await page.getByLabel("Headers").fill("agent: 007\nid: 9007199254740993\ncount: 3\nshare: -0.5");
  await page.getByRole("dialog").getByRole("button", { name: "Publish" }).click();
  await page.getByText("Published to twin.").waitFor();
  assert.equal((await daemon.api("GET", "/queues/twin")).depth, 0);
  const [message] = await daemon.api("GET", "/queues/behind/messages");
  assert.deepEqual(message.headers, { agent: "007", id: "9007199254740993", count: "3", share: "-0.5" });
});

test("what the broker refuses is told and nothing is lost", async () => {
  await go("queues");
  await choose("New queue");
  await page.getByLabel("Name", { exact: true }).fill("amq.mine");
  await choose("Create");
  await page.getByRole("alert").filter({ hasText: /amq/ }).waitFor();
  assert.equal(await page.getByLabel("Name", { exact: true }).inputValue(), "amq.mine");
  await page.keyboard.press("Escape");
  await go("queues/no-such-queue");
  await page.getByRole("alert").filter({ hasText: /no-such-queue/ }).waitFor();
});

test("a refusal of a click is told as well", async () => {
  await go("queues/orders/messages");
  await hasText("m-0");
  await page.getByLabel("From position").fill("1.5");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").filter({ hasText: /from/ }).waitFor();
  await page.getByLabel("From position").fill("2");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").waitFor({ state: "detached" });
  assert.equal(await page.getByRole("button", { name: "Message at 0" }).count(), 0);
  assert.deepEqual(trouble, []);
});

test("memory is measured against what its limit bounds", async () => {
  await go("overview");
  const tile = page.locator(".tile", { hasText: "Messages in memory" });
  await page.waitForFunction(() => [...document.querySelectorAll(".tile .note")].some((note) => note.textContent.includes("process")));
  const { queued_bytes: queued, memory_limit_bytes: limit, memory_alloc_bytes: resident } = await daemon.api("GET", "/stats");
  assert.ok(queued * 10 < resident && resident < limit, "the two are easy to tell apart");
  const width = Number.parseFloat(await tile.locator(".meter span").evaluate((bar) => bar.style.width));
  assert.ok(Math.abs(width - (100 * queued) / limit) < 0.2, `${width} %`);
});

test("numbers move by themselves", async () => {
  await go("overview");
  const published = page.locator(".tile", { hasText: "Published" });
  await published.waitFor();
  const number = async () => Number((await daemon.api("GET", "/stats")).totals.published);
  const before = await number();
  for (let n = 0; n < 20; n += 1) await daemon.publish("scratch", "tick");
  assert.equal(await number(), before + 20);
  await page.waitForFunction(() => Number.parseFloat(document.querySelectorAll(".tile")[2].querySelector(".value").textContent) > 0, null, { timeout: 15000 });
  await go("queues/scratch");
  await hasText("20");
  await daemon.publish("scratch", "one more");
  await hasText("21");
});

test("a connection is shown down to what its links wait for, and can be closed", async () => {
  const name = "to-be-closed";
  const link = await openReceiver(daemon, "orders", name, 0);
  await go("connections");
  await page.getByLabel("Search connections").fill(`ui-${name}`);
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 1);
  await page.locator("tbody a").first().click();
  await hasText("no-credit");
  await choose("Close connection");
  const id = decodeURIComponent(page.url().split("/").at(-1));
  const ended = new Promise((resolve) => link.receiver.connection.once("connection_close", resolve));
  await page.getByLabel(/Type/).fill(id);
  await page.getByRole("dialog").getByRole("button", { name: "Close connection" }).click();
  await ended;
  await page.waitForURL(/#\/connections$/);
  link.close();
});

test("the routing is a picture whose parts lead on", async () => {
  await go("exchanges");
  const map = page.locator("svg.map");
  await map.waitFor();
  for (const text of ["shop", "audit", "orders", "payments", "audit-log", "order.*.paid"]) assert.ok((await map.textContent()).includes(text), text);
  assert.ok((await map.locator("path.edge").count()) >= 4);
  await map.locator("a.queue", { hasText: "payments" }).click();
  await page.waitForURL(/#\/queues\/payments$/);
});

test("names and payloads are text, whatever they look like", async () => {
  for (const where of ["queues", `queues/${encodeURIComponent(NASTY)}`, "queues/orders/messages", "queues/orders/consumers", "connections", "overview"]) {
    await go(where);
    await page.waitForTimeout(700);
    assert.equal(await page.locator("#main img, #main script, #main b").count() - await page.locator("#main .legend-row b").count(), 0, where);
  }
  await go("queues");
  await hasText(NASTY);
});

test("the keyboard is enough", async () => {
  await go("overview");
  await page.keyboard.press("2");
  await page.getByRole("heading", { name: "Queues", level: 1 }).waitFor();
  await page.keyboard.press("/");
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Search queues");
  await page.keyboard.type("orders");
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 2);
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  for (let n = 0; n < 20 && !(await page.evaluate(() => document.activeElement.matches("tbody a"))); n += 1) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "orders", level: 1 }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "H1", "the focus goes with the screen");
  await page.getByRole("tab", { name: "Metrics" }).focus();
  await page.keyboard.press("ArrowRight");
  await page.waitForURL(/#\/queues\/orders\/messages$/);
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Backspace");
  await page.waitForURL(/#\/queues$/);
});

test("ten thousand queues are searched, sorted and paged", async () => {
  const queues = Array.from({ length: MANY }, (_, n) => ({ name: `tenant-${String(n).padStart(5, "0")}` }));
  await daemon.api("POST", "/definitions", { version: 1, queues });
  await daemon.publish("tenant-07777", "the only one");
  await go("queues");
  await hasText(`1\u201350 of 10\u202f0`);
  await choose("Next");
  await hasText("51\u2013100 of");
  await page.getByLabel("Search queues").fill("TENANT-0777");
  await hasText("tenant-07770");
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 10);
  await page.getByRole("button", { name: "Ready" }).click();
  await page.waitForFunction(() => document.querySelector("tbody tr").innerText.startsWith("tenant-07777"));
  assert.equal(await page.locator("th[aria-sort=descending]").innerText(), "Ready");
});

test("with users nothing is shown to those who have not logged in", async () => {
  const users = join(daemon.dir, "users");
  writeFileSync(users, "ann:secret\n");
  const guarded = await startDaemon(`[sasl]\nenabled = true\n[auth]\nusers_file = "${users}"\n`);
  try {
    // Without any credentials the browser asks its user, for whom nobody sits here.
    const stranger = await (await browser.newContext({ httpCredentials: { username: "ann", password: "guessed" } })).newPage();
    await stranger.goto(`${guarded.url}/dashboard/#/queues`);
    await stranger.getByRole("alert").filter({ hasText: "log in" }).waitFor();
    assert.equal(await stranger.locator("tbody tr").count(), 0);
    const friend = await (await browser.newContext({ httpCredentials: { username: "ann", password: "secret" } })).newPage();
    await friend.goto(`${guarded.url}/dashboard/#/settings`);
    await hasText("ann", friend);
    await friend.waitForFunction(() => document.querySelector(".live").dataset.state === "live");
    assert.equal(qqctl(guarded, ["queue", "list"]).code, 1);
    assert.equal(qqctl(guarded, ["queue", "list"], { env: { QQ_API_USER: "ann:secret" } }).code, 0);
    assert.equal(qqctl(guarded, ["queue", "list"], { env: { QQ_API_USER: "ann:wrong" } }).code, 1);
  } finally {
    await guarded.stop();
  }
});

test("when the broker goes, the page says so and comes back with it", async () => {
  await go("overview");
  await page.waitForFunction(() => document.querySelector(".live").dataset.state === "live");
  assert.equal(await daemon.stop(), 0);
  await page.waitForFunction(() => document.querySelector(".live").dataset.state === "lost", null, { timeout: 15000 });
  await page.getByRole("alert").filter({ hasText: "does not answer" }).waitFor();
  await daemon.start();
  await page.waitForFunction(() => document.querySelector(".live").dataset.state === "live", null, { timeout: 20000 });
  await page.getByRole("alert").waitFor({ state: "detached" });
  // What the browser writes down about a server that is away is what was asked for.
  const own = trouble.filter((text) => !/ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY/.test(text));
  assert.deepEqual(own, []);
});
