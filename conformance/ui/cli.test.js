// qqctl against a living broker: what the documentation shows, names of every kind, refusals with their exit codes.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { NAMES, eventually, openReceiver, qqctl, startDaemon } from "./bed.js";

let daemon;
before(async () => {
  daemon = await startDaemon();
});
after(() => daemon?.stop());

/** Runs a command line as it is written in the documentation. */
function ok(...args) {
  const done = qqctl(daemon, args);
  assert.equal(done.code, 0, `qqctl ${args.join(" ")}: ${done.err}`);
  return done.out;
}

function refused(code, ...args) {
  const done = qqctl(daemon, args);
  assert.equal(done.code, code, `qqctl ${args.join(" ")}: ${done.out}${done.err}`);
  assert.equal(done.out, "");
  assert.equal(done.err.trim().split("\n").length, 1, done.err);
  return done.err;
}

const json = (...args) => JSON.parse(ok(...args, "-o", "json"));

test("queues are made, shown, purged and deleted as the documentation says", async () => {
  ok("queue", "list");
  ok("queue", "create", "orders", "--durable");
  ok("queue", "create", "orders", "--durable");
  assert.match(ok("queue", "get", "orders"), /^name +orders$/m);
  ok("queue", "publish", "orders", "--message", "Hello");
  assert.equal(json("queue", "get", "orders").depth, 1);
  ok("queue", "purge", "orders", "--force");
  assert.equal(json("queue", "get", "orders").depth, 0);
  ok("queue", "delete", "orders", "--force");
  assert.match(refused(1, "queue", "get", "orders"), /orders/);
  assert.match(refused(1, "queue", "delete", "orders", "--force"), /orders/);
  refused(1, "queue", "purge", "orders", "--force");
});

test("settings arrive, and others are a conflict that names the field", () => {
  ok("queue", "create", "limits", "--message-ttl", "24h", "--max-bytes", "1MiB", "--overflow", "drop-head", "--max-deliveries", "3");
  const { settings } = json("queue", "get", "limits");
  assert.deepEqual([settings.message_ttl_ms, settings.max_bytes, settings.overflow, settings.max_deliveries], [86400000, 1048576, "drop-head", 3]);
  assert.match(refused(1, "queue", "create", "limits", "--message-ttl", "1h"), /message_ttl/);
});

test("exchanges route by what was bound, also to a headers exchange", () => {
  ok("exchange", "list");
  ok("exchange", "create", "orders-ex", "--exchange-type", "direct", "--durable");
  ok("exchange", "create", "events", "--exchange-type", "topic", "--auto-delete");
  ok("exchange", "create", "headers-ex", "--exchange-type", "headers");
  ok("exchange", "get", "orders-ex");
  ok("queue", "create", "routed");
  ok("exchange", "bind", "events", "routed", "--routing-key", "orders.*");
  ok("queue", "publish", "events", "--message", "Hello", "--routing-key", "orders.new");
  assert.match(refused(1, "queue", "publish", "events", "--message", "x", "--routing-key", "other"), /no queue wanted/);
  ok("exchange", "bind", "headers-ex", "routed", "--routing-key", "ignored", "--arguments", '{"format":"jpeg","size":1024}');
  ok("queue", "publish", "headers-ex", "--message", "picture", "--headers", '{"format":"jpeg","size":1024}');
  refused(1, "queue", "publish", "headers-ex", "--message", "picture", "--headers", "format=png");
  assert.equal(json("queue", "get", "routed").depth, 2);
  assert.equal(json("queue", "bindings", "routed").filter((one) => one.exchange !== "").length, 2);
  ok("exchange", "unbind", "headers-ex", "routed", "--routing-key", "ignored", "--arguments", '{"format":"jpeg","size":1024}');
  ok("exchange", "unbind", "events", "routed", "--routing-key", "orders.*");
  refused(1, "exchange", "unbind", "orders-ex", "routed", "--routing-key", "never");
  ok("exchange", "delete", "orders-ex", "--force");
  refused(1, "exchange", "get", "orders-ex");
});

test("every name is the same for every command", () => {
  for (const name of NAMES) {
    ok("queue", "create", name);
    ok("queue", "publish", name, "--message", `in ${name}`);
    assert.equal(json("queue", "get", name).name, name);
    const [message] = json("queue", "peek", name);
    assert.equal(Buffer.from(message.payload, "base64").toString(), `in ${name}`);
    assert.ok(json("queue", "list").some((row) => row.name === name), name);
  }
  for (const name of NAMES) {
    ok("queue", "delete", name, "--force");
    refused(1, "queue", "get", name);
  }
  refused(1, "queue", "create", "x".repeat(256));
  refused(1, "queue", "create", "line\nfeed");
});

test("bytes from standard input arrive as they are", () => {
  ok("queue", "create", "bytes");
  const bytes = Buffer.from([...Array(256).keys()]);
  const done = qqctl(daemon, ["queue", "publish", "bytes", "-m", "-", "--content-type", "application/x-test"], { input: bytes });
  assert.equal(done.code, 0, done.err);
  const [message] = json("queue", "peek", "bytes");
  assert.deepEqual(Buffer.from(message.payload, "base64"), bytes);
});

