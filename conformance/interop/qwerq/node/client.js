// Drives the QWER-Q port of a broker with protobufjs, in both layouts of frames.
//
//     client.js DOC PROTO LAYOUT PORT TOKEN_PORT [TEST,TEST...]
//
// Written from docs/qwer-q.md and the .proto file that it names. Prints `PASS` or `FAIL` with `node`, the layout and the
// test's name for each.
'use strict';

const assert = require('node:assert').strict;
const fs = require('node:fs');
const net = require('node:net');
const protobuf = require('protobufjs');

const [DOC, PROTO, LAYOUT, PORT, TOKEN_PORT, ONLY] = process.argv.slice(2);
const IS_DOCUMENTED = LAYOUT === 'documented';
const WAIT_MS = 20_000;
const types = protobuf.parse(fs.readFileSync(PROTO, 'utf8'), { keepCase: true }).root;
const opcodes = new Map();
const PAYLOADS = {
  PUBLISH_ACK: 'PublishResponse', MESSAGE: 'Message', ERROR: 'ErrorResponse',
  EXTEND_VISIBILITY_ACK: 'ExtendVisibilityResponse', SCHEMA_RESPONSE: 'SchemaRegisterResponse',
  CALL_RESPONSE: 'CallResponse', SCHEMA_LIST_RESPONSE: 'SchemaListResponse',
  QUEUE_LIST_RESPONSE: 'QueueListResponse', AUTH_RESPONSE: 'AuthResponse',
  QUEUE_DECLARED: 'QueueDeclareResponse', QUEUE_DELETED: 'QueueDeleteResponse',
  QUEUE_PURGED: 'QueuePurgeResponse', QUEUE_STATS_RESPONSE: 'QueueStatsResponse',
  PUBLISH_BATCH_ACK: 'PublishBatchResponse', PONG: 'PingResponse', PING: 'PingRequest',
  DONE: 'DoneResponse', CONSUMER_CLOSED: 'ConsumerClosed',
};
const PUSHED = ['MESSAGE', 'PING', 'CONSUMER_CLOSED'];

function readOpcodes() {
  for (const line of fs.readFileSync(DOC, 'utf8').split('\n')) {
    const row = /^\| 0x([0-9A-F]{2}) \| ([A-Z_]+) \| [CB]/.exec(line);
    if (row) opcodes.set(row[2], parseInt(row[1], 16));
  }
}

const nameOf = (opcode) => [...opcodes].find(([, number]) => number === opcode)[0];
const type = (name) => types.lookupType(`qwerq.${name}`);

function encode(name, fields) {
  const wrong = type(name).verify(fields);
  if (wrong) throw new Error(`${name}: ${wrong}`);
  return type(name).encode(type(name).create(fields)).finish();
}

class Refused extends Error {
  constructor(error) {
    super(`${error.code} ${error.message}`);
    [this.code, this.text] = [error.code, error.message];
  }
}

// One connection.
class Client {
  constructor(port) {
    this.bytes = Buffer.alloc(0);
    this.frames = [];
    this.inbox = [];
    this.waiting = null;
    this.isEnded = false;
    this.nextId = 1;
    this.socket = net.connect(Number(port || PORT), '127.0.0.1');
    this.socket.setNoDelay(true);
    this.socket.on('data', (more) => { this.bytes = Buffer.concat([this.bytes, more]); this.cut(); });
    const end = () => { this.isEnded = true; this.wake(); };
    this.socket.on('end', end);
    this.socket.on('error', end);
  }

  close() { this.socket.destroy(); }

  wake() {
    if (this.waiting) this.waiting();
  }

