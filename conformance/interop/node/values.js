'use strict';
// The messages of messages.json in rhea's types, both ways.
//
// A value in that file is a pair [type, value]. `native` turns it into what an application hands to rhea. rhea gives
// received values to the application as plain JavaScript, which loses the AMQP type, so `sections` reads the bytes of a
// message with rhea's own codec and `tagged` turns its typed values back into pairs.
const fs = require('fs');
const path = require('path');
const { types: T, message: M } = require('rhea');

const ARRAYS = { int: 0x71, string: 0xb1, symbol: 0xb3 };
const KINDS = {
  Null: 'null', Boolean: 'boolean', True: 'boolean', False: 'boolean', Ubyte: 'ubyte', Ushort: 'ushort',
  Uint: 'uint', SmallUint: 'uint', Uint0: 'uint', Ulong: 'ulong', SmallUlong: 'ulong', Ulong0: 'ulong',
  Byte: 'byte', Short: 'short', Int: 'int', SmallInt: 'int', Long: 'long', SmallLong: 'long', Float: 'float',
  Double: 'double', CharUTF32: 'char', Timestamp: 'timestamp', Uuid: 'uuid', Vbin8: 'binary', Vbin32: 'binary',
  Str8: 'string', Str32: 'string', Sym8: 'symbol', Sym32: 'symbol', List0: 'list', List8: 'list', List32: 'list',
  Map8: 'map', Map32: 'map', Array8: 'array', Array32: 'array',
};
const PROPERTIES = ['message_id', 'user_id', 'to', 'subject', 'reply_to', 'correlation_id', 'content_type', 'content_encoding',
  'absolute_expiry_time', 'creation_time', 'group_id', 'group_sequence', 'reply_to_group_id'];
const DATA = 0x75, SEQUENCE = 0x76, VALUE = 0x77;

const load = () => JSON.parse(fs.readFileSync(path.join(__dirname, '..', 'messages.json'), 'utf8'));

// JavaScript numbers are exact to 2^53; rhea takes and gives eight bytes beyond that.
function wide(text, signed) {
  const b = Buffer.alloc(8);
  if (signed) b.writeBigInt64BE(BigInt(text)); else b.writeBigUInt64BE(BigInt(text));
  return b;
}
const isWide = (text) => !Number.isSafeInteger(Number(text));

function native([kind, v]) {
  switch (kind) {
    case 'null': case 'boolean': case 'string': return v;
    case 'ulong': return isWide(v) ? new T.Ulong(wide(v, false)) : T.wrap_ulong(Number(v));
    case 'long': return isWide(v) ? new T.Long(wide(v, true)) : T.wrap_long(Number(v));
    case 'timestamp': return T.wrap_timestamp(Number(v));
    case 'uuid': return T.wrap_uuid(Buffer.from(v, 'hex'));
    case 'binary': return T.wrap_binary(Buffer.from(v, 'hex'));
    case 'list': return T.wrap_list(v.map(native));
    case 'map': return T.wrap_map_as_map(new Map(v.map(([a, b]) => [native(a), native(b)])));
    case 'array': return T.wrap_array(v[1], ARRAYS[v[0]]);
    case 'described': return T.described(native(v[0]), native(v[1]));
    default: return T['wrap_' + kind](v);      // ubyte ushort uint byte short int float double char symbol
  }
}

function tagged(t) {
  if (t.descriptor) {
    const inner = Object.assign(Object.create(Object.getPrototypeOf(t)), t, { descriptor: undefined });
    return ['described', [tagged(t.descriptor), tagged(inner)]];
  }
  const kind = KINDS[t.type.name], v = t.value;
  switch (kind) {
    case undefined: throw new Error('no pair for ' + t.type.name);
    case 'null': return ['null', null];
    case 'boolean': return ['boolean', Boolean(v)];
    case 'ulong': return [kind, Buffer.isBuffer(v) ? v.readBigUInt64BE().toString() : String(v)];
    case 'long': return [kind, Buffer.isBuffer(v) ? v.readBigInt64BE().toString() : String(v)];
    case 'timestamp': return [kind, String(v instanceof Date ? v.getTime() : v)];
    case 'uuid': case 'binary': return [kind, v.toString('hex')];
    case 'list': return [kind, v.map(tagged)];
    case 'map': return [kind, v.reduce((o, x, i) => (i % 2 ? o[o.length - 1].push(tagged(x)) : o.push([tagged(x)]), o), [])];
    case 'array': return [kind, [Object.keys(ARRAYS).find((k) => KINDS[T.by_code[t.array_constructor.typecode].name] === k), v.map((x) => tagged(x)[1])]];
    default: return [kind, v];
  }
}