test("messages are moved and redriven whole", async () => {
  for (const name of ["from", "to", "from.dlq"]) ok("queue", "create", name);
  for (let n = 0; n < 5; n += 1) ok("queue", "publish", "from", "--message", `m${n}`);
  assert.match(ok("queue", "move", "from", "to", "--limit", "2"), /^2 messages moved, 3 left/);
  assert.deepEqual([json("queue", "get", "from").depth, json("queue", "get", "to").depth], [3, 2]);
  const { receiver, close } = await openReceiver(daemon, "from", "rejecter", 0);
  let rejected = 0;
  receiver.on("message", ({ delivery }) => {
    delivery.reject({ condition: "test:no", description: "no" });
    rejected += 1;
  });
  receiver.add_credit(3);
  await eventually("three dead letters", () => rejected === 3 && json("queue", "get", "from.dlq").depth === 3);
  close();
  const [dead] = json("queue", "peek", "from.dlq");
  assert.equal(dead.deaths[0].reason, "rejected");
  ok("queue", "redrive", "from.dlq");
  await eventually("they are back", () => json("queue", "get", "from").depth === 3 && json("queue", "get", "from.dlq").depth === 0);
});

test("streams are made, filled, looked into and deleted", () => {
  ok("stream", "create", "clicks", "--max-age", "7d", "--max-messages", "1000");
  ok("stream", "create", "clicks", "--max-age", "7d", "--max-messages", "1000");
  ok("queue", "publish", "clicks", "--message", "one");
  const { type, settings } = json("stream", "get", "clicks");
  assert.deepEqual([type, settings.max_age_ms, settings.max_length], ["stream", 604800000, 1000]);
  assert.ok(json("stream", "list").some((row) => row.name === "clicks" && row.messages === 1));
  assert.ok(!json("queue", "list").some((row) => row.name === "clicks"));
  const [message] = json("queue", "peek", "clicks");
  assert.equal(Buffer.from(message.payload, "base64").toString(), "one");
  ok("queue", "create", "no-stream");
  assert.match(refused(1, "stream", "get", "no-stream"), /this is a queue/);
  assert.match(refused(1, "stream", "delete", "no-stream", "--force"), /this is a queue/);
  refused(1, "stream", "create", "no-stream");
  ok("stream", "delete", "clicks", "--force");
  refused(1, "stream", "get", "clicks");
});

test("schemas are registered, shown and taken away", () => {
  const file = join(daemon.dir, "order.proto");
  writeFileSync(file, 'syntax = "proto3";\npackage shop;\nmessage Order { string id = 1; }\n');
  ok("queue", "create", "typed");
  assert.match(ok("schema", "register", "-q", "typed", "-p", file, "-m", "shop.Order"), /^Schema registered for queue "typed" \(version 1\)/);
  assert.match(ok("schema", "list"), /typed +shop\.Order +1/);
  assert.equal(json("schema", "get", "typed").version, 1);
  assert.doesNotMatch(ok("schema", "get", "typed"), /descriptor/);
  assert.match(refused(1, "schema", "register", "-q", "typed", "-p", file, "-m", "shop.Nothing"), /Nothing/);
  assert.match(refused(1, "queue", "publish", "typed", "--message", "no protobuf"), /not a field/);
  ok("schema", "delete", "typed", "--force");
  refused(1, "schema", "get", "typed");
});

test("it says why a link and a message wait", async () => {
  ok("queue", "create", "waiting");
  const { close } = await openReceiver(daemon, "waiting", "without-credit", 0);
  ok("queue", "publish", "waiting", "--message", "x");
  await eventually("no credit", () => /no-credit/.test(ok("link", "why", "without-credit")));
  const [message] = json("queue", "peek", "waiting");
  assert.match(ok("message", "why", "waiting", String(message.position)), /ready/);
  assert.ok(json("link", "list", "--queue", "waiting").some((row) => row.name === "without-credit"));
  const mine = json("connection", "list").find((row) => row.container === "ui-without-credit");
  ok("connection", "get", mine.id);
  ok("connection", "close", mine.id, "--force");
  await eventually("it is gone", () => !json("connection", "list").some((row) => row.id === mine.id));
  refused(1, "connection", "get", mine.id);
  close();
});

test("the broker is shown, and the topology goes out and in", () => {
  assert.match(ok("broker", "status"), /^State +running/m);
  ok("broker", "health");
  ok("broker", "limits");
  ok("broker", "alarms");
  ok("cluster", "status");
  ok("user", "list");
  ok("schema", "list");
  assert.ok(json("broker", "config"));
  const stats = JSON.parse(ok("broker", "stats", "--raw"));
  assert.ok(stats.queue_count > 0);
  assert.match(ok("queue", "list", "-o", "yaml"), /name:/);
  const file = join(daemon.dir, "topology.json");
  writeFileSync(file, ok("broker", "export"));
  assert.match(ok("broker", "import", file), /created 0 queues, 0 exchanges, 0 bindings, 0 groups and 0 schemas/);
  const document = JSON.parse(ok("broker", "export"));
  document.queues.push({ name: "imported" });
  writeFileSync(file, JSON.stringify(document));
  assert.match(ok("broker", "import", file), /created 1 queues/);
});

test("without a broker the exit code is 3, and wrong words are 2", () => {
  const away = { url: "http://127.0.0.1:1" };
  assert.equal(qqctl(away, ["queue", "list"]).code, 3);
  refused(2, "queue", "lst");
  refused(2, "queue", "list", "--output", "xml");
});