  // Takes whole frames out of what came.
  cut() {
    for (;;) {
      if (this.bytes.length < 6) break;
      let at = 6;
      let [opcode, length, correlation] = [this.bytes[5], this.bytes.readUInt32BE(0) - 2, null];
      if (IS_DOCUMENTED) {
        [opcode, length] = [this.bytes[0], this.bytes.readUInt32BE(2)];
        if (this.bytes[1] & 1) {
          if (this.bytes.length < 10) break;
          correlation = this.bytes.readUInt32BE(6);
          at = 10;
        }
      }
      if (this.bytes.length < at + length) break;
      const name = nameOf(opcode);
      const message = type(PAYLOADS[name]).decode(this.bytes.subarray(at, at + length));
      this.frames.push({ name, message, correlation });
      this.bytes = this.bytes.subarray(at + length);
    }
    this.wake();
  }

  send(name, payload, confirm = false) {
    let head;
    let correlation = null;
    if (IS_DOCUMENTED) {
      correlation = this.nextId;
      this.nextId += 1;
      head = Buffer.alloc(10);
      head[0] = opcodes.get(name);
      head[1] = confirm ? 3 : 1;
      head.writeUInt32BE(payload.length, 2);
      head.writeUInt32BE(correlation, 6);
    } else {
      head = Buffer.alloc(6);
      head.writeUInt32BE(payload.length + 2, 0);
      head[4] = 1;
      head[5] = opcodes.get(name);
    }
    this.socket.write(Buffer.concat([head, payload]));
    return correlation;
  }

  async read() {
    const until = Date.now() + WAIT_MS;
    while (this.frames.length === 0) {
      if (this.isEnded) throw new Error('the broker closed');
      const left = until - Date.now();
      if (left <= 0) throw new Error('the broker says nothing');
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, left);
        this.waiting = () => { clearTimeout(timer); resolve(); };
      });
      this.waiting = null;
    }
    return this.frames.shift();
  }

  async answer(correlation = null) {
    for (;;) {
      const frame = await this.read();
      if (PUSHED.includes(frame.name) && frame.correlation === null) {
        this.inbox.push(frame);
        continue;
      }
      assert.equal(frame.correlation, correlation);
      if (frame.name === 'ERROR') throw new Refused(frame.message);
      return frame.message;
    }
  }

  ask(name, kind, fields = {}) {
    return this.answer(this.send(name, encode(kind, fields)));
  }

  askRaw(name, payload) {
    return this.answer(this.send(name, payload));
  }

  // A request that is answered on request only, and by the layout that can.
  async order(name, kind, fields) {
    const correlation = this.send(name, encode(kind, fields), true);
    if (IS_DOCUMENTED) await this.answer(correlation);
  }

  async message() {
    for (;;) {
      const at = this.inbox.findIndex((frame) => frame.name === 'MESSAGE');
      if (at >= 0) return this.inbox.splice(at, 1)[0].message;
      const frame = await this.read();
      assert.equal(frame.correlation, null);
      this.inbox.push(frame);
    }
  }

  publish(queue, payload = Buffer.alloc(0), more = {}) {
    return this.ask('PUBLISH', 'PublishRequest', { queue, payload, ...more });
  }

  consume(queue, more = {}) { return this.order('CONSUME', 'ConsumeRequest', { queue, ...more }); }

  ack(message) {
    const which = IS_DOCUMENTED ? { delivery_id: message.delivery_id } : { message_id: message.message_id };
    return this.order('ACK', 'AckRequest', which);
  }

  nack(message, requeue) {
    const which = IS_DOCUMENTED ? { delivery_id: message.delivery_id } : { message_id: message.message_id };
    return this.order('NACK', 'NackRequest', { ...which, requeue });
  }

  register(queue, fields) {
    return this.ask('SCHEMA_REGISTER', 'SchemaRegisterRequest', { queue, ...fields });
  }

  async ended() {
    while (!this.isEnded) {
      await new Promise((resolve) => { this.waiting = resolve; setTimeout(resolve, 1000); });
    }
    this.waiting = null;
    assert.equal(this.frames.length, 0);
  }
}

async function refused(code, text, act) {
  try {
    await act();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    assert.equal(error.code, code, error.message);
    assert.ok(error.text.includes(text), `${error.text} does not contain ${text}`);
    return;
  }
  throw new Error(`not refused with ${code}`);
}