// what an application hands to rhea's send()
function encode(want) {
  const m = {};
  for (const [k, pair] of Object.entries(want.properties || {})) {
    if (k === 'message_id' || k === 'correlation_id') m[k] = native(pair);
    else if (k.endsWith('_time')) m[k] = new Date(Number(pair[1]));
    else m[k] = pair[0] === 'binary' ? Buffer.from(pair[1], 'hex') : pair[1];
  }
  for (const [k, pair] of Object.entries(want.header || {})) m[k] = pair[1];
  for (const k of ['application_properties', 'message_annotations'])
    if (want[k]) m[k] = Object.fromEntries(want[k].map(([a, b]) => [a, native(b)]));
  const [kind, body] = want.body;
  if (kind === 'value') m.body = native(body);
  else {
    const parts = kind === 'data' ? body.map((x) => Buffer.from(x, 'hex')) : body.map((s) => s.map(native));
    if (parts.length > 1) m.body = kind === 'data' ? M.data_sections(parts) : M.sequence_sections(parts);
    else m.body = kind === 'data' ? M.data_section(parts[0]) : M.sequence_section(parts[0]);
  }
  return m;
}

// the sections of an encoded message as [descriptor code, typed value]
function sections(raw) {
  const r = new T.Reader(raw), out = [];
  while (r.remaining()) {
    const s = r.read(), code = Number(s.descriptor.value);
    s.descriptor = undefined;
    out.push([code, s]);
  }
  return out;
}

// What differs between a message of the file and what came (rhea's message, and its bytes): a list of sentences.
function differences(want, m, raw) {
  const bad = [], all = sections(raw);
  const check = (what, got, expected) => {
    const [g, w] = [JSON.stringify(got), JSON.stringify(expected)];
    if (g !== w) bad.push(`${what}: got ${String(g).slice(0, 200)}, want ${String(w).slice(0, 200)}`);
  };
  const of = (code) => (all.find(([c]) => c === code) || [0, { value: [] }])[1].value;
  const properties = of(0x73);
  PROPERTIES.forEach((k, i) => {
    const typed = properties[i], got = typed && typed.value !== null && typed.value !== undefined ? tagged(typed) : undefined;
    check(k, got, (want.properties || {})[k]);
  });
  for (const [k, pair] of Object.entries(want.header || {})) check(k, m[k], pair[1]);
  const map = (code) => of(code).reduce((o, x, i) => (i % 2 ? o[o.length - 1].push(tagged(x)) : o.push([String(x.value)]), o), []).sort();
  check('application-properties', map(0x74), [...(want.application_properties || [])].sort());
  const annotations = map(0x72);
  for (const [k, pair] of want.message_annotations || []) check('annotation ' + k, (annotations.find(([a]) => a === k) || [])[1], pair);
  const body = all.filter(([c]) => c === DATA || c === SEQUENCE || c === VALUE);
  const codes = new Set(body.map(([c]) => c));
  if (codes.size !== 1) bad.push(`body sections of ${codes.size} kinds`);
  else if (codes.has(DATA)) check('body', ['data', body.map(([, t]) => t.value.toString('hex'))], want.body);
  else if (codes.has(SEQUENCE)) check('body', ['sequence', body.map(([, t]) => t.value.map(tagged))], want.body);
  else check('body', ['value', tagged(body[0][1])], want.body);
  return bad;
}

module.exports = { load, encode, differences };
