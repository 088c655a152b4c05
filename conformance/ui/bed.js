// What the tests share: a daemon of their own with something in it, AMQP clients that hold links open, qqctl, a browser.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, openSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import rhea from "rhea";

const PATIENCE_MS = 20000;

export const NASTY = `<img src=x onerror=alert(1)>`;
export const NAMES = ["a/b", "a%2Fb", "a b", "a+b", "a?b#c", "..a", "%", "\u00fc\u4e2d\u{1f600}", NASTY];

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/** Tries until it is true. */
export async function eventually(what, attempt) {
  const end = Date.now() + PATIENCE_MS;
  let last;
  while (Date.now() < end) {
    try {
      const done = await attempt();
      if (done) return done;
    } catch (error) {
      last = error;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`never happened: ${what}${last ? ` (${last})` : ""}`);
}

/** A daemon on free ports, with the memory store unless `config` says otherwise. */
export async function startDaemon(config = "") {
  const dir = mkdtempSync(join(tmpdir(), "qq-ui-"));
  const [amqp, http] = [await freePort(), await freePort()];
  const file = join(dir, "broker.toml");
  writeFileSync(file, `[server]\nbind_addr = "127.0.0.1"\namqp_port = ${amqp}\nbinary_port = 0\n[storage]\nbackend = "memory"\n`
    + `[management]\nenabled = true\nport = ${http}\n[logging]\nlevel = "warn"\n${config}`);
  const log = openSync(join(dir, "log"), "a");
  let child;
  const daemon = {
    amqp, dir, url: `http://127.0.0.1:${http}`,
    async start() {
      child = spawn(process.env.QQD, ["--config", file], { stdio: ["ignore", log, log], env: { PATH: process.env.PATH } });
      await eventually(`qqd answers (log in ${dir})`, async () => {
        if (child.exitCode !== null) throw new Error(`it ended with ${child.exitCode}`);
        return (await fetch(`${daemon.url}/health`)).ok;
      });
    },
    async stop() {
      const ended = child.exitCode === null ? once(child, "exit") : null;
      child.kill("SIGTERM");
      await ended;
      return child.exitCode;
    },
  };
  await daemon.start();
  daemon.api = async (method, path, body) => {
    const response = await fetch(`${daemon.url}/api/v1${path}`, { method, headers: { "content-type": "application/json" }, body: body === undefined ? undefined : JSON.stringify(body) });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return JSON.parse(text);
  };
  daemon.publish = (to, payload, rest = {}) => daemon.api("POST", "/publish", { to, payload, ...rest });
  return daemon;
}

/** Runs qqctl to its end. */
export function qqctl(daemon, args, { input, env = {} } = {}) {
  const done = spawnSync(process.env.QQCTL, args, { input: input ?? "", env: { QQ_API_URL: daemon?.url, ...env }, timeout: PATIENCE_MS });
  return { code: done.status, out: done.stdout.toString(), err: done.stderr.toString() };
}

/** A receiver with so much credit that settles nothing by itself. */
export async function openReceiver(daemon, address, name, credit) {
  const container = rhea.create_container({ id: `ui-${name}` });
  const connection = container.connect({ host: "127.0.0.1", port: daemon.amqp, username: "anonymous", reconnect: false });
  const receiver = connection.open_receiver({ name, source: address, credit_window: 0, autoaccept: false });
  await once(receiver, "receiver_open");
  if (credit) receiver.add_credit(credit);
  return { receiver, close: () => connection.close() };
}