const text = (bytes) => Buffer.from(bytes).toString('utf8');
const bytes = (word) => Buffer.from(word, 'utf8');

async function listed(client, queue) {
  const all = (await client.ask('QUEUE_LIST', 'QueueListRequest')).queues;
  const found = all.filter((entry) => entry.name === queue);
  assert.equal(found.length, 1);
  return [found[0].message_count, found[0].in_flight_count];
}

const SHOP = `syntax = "proto3";
package shop;
message Order { int64 id = 1; repeated Line lines = 2; map<string, string> notes = 3; }
message Line { string sku = 1; double price = 2; }
`;

// What another implementation encodes passes, and what it does not know how to decode is refused.
async function tryOrders(client, queue) {
  const order = protobuf.parse(SHOP).root.lookupType('shop.Order');
  const right = order.encode(order.create({ id: -7, lines: [{ sku: 'x', price: 1.5 }, { sku: 'ü' }], notes: { a: 'b' } })).finish();
  await client.publish(queue, right);
  await client.publish(queue);
  const prefix = 'schema validation failed: message validation failed: ';
  await refused(5, `${prefix}lines[1].sku: `, () => client.publish(queue, Buffer.from([0x12, 0, 0x12, 2, 8, 1])));
  const cut = right.subarray(0, right.length - 1);
  assert.throws(() => order.decode(cut));
  await refused(5, prefix, () => client.publish(queue, cut));
  await refused(5, prefix, () => client.ask('CALL', 'CallRequest', { queue, payload: Buffer.from([8]) }));
}

