"""The messages of messages.json in Qpid Proton's types, both ways.

A value in that file is a pair [type, value]. `native` turns it into what an application hands to Proton, and `tagged`
turns what Proton hands to an application back into the pair, so that a lost type is a difference and not an accident.
Bodies of several sections cannot be said with `proton.Message`; those are written and read section by section here.
"""
import json
import os
import struct
import uuid

import proton
from proton import UNDESCRIBED, Array, Data, Described, Message, symbol

INTEGERS = dict(ubyte=proton.ubyte, ushort=proton.ushort, uint=proton.uint, ulong=proton.ulong, byte=proton.byte,
                short=proton.short, int=proton.int32, long=int, timestamp=proton.timestamp)
ARRAYS = dict(int=Data.INT, string=Data.STRING, symbol=Data.SYMBOL)
PROPERTIES = dict(message_id="id", user_id="user_id", to="address", subject="subject", reply_to="reply_to",
                  correlation_id="correlation_id", content_type="content_type", content_encoding="content_encoding",
                  group_id="group_id", group_sequence="group_sequence", reply_to_group_id="reply_to_group_id")
TIMES = dict(absolute_expiry_time="expiry_time", creation_time="creation_time")
DATA, SEQUENCE, VALUE = 0x75, 0x76, 0x77


def load():
    """All messages of the shared file, in its order."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "messages.json"), encoding="utf-8") as f:
        return json.load(f)


def native(pair):
    kind, value = pair
    if kind in INTEGERS: return INTEGERS[kind](int(value))
    if kind == "float": return proton.float32(value)
    if kind == "char": return proton.char(chr(value))
    if kind == "symbol": return symbol(value)
    if kind == "uuid": return uuid.UUID(value)
    if kind == "binary": return bytes.fromhex(value)
    if kind == "list": return [native(x) for x in value]
    if kind == "map": return {native(k): native(v) for k, v in value}
    if kind == "array": return Array(UNDESCRIBED, ARRAYS[value[0]], *[native([value[0], x]) for x in value[1]])
    if kind == "described": return Described(native(value[0]), native(value[1]))
    assert kind in ("null", "boolean", "double", "string"), kind
    return value


def tagged(v):
    if v is None: return ["null", None]
    if isinstance(v, bool): return ["boolean", v]
    for kind, cls in INTEGERS.items():
        if type(v) is cls: return [kind, str(int(v)) if kind in ("ulong", "long", "timestamp") else int(v)]
    if isinstance(v, proton.float32): return ["float", float(v)]
    if isinstance(v, float): return ["double", v]
    if isinstance(v, proton.char): return ["char", ord(v)]
    if isinstance(v, symbol): return ["symbol", str(v)]
    if isinstance(v, str): return ["string", v]
    if isinstance(v, uuid.UUID): return ["uuid", v.hex]
    if isinstance(v, (bytes, memoryview)): return ["binary", bytes(v).hex()]
    if isinstance(v, Array):
        kind = next(k for k, t in ARRAYS.items() if t == v.type)
        return ["array", [kind, [tagged(x)[1] for x in v.elements]]]
    if isinstance(v, Described): return ["described", [tagged(v.descriptor), tagged(v.value)]]
    if isinstance(v, list): return ["list", [tagged(x) for x in v]]
    if isinstance(v, dict): return ["map", [[tagged(k), tagged(x)] for k, x in v.items()]]
    raise TypeError(f"{type(v)} has no place here")


def _section(code, value):
    d = Data()
    d.put_described()
    d.enter()
    d.put_ulong(code)
    d.put_object(value)
    d.exit()
    return d.encode()


def encode(want):
    """The encoded message as Proton's own Message makes it, with the body's sections behind it where there are several."""
    m = Message()
    for key, attribute in PROPERTIES.items():
        if key in want.get("properties", {}): setattr(m, attribute, native(want["properties"][key]))
    for key, attribute in TIMES.items():
        if key in want.get("properties", {}): setattr(m, attribute, int(want["properties"][key][1]) / 1000)
    for key, pair in want.get("header", {}).items(): setattr(m, key, native(pair))
    if "application_properties" in want: m.properties = {k: native(v) for k, v in want["application_properties"]}
    if "message_annotations" in want: m.annotations = {symbol(k): native(v) for k, v in want["message_annotations"]}
    kind, body = want["body"]
    if kind == "value":
        m.body, m.inferred = native(body), False
        if body[0] == "null": return m.encode() + _section(VALUE, None)     # Proton leaves the body out for None
        return m.encode()
    if kind == "data" and len(body) == 1: m.body, m.inferred = bytes.fromhex(body[0]), True
    elif kind == "sequence" and len(body) == 1: m.body, m.inferred = [native(x) for x in body[0]], True
    else:
        parts = [bytes.fromhex(x) for x in body] if kind == "data" else [[native(x) for x in s] for s in body]
        return m.encode() + b"".join(_section(DATA if kind == "data" else SEQUENCE, p) for p in parts)
    return m.encode()


def _body(raw):
    """The body sections of an encoded message as the shared file writes them."""
    code, parts = None, []
    while raw:
        d = Data()
        raw = raw[d.decode(raw):]
        d.rewind()
        d.next()
        section = d.get_object()
        if section.descriptor in (DATA, SEQUENCE, VALUE):
            assert code in (None, section.descriptor), "two kinds of body in one message"
            code = section.descriptor
            # a copy: Proton hands out a view into the buffer of `d`, which goes with it
            parts.append(bytes(section.value) if code == DATA else section.value)
    if code == DATA: return ["data", [x.hex() for x in parts]]
    if code == SEQUENCE: return ["sequence", [[tagged(x) for x in s] for s in parts]]
    assert len(parts) <= 1, "several value sections"
    return ["value", tagged(parts[0])] if parts else None


def differences(want, raw):
    """What differs between a message of the file and the bytes that came: a list of sentences."""
    m, bad = Message(), []
    m.decode(raw)

    def check(what, got, expected):
        if got != expected: bad.append(f"{what}: got {str(got)[:200]}, want {str(expected)[:200]}")
    for key, attribute in PROPERTIES.items():
        got, expected = getattr(m, attribute), want.get("properties", {}).get(key)
        if expected is None:
            # "None": Proton makes that symbol of an absent content-type
            if got not in (None, "", b"", 0, "None"): bad.append(f"{key}: got {got!r}, was never sent")
        elif key in ("message_id", "correlation_id"):
            # Proton hands ulong ids out as plain int
            check(key, ["ulong", str(got)] if isinstance(got, int) else tagged(got), expected)
        elif key == "user_id": check(key, bytes(got).hex(), expected[1])
        elif key == "group_sequence": check(key, struct.unpack("!I", struct.pack("!i", got))[0] if got < 0 else int(got), expected[1])
        else: check(key, str(got) if got is not None else None, expected[1])
    for key, attribute in TIMES.items():
        expected = want.get("properties", {}).get(key, [None, "0"])[1]
        check(key, str(round(getattr(m, attribute) * 1000)), expected)
    for key, pair in want.get("header", {}).items(): check(key, getattr(m, key), pair[1])
    check("application-properties", sorted([k, tagged(v)] for k, v in (m.properties or {}).items()),
          sorted(want.get("application_properties", [])))
    for key, pair in want.get("message_annotations", []):
        got = (m.annotations or {}).get(symbol(key))
        check(f"annotation {key}", tagged(got), pair)
    check("body", _body(raw), want["body"])
    return bad
