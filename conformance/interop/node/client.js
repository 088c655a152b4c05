'use strict';
// rhea (Node) against a broker: the program that run.sh starts.
//
//   client.js test  --port P --auto-port A   every test of this client; one line each, PASS or FAIL
//   client.js put   --port P --queue Q       sends every message of messages.json
//   client.js check --port P --queue Q       receives them (sent by any client) and compares each one
//
// Queues are declared by run.sh as `interop-node-TEST`. The broker at --auto-port makes queues on attach, the other not.
const assert = require('assert');
const { parseArgs } = require('util');
const rhea = require('rhea');
const values = require('./values');

const { values: args, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    port: { type: 'string' }, 'auto-port': { type: 'string' }, user: { type: 'string', default: 'guest' },
    password: { type: 'string', default: 'guest' }, address: { type: 'string', default: '{}' }, queue: { type: 'string' }, only: { type: 'string' },
  },
});
const WAIT_MS = 8000;     // how long anything that must happen may take before it counts as failed
const queue = (name) => args.address.replace('{}', 'interop-node-' + name);
const absent = () => args.address.replace('{}', 'interop-absent-' + process.hrtime.bigint());
const sleep = (ms) => new Promise((f) => setTimeout(f, ms));
const eq = (got, want, what) => assert.deepStrictEqual(got, want, `${what}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
const tests = {};

// The bytes of a received message, beside rhea's own reading of them.
const decode = rhea.message.decode;
rhea.message.decode = (raw) => { const m = decode(raw); Object.defineProperty(m, 'raw', { value: Buffer.from(raw) }); return m; };

async function until(cond, what) {
  for (const end = Date.now() + WAIT_MS; ;) {
    const v = cond();
    if (v) return v;
    if (Date.now() > end) throw new Error('timed out: ' + what);
    await sleep(2);
  }
}

async function connect(more = {}) {
  const ct = rhea.create_container(), seen = {};
  const c = ct.connect({ host: '127.0.0.1', port: Number(args.port), username: 'anonymous', reconnect: false, ...more });
  c.on('connection_open', () => { seen.open = true; });
  for (const e of ['connection_error', 'connection_close', 'disconnected', 'error']) c.on(e, (x) => { seen.gone = seen.gone || (x && (x.error || (x.connection && x.connection.error))) || x || e; });
  ct.on('error', (e) => { seen.gone = seen.gone || e; });
  c.seen = seen;
  await until(() => seen.open || seen.gone, 'open');
  if (!seen.open) throw seen.gone;
  return c;
}
async function close(c) { c.close(); await until(() => c.is_closed() || !c.is_open(), 'close'); }

// Opens a link; throws the broker's error when it is refused.
async function link(c, kind, options) {
  const l = kind === 'sender' ? c.open_sender(options) : c.open_receiver({ credit_window: 0, autoaccept: false, ...options });
  const seen = { inbox: [] };
  l.seen = seen;
  l.on(kind + '_open', () => { seen.open = true; });
  l.on(kind + '_error', () => { seen.error = l.error; });
  l.on(kind + '_close', () => { seen.closed = true; });
  l.on('message', (x) => seen.inbox.push(x));
  l.on('receiver_drained', () => { seen.drained = true; });
  await until(() => seen.open || seen.closed, 'attach');
  // a refused link is an attach without a terminus and then a detach
  if (!(kind === 'sender' ? l.target : l.source)) await until(() => seen.closed, 'detach of a refused link');
  if (seen.closed) throw seen.error || new Error('closed without an error');
  return l;
}
const sender = (c, address, more) => link(c, 'sender', { target: address === null ? {} : { address }, ...more });
const receiver = (c, address, more, source) => link(c, 'receiver', { source: { ...(address === null ? {} : { address }), ...source }, ...more });
async function take(l, n = 1) {
  await until(() => l.seen.inbox.length >= n, `${n} deliveries (have ${l.seen.inbox.length})`);
  return l.seen.inbox.splice(0, n);
}
async function drain(l, credit) {
  l.seen.drained = false;
  l.add_credit(credit);
  l.drain_credit();
  await until(() => l.seen.drained, 'drained');
  l.drain = false;
  return l.seen.inbox.splice(0);
}
async function outcomeOf(l, m) {
  await until(() => l.sendable(), 'credit');
  const d = l.send(m);
  await until(() => d.remote_settled, 'outcome');
  return d.remote_state.constructor.composite_type;
}
async function send(c, address, bodies) {
  const l = await sender(c, address), ds = [];
  for (const body of bodies) { await until(() => l.sendable(), 'credit'); ds.push(l.send({ body })); }
  for (const d of ds) { await until(() => d.remote_settled, 'outcome'); eq(d.remote_state.constructor.composite_type, 'accepted', 'outcome'); }
  return l;
}
async function detach(l) { l.close(); await until(() => l.seen.closed, 'detach'); }
// what a new consumer finds on the queue (and takes)
async function left(c, address) {
  const l = await receiver(c, address), got = await drain(l, 50);
  got.forEach((x) => x.delivery.accept());
  await detach(l);
  return got.map((x) => [x.message.body, x.message.delivery_count || 0]);
}
const range = (n) => Array.from({ length: n }, (_, i) => i);

tests['connect-plain'] = async () => {
  const c = await connect({ username: args.user, password: args.password });
  await send(c, queue('connect-plain'), ['hello']);
  await close(c);
};
tests['connect-wrong-password'] = async () => {
  const e = await connect({ username: args.user, password: 'not ' + args.password }).then(() => null, (x) => x);
  assert(e, 'logged in with a wrong password');
  assert(/auth/i.test(String(e.condition) + String(e.description) + String(e.message)), 'not refused by SASL: ' + e);
};
tests['unsettled'] = async () => {
  const c = await connect(), q = queue('unsettled');
  await send(c, q, range(200));
  const l = await receiver(c, q);
  l.add_credit(200);
  const got = await take(l, 200);
  eq(got.map((x) => x.message.body), range(200), 'bodies in order');
  assert(got.every((x) => !x.delivery.remote_settled), 'an unsettled receiver was sent settled deliveries');
  got.forEach((x) => x.delivery.accept());
  await detach(l);
  eq(await left(c, q), [], 'left on the queue');
  await close(c);
};
tests['presettled'] = async () => {
  const c = await connect(), q = queue('presettled');
  const s = await sender(c, q, { snd_settle_mode: 1 });
  for (const body of range(200)) { await until(() => s.sendable(), 'credit'); s.send({ body }); }
  const l = await receiver(c, q, { snd_settle_mode: 1 });
  l.add_credit(200);
  const got = await take(l, 200);
  eq(got.map((x) => x.message.body), range(200), 'bodies in order');
  assert(got.every((x) => x.delivery.remote_settled), 'a receiver that asked for settled got unsettled deliveries');
  await detach(l);
  eq(await left(c, q), [], 'left on the queue');
  await close(c);
};
async function outcome(name, settle) {
  const c = await connect(), q = queue(name);
  await send(c, q, ['m']);
  const l = await receiver(c, q);
  l.add_credit(1);
  const [x] = await take(l);
  eq(x.message.delivery_count || 0, 0, 'delivery-count of the first delivery');
  settle(x.delivery);
  await detach(l);
  const got = await left(c, q);
  await close(c);
  return got;
}
tests['outcome-accepted'] = async () => eq(await outcome('outcome-accepted', (d) => d.accept()), [], 'left after accepted');
tests['outcome-rejected'] = async () => eq(await outcome('outcome-rejected', (d) => d.reject({ condition: 'amqp:decode-error', description: 'no' })), [], 'left after rejected');
tests['outcome-released'] = async () => eq(await outcome('outcome-released', (d) => d.release()), [['m', 0]], 'left after released');
tests['outcome-modified'] = async () => {
  eq(await outcome('outcome-modified', (d) => d.modified({ delivery_failed: false, undeliverable_here: false })), [['m', 0]], 'left after modified');
  eq(await outcome('outcome-modified', (d) => d.modified({ delivery_failed: true, undeliverable_here: false })), [['m', 1]], 'left after modified(delivery-failed)');
};
tests['modified-annotations'] = async () => {
  const c = await connect(), q = queue('modified-annotations');
  await send(c, q, ['m']);
  const l = await receiver(c, q);
  l.add_credit(1);
  let [x] = await take(l);
  x.delivery.modified({ delivery_failed: true, undeliverable_here: false, message_annotations: { 'x-opt-interop-why': 'because' } });
  l.add_credit(1);
  [x] = await take(l);
  eq([x.message.delivery_count, (x.message.message_annotations || {})['x-opt-interop-why']], [1, 'because'], 'second delivery');
  x.delivery.accept();
  await close(c);
};
tests['large-message'] = async () => {
  const c = await connect(), q = queue('large-message');
  const body = Buffer.alloc(1 << 20);
  body.forEach((_, i) => { body[i] = i * 7 & 0xff; });
  await send(c, q, [rhea.message.data_section(body)]);
  const l = await receiver(c, q);
  l.add_credit(1);
  const [x] = await take(l);
  assert(x.message.body.content.equals(body), `body differs (${x.message.body.content.length} bytes)`);
  x.delivery.accept();
  await close(c);
};
tests['credit-exact'] = async () => {
  const c = await connect(), q = queue('credit-exact');
  await send(c, q, range(30));
  const l = await receiver(c, q);
  for (const n of [0, 10, 5, 1]) {
    if (n) l.add_credit(n);
    await until(() => l.seen.inbox.length >= n, `${n} deliveries`);
    await send(c, queue('credit-exact-other'), ['round trip']);
    await sleep(300);
    eq(l.seen.inbox.length, n, `deliveries for a credit of ${n}`);
    (await take(l, n)).forEach((x) => x.delivery.accept());
  }
  await close(c);
};
tests['drain'] = async () => {
  const c = await connect(), q = queue('drain'), l = await receiver(c, q);
  const bodies = (got) => got.map((x) => x.message.body);
  eq(bodies(await drain(l, 10)), [], 'deliveries from an empty queue');
  await send(c, q, ['a', 'b', 'c']);
  eq(bodies(await drain(l, 10)), ['a', 'b', 'c'], 'deliveries while draining');
  await send(c, q, ['d']);
  await sleep(300);
  eq(l.seen.inbox.length, 0, 'deliveries after the drain');
  l.add_credit(1);
  eq(bodies(await take(l)), ['d'], 'delivery for new credit');
  await close(c);
};
tests['browse'] = async () => {
  const c = await connect(), q = queue('browse');
  await send(c, q, ['a', 'b']);
  for (let i = 0; i < 2; i++) {
    const l = await receiver(c, q, {}, { distribution_mode: 'copy' });
    eq(String(l.source.distribution_mode), 'copy', 'distribution-mode in effect');
    l.add_credit(5);
    const got = await take(l, 2);
    eq(got.map((x) => x.message.body), ['a', 'b'], 'browsed');
    got.forEach((x) => x.delivery.accept());
    await detach(l);
  }
  eq((await left(c, q)).map(([b]) => b), ['a', 'b'], 'on the queue after browsing');
  await close(c);
};
async function notFound(attach, ...also) {
  const e = await attach().then(() => null, (x) => x);
  assert(e, 'attached to a name that does not exist');
  assert(['amqp:not-found', ...also].includes(String(e.condition)), `error condition ${e.condition} (${e.message || e.description})`);
}
// attaches a sender and waits for its end
async function hold(c, address) {
  const l = await sender(c, address);
  await until(() => l.seen.closed, 'end of a link to a deleted node');
  throw l.seen.error || new Error('closed without an error');
}
// a dynamic node for the answers, and the anonymous terminus to send them by
tests['request-reply'] = async () => {
  const asker = await connect(), answerer = await connect(), q = queue('request-reply');
  const answers = await receiver(asker, null, {}, { dynamic: true }), address = answers.source.address;
  assert(address, 'no address for the dynamic node');
  answers.add_credit(5);
  const s = await sender(asker, q), requests = await receiver(answerer, q), relay = await sender(answerer, null);
  requests.add_credit(5);
  for (let i = 0; i < 5; i++) {
    await until(() => s.sendable(), 'credit');
    s.send({ body: i, reply_to: address, correlation_id: 'r' + i });
    const [x] = await take(requests);
    eq(await outcomeOf(relay, { to: x.message.reply_to, correlation_id: x.message.correlation_id, body: x.message.body * 2 }), 'accepted', 'outcome of the answer');
    x.delivery.accept();
    const [a] = await take(answers);
    eq([a.message.body, a.message.correlation_id], [i * 2, 'r' + i], 'answer');
    a.delivery.accept();
  }
  await close(asker);
  // the node may go just before or just after the new link comes to it
  await notFound(() => hold(answerer, address), 'amqp:resource-deleted');
  await close(answerer);
};
tests['anonymous-terminus'] = async () => {
  const c = await connect(), qs = [queue('anonymous-terminus-a'), queue('anonymous-terminus-b')], s = await sender(c, null);
  for (const to of qs) eq(await outcomeOf(s, { to, body: to }), 'accepted', 'outcome');
  for (const q of qs) eq((await left(c, q)).map(([b]) => b), [q], 'on the queue');
  assert(['rejected', 'released'].includes(await outcomeOf(s, { to: absent(), body: 'lost' })), 'a message to an unknown name was taken');
  eq(await outcomeOf(s, { to: qs[0], body: 'again' }), 'accepted', 'outcome afterwards');
  await close(c);
};
tests['unknown-name'] = async () => {
  const c = await connect(), s = await send(c, queue('unknown-name'), ['before']);
  await notFound(() => sender(c, absent()));
  await notFound(() => receiver(c, absent()));
  assert(s.session.is_open(), 'the session ended with the link');
  eq(await outcomeOf(s, { body: 'after' }), 'accepted', 'outcome on the link beside it');
  await close(c);
};
tests['auto-create'] = async () => {
  const c = await connect({ port: Number(args['auto-port']) }), q = absent();
  await send(c, q, ['made on attach']);
  eq((await left(c, q)).map(([b]) => b), ['made on attach'], 'on the queue');
  await close(c);
};
tests['link-stealing'] = async () => {
  const q = queue('link-stealing'), o = { container_id: 'interop-node-thief' };
  const older = await connect(o), newer = await connect(o);
  const first = await receiver(older, q, { name: 'the-link' });
  first.add_credit(5);
  const second = await receiver(newer, q, { name: 'the-link' });
  second.add_credit(5);
  await until(() => first.seen.closed || first.seen.error, 'detach of the older link');
  eq(String(first.seen.error && first.seen.error.condition), 'amqp:link:stolen', 'error condition');
  await send(newer, q, ['m']);
  const [x] = await take(second);
  eq([x.message.body, first.seen.inbox.length], ['m', 0], 'delivery to the new link only');
  x.delivery.accept();
  await close(older);
  await close(newer);
};
// rhea reconnects by itself and takes its links' names again at once
tests['reconnect-same-name'] = async () => {
  const q = queue('reconnect-same-name'), c = await connect({ reconnect: true, initial_reconnect_delay: 20, container_id: 'interop-node-again' });
  await send(c, q, ['m']);
  const l = await receiver(c, q, { name: 'the-link', credit_window: 1 });
  for (let i = 0; i < 4; i++) {
    const [x] = await take(l);
    eq(x.message.body, 'm', 'delivery');
    if (i === 3) x.delivery.accept(); else c.socket.destroy(new Error('cut by the test'));
  }
  await detach(l);
  eq(await left(c, q), [], 'left on the queue');
  await close(c);
};
tests['heartbeat'] = async () => {
  const c = await connect({ idle_time_out: 1000 }), s = await sender(c, queue('heartbeat'));
  await sleep(3500);
  assert(!c.seen.gone, 'the connection went: ' + JSON.stringify(c.seen.gone));
  eq(await outcomeOf(s, { body: 'alive' }), 'accepted', 'outcome after the quiet time');
  await close(c);
};

// rhea knows no transactions, but its types can write them, and its sessions can be made to send a state with a transfer
const composite = (name, code, ...fields) => rhea.types.define_composite({ name, code, fields: fields.map((field) => ({ name: field, type: '*' })) });
const coordinator = composite('coordinator', 0x30, 'capabilities');
const described = (code, fields) => rhea.types.described(rhea.types.wrap_ulong(code), rhea.types.wrap_list(fields));
const within = (txn, code) => described(0x34, [rhea.types.wrap_binary(txn), ...(code ? [described(code, [])] : [])]);
const descriptor = (state) => Number(state.descriptor.value);

async function control(c) {
  const l = c.open_sender({}), seen = {};
  l.seen = seen;
  l.local.attach.target = coordinator.create({}).described();
  l.on('sendable', () => { seen.sendable = true; });
  l.on('sender_close', () => { seen.closed = true; });
  // rhea complains of termini and outcomes that it does not know, and hands them on
  for (const method of ['warn', 'error']) console[method] = () => {};
  await until(() => seen.sendable || seen.closed, 'the coordinator');
  assert(!seen.closed, 'the coordinator was refused: ' + l.error);
  return l;
}
async function ask(l, code, fields) {
  // a value section around a value with a descriptor of its own, which rhea does not write by itself
  const writer = new rhea.types.Writer();
  writer.write(described(code, fields));
  const d = l.send(Buffer.concat([Buffer.from([0x00, 0x53, 0x77]), writer.toBuffer()]), undefined, 0);
  await until(() => d.remote_settled, 'answer of the coordinator');
  return d.remote_state;
}
async function declare(l) {
  const state = await ask(l, 0x31, []);
  eq(descriptor(state), 0x33, 'answer to declare');
  return state.value[0].value;
}
async function discharge(l, txn, fail) {
  const state = await ask(l, 0x32, [rhea.types.wrap_binary(txn), rhea.types.wrap_boolean(fail)]);
  return state.constructor.composite_type === 'accepted' ? 'accepted' : String(state.error.condition);
}
async function post(l, txn, m) {
  await until(() => l.sendable(), 'credit');
  const { session } = l, output = session.output;
  session.output = function (frame, payload) {
    if (frame.constructor.descriptor.numeric === 0x14) frame.value[7] = within(txn); // the field state, for which rhea has no writer
    return output.call(session, frame, payload);
  };
  const d = l.send(m);
  await until(() => d.remote_settled, 'outcome of a posting');
  session.output = output;
  eq(descriptor(d.remote_state), 0x34, 'state of a posting');
  eq(Buffer.from(d.remote_state.value[0].value), Buffer.from(txn), 'its transaction');
}
async function transaction(name, fail, settled) {
  const c = await connect(), q = queue(name), to = queue(name + '-to');
  await send(c, q, ['in']);
  const r = await receiver(c, q), s = await sender(c, to), l = await control(c);
  r.add_credit(1);
  const txn = await declare(l), [x] = await take(r);
  x.delivery.update(settled, within(txn, 0x24));
  await post(s, txn, { body: 'out' });
  eq(await left(c, to), [], 'seen before the discharge');
  eq(await discharge(l, txn, fail), 'accepted', 'discharge');
  if (fail && !settled) x.delivery.release();
  await detach(r);
  const found = [await left(c, q), await left(c, to)];
  await close(c);
  return found;
}
tests['transaction-commit'] = async () => eq(await transaction('transaction-commit', false, false), [[], [['out', 0]]], 'on the queues');
tests['transaction-rollback'] = async () => {
  eq(await transaction('transaction-rollback', true, false), [[['in', 0]], []], 'on the queues');
  eq(await transaction('transaction-rollback', true, true), [[['in', 1]], []], 'on the queues, settled before the discharge');
};
tests['transaction-refused'] = async () => {
  const c = await connect(), q = queue('transaction-refused'), s = await sender(c, q), relay = await sender(c, null), l = await control(c);
  const txn = await declare(l);
  await post(s, txn, { body: 'm' });
  await post(relay, txn, { to: absent(), body: 'lost' });
  eq(await discharge(l, txn, false), 'amqp:transaction:rollback', 'discharge');
  eq(await left(c, q), [], 'on the queue');
  await close(c);
};
tests['transaction-several'] = async () => {
  const c = await connect(), q = queue('transaction-several'), s = await sender(c, q), l = await control(c);
  const one = await declare(l), two = await declare(l);
  await post(s, one, { body: 'one' });
  await post(s, two, { body: 'two' });
  eq([await discharge(l, two, false), await discharge(l, one, true)], ['accepted', 'accepted'], 'discharges');
  eq(await left(c, q), [['two', 0]], 'on the queue');
  await close(c);
};

// a receiver says its outcome and waits until the broker has settled the delivery
tests['second-mode'] = async () => {
  const c = await connect(), q = queue('second-mode');
  await send(c, q, range(3));
  const l = await receiver(c, q, { rcv_settle_mode: 1 });
  eq(l.rcv_settle_mode, 1, 'settle mode in effect');
  l.add_credit(3);
  const got = await take(l, 3), { message } = rhea;
  for (const [i, x] of got.entries()) {
    x.delivery.update(false, (i === 1 ? message.released() : message.accepted()).described());
    await until(() => x.delivery.remote_settled, 'settlement by the broker');
    x.delivery.update(true);
  }
  await detach(l);
  eq((await left(c, q)).map(([b]) => b), [1], 'left on the queue');
  await close(c);
};
const exchange = (name) => '/exchanges/interop-node-' + name;
tests['route-topic'] = async () => {
  const c = await connect(), s = await sender(c, exchange('topic'));
  for (const [key, want] of [['a.1', 'accepted'], ['b.1.2', 'accepted'], ['a.1.2', 'released']]) {
    eq(await outcomeOf(s, { body: key, subject: key }), want, 'outcome of ' + key);
  }
  eq((await left(c, queue('route-topic'))).map(([b]) => b), ['a.1'], 'what a.* takes');
  eq((await left(c, queue('route-topic-b'))).map(([b]) => b), ['b.1.2'], 'what b.# takes');
  await close(c);
};
// every queue or none: one of them has room for one message
tests['route-fanout'] = async () => {
  const c = await connect(), s = await sender(c, exchange('fanout')), full = queue('route-fanout-b');
  eq(await outcomeOf(s, { body: 1 }), 'accepted', 'outcome');
  const d = s.send({ body: 2 });
  await until(() => d.remote_settled, 'outcome');
  const { condition, info } = d.remote_state.error;
  eq([String(condition), info.queue, info.exchange], ['amqp:resource-limit-exceeded', full, 'interop-node-fanout'], 'what the error names');
  for (const q of [queue('route-fanout'), full]) eq((await left(c, q)).map(([b]) => b), [1], 'on the queue');
  await close(c);
};
tests['route-headers'] = async () => {
  const c = await connect(), s = await sender(c, exchange('headers'));
  eq(await outcomeOf(s, { body: 0, application_properties: { region: 'eu', size: rhea.types.wrap_ubyte(7) } }), 'accepted', 'outcome of both');
  eq(await outcomeOf(s, { body: 1, application_properties: { region: 'eu' } }), 'released', 'outcome of one');
  eq((await left(c, queue('route-headers'))).map(([b]) => b), [0], 'on the queue');
  await close(c);
};
// each receiver from an exchange has a copy of its own; a durable one collects while it is away
tests['subscription'] = async () => {
  const container_id = 'interop-node-subscriber', address = exchange('topic') + '/sub';
  const durable = (c) => receiver(c, address, { name: 'kept' }, { durable: 1, expiry_policy: 'never' });
  const away = await connect({ container_id });
  await durable(away);
  await close(away);
  const c = await connect({ container_id }), mine = await receiver(c, address);
  await send(c, address, ['m']);
  for (const l of [mine, await durable(c)]) {
    l.add_credit(10);
    const [x] = await take(l);
    eq(x.message.body, 'm', 'delivery');
    x.delivery.accept();
    await detach(l);
  }
  await close(c);
};
tests['dead-letter'] = async () => {
  const c = await connect(), q = queue('dead-letter');
  await send(c, q, ['m']);
  const l = await receiver(c, q);
  l.add_credit(1);
  (await take(l))[0].delivery.reject();
  const dead = await receiver(c, q + '.dlq');
  dead.add_credit(1);
  const [x] = await take(dead), of = x.message.message_annotations;
  eq([x.message.body, of['x-opt-death-reason'], of['x-opt-death-queue'], of['x-opt-death-count']], ['m', 'rejected', q, 1], 'dead letter');
  eq(of['x-opt-deaths'].length, 1, 'deaths');
  const { queue: of_queue, reason, count, time } = of['x-opt-deaths'][0];
  eq([of_queue, reason, count, Number(time)], [q, 'rejected', 1, Number(of['x-opt-death-time'])], 'its history');
  x.delivery.accept();
  await close(c);
};
// asks the node $management
async function operator(c) {
  const requests = await sender(c, '$management'), answers = await receiver(c, '$management', { target: { address: 'answers' } });
  answers.add_credit(100);
  const ask = async (operation, properties = {}, body = {}) => {
    eq(await outcomeOf(requests, { message_id: 'mine', reply_to: 'answers', application_properties: { operation, ...properties }, body }), 'accepted', 'outcome of a request');
    const [x] = await take(answers);
    x.delivery.accept();
    eq(x.message.correlation_id, 'mine', 'correlation-id');
    return { status: x.message.application_properties.statusCode, body: x.message.body, told: x.message.application_properties };
  };
  return ask;
}
// a queue with these settings, made by way of the management node
async function made(c, name, settings) {
  const ask = await operator(c), q = queue(name + '-made'), { status, body } = await ask('CREATE', { type: 'queue', name: q }, settings);
  assert([200, 201].includes(status), JSON.stringify(body));
  return q;
}
tests['management'] = async () => {
  const c = await connect(), ask = await operator(c), q = queue('management-made'), x = 'interop-node-made';
  const of = (type, name) => ({ type, name }), status = async (...all) => (await ask(...all)).status;
  eq(await status('CREATE', of('queue', q), { max_length: 3, 'x-overflow': 'drop-head' }), 201, 'new queue');
  eq(await status('CREATE', of('queue', q), { max_length: 3, overflow: 'drop-head' }), 200, 'the same again');
  const conflict = await ask('CREATE', of('queue', q), { max_length: 4 });
  eq([conflict.status, conflict.body.reason, conflict.body.field], [409, 'conflict', 'max_length'], 'another one of that name');
  eq(await status('CREATE', of('exchange', x), { type: 'topic' }), 201, 'new exchange');
  const binding = { exchange: x, queue: q, routing_key: 'a.#' };
  eq(await status('BIND', {}, binding), 201, 'binding');
  await send(c, `/exchanges/${x}/a.b`, ['m']);
  eq((await ask('READ', of('queue', q))).body.depth, 1, 'depth');
  const { body, told } = await ask('QUERY', { entityType: 'binding' }, { queue: q, attributeNames: ['routing_key'] });
  eq([body.attributeNames, body.results, told.count], [['routing_key'], [['a.#']], 1], 'bindings');
  eq(await status('UNBIND', {}, binding), 204, 'unbound');
  eq((await ask('PURGE', of('queue', q))).body.purged, 1, 'purged');
  for (const [type, name] of [['queue', q], ['exchange', x]]) eq(await status('DELETE', of(type, name)), 204, 'deleted');
  eq(await status('READ', of('queue', q)), 404, 'gone');
  eq(await status('FROB', of('queue', q)), 501, 'no operation');
  eq(await status('CREATE', of('queue', q), { max_lenght: 3 }), 400, 'no setting');
  await close(c);
};
// held too long, a message goes back and counts the attempt; a receiver that says it is at work keeps it
tests['lock-timeout'] = async () => {
  const c = await connect(), q = await made(c, 'lock-timeout', { lock_timeout_ms: 1000 });
  await send(c, q, ['m']);
  const l = await receiver(c, q);
  l.add_credit(1);
  const [{ delivery }] = await take(l);
  for (let i = 0; i < 4; i++) {
    delivery.update(false, rhea.message.received({ section_number: 0, section_offset: 0 }).described());
    await sleep(400);
  }
  assert(!delivery.remote_settled, 'lost while at work');
  eq(await left(c, q), [], 'held for longer than the timeout');
  await until(() => delivery.remote_settled, 'end of the lock');
  await detach(l);
  eq(await left(c, q), [['m', 1]], 'left on the queue');
  await close(c);
};
tests['delay'] = async () => {
  const c = await connect(), q = queue('delay'), s = await sender(c, q), began = Date.now();
  const annotated = [['later', { 'x-opt-delivery-delay': 900 }], ['then', { 'x-opt-delivery-time': rhea.types.wrap_timestamp(began + 600) }], ['now', {}]];
  for (const [body, message_annotations] of annotated) eq(await outcomeOf(s, { body, message_annotations }), 'accepted', 'outcome');
  const l = await receiver(c, q);
  l.add_credit(3);
  for (const [body, at] of [['now', 0], ['then', 600], ['later', 900]]) {
    const [x] = await take(l);
    x.delivery.accept();
    eq(x.message.body, body, 'order');
    // clocks of whole milliseconds stand between
    assert(Date.now() - began > at - 5, body + ' came early');
  }
  await close(c);
};
tests['deduplication'] = async () => {
  const c = await connect(), q = queue('deduplication'), s = await sender(c, q);
  for (const [body, key] of [[1, 'a'], [2, 'a'], [3, 'b'], [4, null]]) {
    eq(await outcomeOf(s, { body, ...(key && { message_annotations: { 'x-opt-dedup-id': key } }) }), 'accepted', 'outcome');
  }
  eq((await left(c, q)).map(([b]) => b), [1, 3, 4], 'on the queue');
  await close(c);
};
// one is served; when it goes, what it held comes first to the next
tests['single-active'] = async () => {
  const c = await connect(), q = await made(c, 'single-active', { single_active_consumer: true });
  const first = await receiver(c, q), second = await receiver(c, q);
  first.add_credit(1);
  second.add_credit(10);
  await send(c, q, range(3));
  const [x] = await take(first);
  eq(x.message.body, 0, 'to the active one');
  await sleep(300);
  eq(second.seen.inbox.length, 0, 'deliveries to the one that stands by');
  await detach(first);
  const got = await take(second, 3);
  eq(got.map((y) => y.message.body), [0, 1, 2], 'after the hand-over');
  got.forEach((y) => y.delivery.accept());
  await close(c);
};
// of one key one message is out at a time, of others as many as there is credit for
tests['ordering-key'] = async () => {
  const c = await connect(), q = queue('ordering-key'), s = await sender(c, q);
  for (const [body, group_id] of [['a1', 'a'], ['a2', 'a'], ['b1', 'b'], ['none', undefined]]) eq(await outcomeOf(s, { body, group_id }), 'accepted', 'outcome');
  const ls = [await receiver(c, q), await receiver(c, q)];
  ls.forEach((l) => l.add_credit(10));
  const arrived = () => ls.reduce((n, l) => n + l.seen.inbox.length, 0), all = () => ls.flatMap((l) => l.seen.inbox.splice(0));
  await until(() => arrived() >= 3, 'three deliveries');
  await sleep(300);
  const got = all();
  eq(got.map((x) => x.message.body).sort(), ['a1', 'b1', 'none'], 'out at a time');
  got.filter((x) => x.message.body !== 'a1').forEach((x) => x.delivery.accept());
  await sleep(100);  // rhea tells the outcomes of one turn as one range
  got.find((x) => x.message.body === 'a1').delivery.release();
  for (const want of ['a1', 'a2']) {
    await until(() => arrived() >= 1, want);
    const next = all();
    eq(next.map((x) => x.message.body), [want], 'order of the key');
    next[0].delivery.accept();
  }
  await close(c);
};
// every group has a copy of each message, its members share it, and its progress outlives them
tests['consumer-group'] = async () => {
  const c = await connect(), q = queue('consumer-group'), group = (name) => `/queues/${q}/groups/${name}`, bodies = async (address) => (await left(c, address)).map(([b]) => b);
  for (const name of ['billing', 'shipping']) await detach(await receiver(c, group(name)));
  await send(c, q, range(4));
  const l = await receiver(c, group('billing'));
  l.add_credit(2);
  const got = await take(l, 2);
  eq(got.map((x) => x.message.body), [0, 1], 'billing');
  got.forEach((x) => x.delivery.accept());
  await detach(l);
  eq(await bodies(group('billing')), [2, 3], 'to the next member');
  eq(await bodies(group('shipping')), [0, 1, 2, 3], 'to the other group');
  eq(await bodies(q), [0, 1, 2, 3], 'to those without a group');
  await close(c);
};

async function put() {
  const c = await connect(), l = await sender(c, args.queue);
  for (const want of values.load()) eq(await outcomeOf(l, values.encode(want)), 'accepted', want.name);
  await close(c);
}
async function check() {
  const c = await connect(), l = await receiver(c, args.queue), bad = [], wants = values.load();
  l.add_credit(wants.length);
  for (const want of wants) {
    const [x] = await take(l);
    bad.push(...values.differences(want, x.message, x.message.raw).map((s) => `${want.name}: ${s}`));
    x.delivery.accept();
  }
  await close(c);
  assert(!bad.length, bad.join('; '));
}
async function main() {
  if (positionals[0] === 'put') return put();
  if (positionals[0] === 'check') return check();
  assert.strictEqual(positionals[0], 'test', 'test, put or check');
  for (const [name, f] of Object.entries(tests)) {
    if (args.only && !args.only.split(',').includes(name)) continue;
    try { await f(); console.log('PASS node ' + name); } catch (e) { console.log(`FAIL node ${name}: ${String(e.stack && e.name !== 'Error' && !e.message ? e.stack : e.message || e.description || e).replace(/\s+/g, ' ')}`); }
  }
}
main().then(() => process.exit(0), (e) => { console.error(e.message || e); process.exit(1); });