const tests = {
  async fields(queue) {
    const client = new Client();
    const made = await client.publish(queue, Buffer.from([0, 255]), { headers: { k: 'v', 'ü': '' }, ordering_key: 'o' });
    assert.equal(made.message_id.length, 26);
    assert.equal((await client.publish(queue, undefined, { message_id: 'mine' })).message_id, 'mine');
    assert.deepEqual(await listed(client, queue), [2, 0]);
    await client.consume(queue, { prefetch: 5 });
    const [first, second] = [await client.message(), await client.message()];
    assert.deepEqual([first.message_id, second.message_id], [made.message_id, 'mine']);
    assert.deepEqual([...first.payload], [0, 255]);
    assert.deepEqual({ ...first.headers }, { k: 'v', 'ü': '' });
    assert.deepEqual([first.queue, first.attempt, first.ordering_key], [queue, 1, 'o']);
    assert.equal(Number(first.delivery_id) > 0, IS_DOCUMENTED);
    await client.ack(first);
    await client.ack(second);
    assert.deepEqual(await listed(client, queue), [0, 0]);
    client.close();
  },

  async redelivery(queue) {
    let client = new Client();
    await client.publish(queue, bytes('again'), { message_id: 'a' });
    await client.consume(queue);
    let message = await client.message();
    assert.equal(message.attempt, 1);
    await client.nack(message, true);
    assert.equal((await client.message()).attempt, 2);
    client.close();
    client = new Client();
    await client.consume(queue, { visibility_timeout: 1 });
    assert.equal((await client.message()).attempt, 3);
    message = await client.message();
    assert.deepEqual([message.attempt, text(message.payload)], [4, 'again']);
    await client.ack(message);
    await refused(4, 'message not found', async () => {
      await client.ack(message);
      if (!IS_DOCUMENTED) await client.answer();
    });
    client.close();
  },

  async 'dead-letter'(queue) {
    const client = new Client();
    await client.publish(queue, bytes('bad'), { headers: { k: 'v' } });
    await client.consume(queue);
    await client.nack(await client.message(), false);
    await client.consume(`${queue}.dlq`);
    const message = await client.message();
    assert.deepEqual([message.queue, text(message.payload), message.headers.k], [`${queue}.dlq`, 'bad', 'v']);
    await client.ack(message);
    client.close();
  },

  async extend(queue) {
    const client = new Client();
    await client.publish(queue, bytes('slow'), { message_id: 's' });
    await client.consume(queue, { visibility_timeout: 2 });
    const message = await client.message();
    const fields = { message_id: 's', extension_seconds: 600 };
    const extended = await client.ask('EXTEND_VISIBILITY', 'ExtendVisibilityRequest', fields);
    assert.ok(Number(extended.new_visible_at) > Number(message.published_at) + 500_000);
    fields.message_id = 'other';
    await refused(4, 'message not found', () => client.ask('EXTEND_VISIBILITY', 'ExtendVisibilityRequest', fields));
    await client.ack(message);
    client.close();
  },

  async errors(queue) {
    let client = new Client();
    opcodes.set('NOTHING', 0x7f);
    await refused(1, 'unknown opcode', () => client.askRaw('NOTHING', Buffer.alloc(0)));
    await refused(1, 'unknown opcode', () => client.askRaw('PUBLISH_ACK', Buffer.alloc(0)));
    await refused(2, 'invalid request', () => client.askRaw('PUBLISH', Buffer.from([0x0a, 5])));
    await refused(2, 'invalid request', () => client.askRaw('PUBLISH', Buffer.from([0x0a, 1, 0xff])));
    await refused(7, 'schema not found', () => client.ask('SCHEMA_GET', 'SchemaRegisterRequest', { queue }));
    if (IS_DOCUMENTED) {
      await refused(50, '', () => client.ask('QUEUE_STATS', 'QueueStatsRequest', { queue }));
      assert.equal(text((await client.ask('PING', 'PingRequest', { data: bytes('x') })).data), 'x');
    }
    await client.publish(queue, bytes('fine'));
    client.close();
    client = new Client();
    client.socket.write(Buffer.from(IS_DOCUMENTED ? [1, 0, 0x7f, 255, 255, 255] : [0, 0, 0, 1, 1]));
    await client.ended();
  },

  async pipeline(queue) {
    const client = new Client();
    const wanted = new Map();
    for (let n = 0; n < 500; n += 1) {
      const id = client.send('PUBLISH', encode('PublishRequest', { queue, message_id: `m${n}` }));
      wanted.set(IS_DOCUMENTED ? id : n, `m${n}`);
    }
    const got = new Map();
    for (let n = 0; n < 500; n += 1) {
      const frame = await client.read();
      assert.equal(frame.name, 'PUBLISH_ACK');
      got.set(IS_DOCUMENTED ? frame.correlation : n, frame.message.message_id);
    }
    assert.deepEqual(got, wanted);
    if (IS_DOCUMENTED) {
      const messages = [{ queue, message_id: 'b' }, { queue: 'amq.not-allowed' }];
      const { results } = await client.ask('PUBLISH_BATCH', 'PublishBatchRequest', { messages });
      assert.deepEqual(results.map((one) => [one.code, one.message_id]), [[0, 'b'], [52, '']]);
      assert.equal(Number((await client.ask('QUEUE_PURGE', 'QueuePurgeRequest', { queue })).message_count), 501);
      assert.equal(Number((await client.ask('QUEUE_DELETE', 'QueueDeleteRequest', { queue })).message_count), 0);
    }
    client.close();
  },

  async call(queue) {
    const [asker, server] = [new Client(), new Client()];
    await server.consume(queue);
    const request = { queue, payload: bytes('ping'), headers: { k: 'v' }, timeout_ms: 10_000 };
    const correlation = asker.send('CALL', encode('CallRequest', request));
    const message = await server.message();
    assert.deepEqual([text(message.payload), message.headers.k], ['ping', 'v']);
    const headers = { correlation_id: message.headers.correlation_id, more: '1' };
    await server.publish(message.headers.reply_to, bytes('pong'), { headers });
    await server.ack(message);
    const answer = await asker.answer(correlation);
    assert.deepEqual([text(answer.payload), { ...answer.headers }], ['pong', headers]);
    await refused(8, 'call timeout', () => asker.ask('CALL', 'CallRequest', { queue, timeout_ms: 300 }));
    asker.close();
    server.close();
  },

  async 'schema-text'(queue) {
    const client = new Client();
    const made = await client.register(queue, { proto_source: SHOP, message_type: 'shop.Order' });
    assert.equal(made.version, 1);
    await tryOrders(client, queue);
    const wrong = '\nmessage M { strin a = 1; }';
    await refused(6, 'schema.proto:2:', () => client.register(queue, { proto_source: wrong }));
    await refused(6, 'message type not found', () => client.register(queue, { proto_source: SHOP, message_type: 'Order' }));
    client.close();
  },

  // What the broker made of a text, registered under another name.
  async 'schema-descriptor'(queue) {
    const client = new Client();
    await client.register(`${queue}-text`, { proto_source: SHOP, message_type: 'shop.Order' });
    const found = await client.ask('SCHEMA_GET', 'SchemaRegisterRequest', { queue: `${queue}-text` });
    assert.equal(found.version, 1);
    const descriptor = IS_DOCUMENTED ? found.descriptor : require('./descriptor.js').of();
    const made = await client.register(queue, { descriptor, message_type: 'shop.Order' });
    assert.equal(made.version, 1);
    await tryOrders(client, queue);
    const cut = descriptor.subarray(0, descriptor.length - 3);
    await refused(6, 'invalid descriptor', () => client.register(queue, { descriptor: cut, message_type: 'shop.Order' }));
    const { schemas } = await client.ask('SCHEMA_LIST', 'SchemaListRequest');
    const entry = schemas.filter((one) => one.queue === queue).map((one) => [one.message_type, one.version]);
    assert.deepEqual(entry, [['shop.Order', 1]]);
    client.close();
  },

  async 'schema-compatibility'(queue) {
    const client = new Client();
    const more = { message_type: 'shop.Order' };
    await client.register(queue, { proto_source: SHOP, ...more });
    const narrow = SHOP.replace('int64 id', 'int32 id');
    await refused(6, 'shop.Order.id', () => client.register(queue, { proto_source: narrow, ...more }));
    const wide = SHOP.replace('string sku = 1;', 'string sku = 1; string note = 3;');
    const second = await client.register(queue, { proto_source: wide, refuse_unknown_fields: true, ...more });
    assert.equal(second.version, 2);
    await refused(5, 'the schema has no field 9', () => client.publish(queue, Buffer.from([0x48, 1])));
    const third = await client.register(queue, { proto_source: narrow, compatibility: 1, ...more });
    assert.equal(third.version, 3);
    client.close();
  },

  async auth(queue) {
    let client = new Client(TOKEN_PORT);
    await refused(9, 'authentication required', () => client.publish(queue));
    await client.ended();
    client = new Client(TOKEN_PORT);
    let answer = await client.ask('AUTH', 'AuthRequest', { token: 'wrong' });
    assert.deepEqual([answer.success, answer.message], [false, 'invalid token']);
    await client.ended();
    client = new Client(TOKEN_PORT);
    answer = await client.ask('AUTH', 'AuthRequest', { token: 's3cret' });
    assert.deepEqual([answer.success, answer.message], [true, 'authenticated']);
    await client.publish(queue);
    client.close();
  },
};

async function main() {
  readOpcodes();
  const wanted = ONLY ? ONLY.split(',') : null;
  for (const [name, test] of Object.entries(tests)) {
    if (wanted && !wanted.includes(name)) continue;
    try {
      await test(`node-${LAYOUT}-${name}`);
      console.log(`PASS node ${LAYOUT} ${name}`);
    } catch (error) {
      console.error(error);
      console.log(`FAIL node ${LAYOUT} ${name}: ${String(error.message).split('\n').join(' ')}`);
    }
  }
  process.exit(0);
}

main();
