"""Drives the QWER-Q port of a broker with the protobuf runtime of PyPI, in both layouts of frames.

    client.py DOC LAYOUT PORT TOKEN_PORT [TEST,TEST...]

Written from docs/qwer-q.md alone. Prints `PASS` or `FAIL` with `python`, the layout and the test's name for each.
"""

import socket
import struct
import sys
import traceback

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import messages

M, OP = {}, {}
LAYOUT, PORT, TOKEN_PORT = "", 0, 0
# What answers which request, and the payload of each opcode that a broker sends.
PAYLOADS = {
    "PUBLISH_ACK": "PublishResponse", "MESSAGE": "Message", "ERROR": "ErrorResponse",
    "EXTEND_VISIBILITY_ACK": "ExtendVisibilityResponse", "SCHEMA_RESPONSE": "SchemaRegisterResponse",
    "CALL_RESPONSE": "CallResponse", "SCHEMA_LIST_RESPONSE": "SchemaListResponse",
    "QUEUE_LIST_RESPONSE": "QueueListResponse", "AUTH_RESPONSE": "AuthResponse",
    "QUEUE_DECLARED": "QueueDeclareResponse", "QUEUE_DELETED": "QueueDeleteResponse",
    "QUEUE_PURGED": "QueuePurgeResponse", "QUEUE_STATS_RESPONSE": "QueueStatsResponse",
    "PUBLISH_BATCH_ACK": "PublishBatchResponse", "PONG": "PingResponse", "PING": "PingRequest",
    "DONE": "DoneResponse", "CONSUMER_CLOSED": "ConsumerClosed",
}


def is_documented():
    return LAYOUT == "documented"


def name_of(opcode):
    return next(name for name, number in OP.items() if number == opcode)


class Refused(Exception):
    """An ERROR."""

    def __init__(self, error):
        super().__init__(f"{error.code} {error.message}")
        self.code, self.text = error.code, error.message


class Client:
    """One connection."""

    def __init__(self, port=None):
        self.socket = socket.create_connection(("127.0.0.1", port or PORT), timeout=20)
        self.bytes, self.inbox, self.next_id = b"", [], 1

    def close(self):
        self.socket.close()

    def frame(self, opcode, payload, flags=0, correlation=None):
        if is_documented():
            head = b"" if correlation is None else struct.pack(">I", correlation)
            return struct.pack(">BBI", opcode, flags | (correlation is not None), len(payload)) + head + payload
        return struct.pack(">IBB", len(payload) + 2, 1, opcode) + payload

    def send(self, name, message=None, confirm=False):
        """Sends a request; returns its correlation id where the layout has one."""
        payload = message if isinstance(message, bytes) else message.SerializeToString() if message else b""
        correlation = None
        if is_documented():
            correlation, self.next_id = self.next_id, self.next_id + 1
        self.socket.sendall(self.frame(OP[name], payload, 2 if confirm else 0, correlation))
        return correlation

    def take(self, count):
        while len(self.bytes) < count:
            more = self.socket.recv(65536)
            if not more:
                raise EOFError("the broker closed")
            self.bytes += more
        taken, self.bytes = self.bytes[:count], self.bytes[count:]
        return taken

    def read(self):
        """The next frame: opcode's name, message, correlation id."""
        correlation = None
        if is_documented():
            opcode, flags, length = struct.unpack(">BBI", self.take(6))
            eq(flags & ~1, 0, "flags of the broker")
            if flags & 1:
                correlation = struct.unpack(">I", self.take(4))[0]
            payload = self.take(length)
        else:
            length, version, opcode = struct.unpack(">IBB", self.take(6))
            eq(version, 1, "version")
            payload = self.take(length - 2)
        name = name_of(opcode)
        return name, M[PAYLOADS[name]].FromString(payload), correlation

    def answer(self, correlation=None):
        """The answer to a request; messages that come meanwhile are kept."""
        while True:
            name, message, found = self.read()
            if name in ("MESSAGE", "PING", "CONSUMER_CLOSED") and found is None:
                self.inbox.append((name, message))
                continue
            eq(found, correlation, "correlation id")
            if name == "ERROR":
                raise Refused(message)
            return message

    def ask(self, name, message=None):
        return self.answer(self.send(name, message))

    def message(self):
        while not any(name == "MESSAGE" for name, _ in self.inbox):
            name, message, found = self.read()
            eq(found, None, "correlation id of what is pushed")
            self.inbox.append((name, message))
        at = next(at for at, (name, _) in enumerate(self.inbox) if name == "MESSAGE")
        return self.inbox.pop(at)[1]

    def consume(self, queue, **more):
        self.order("CONSUME", M["ConsumeRequest"](queue=queue, **more))

    def order(self, name, message):
        """A request that is answered on request only, and by the layout that can."""
        correlation = self.send(name, message, confirm=True)
        if is_documented():
            self.answer(correlation)

    def ack(self, message, name="ACK", **more):
        kind = "AckRequest" if name == "ACK" else "NackRequest"
        which = {"delivery_id": message.delivery_id} if is_documented() else {"message_id": message.message_id}
        self.order(name, M[kind](**which, **more))


def eq(found, wanted, what):
    if found != wanted:
        raise AssertionError(f"{what}: {found!r}, and {wanted!r} is right")


def refused(code, text, act):
    try:
        act()
    except Refused as error:
        eq(error.code, code, "code")
        if text not in error.text:
            raise AssertionError(f"{error.text!r} does not contain {text!r}")
        return
    raise AssertionError(f"not refused with {code}")


def publish(client, queue, payload=b"", **more):
    return client.ask("PUBLISH", M["PublishRequest"](queue=queue, payload=payload, **more))


def queue_of(test):
    return f"py-{LAYOUT}-{test}"


def listed(client, queue):
    found = [q for q in client.ask("QUEUE_LIST").queues if q.name == queue]
    eq(len(found), 1, f"entries of {queue} in the list")
    return found[0].message_count, found[0].in_flight_count


def test_fields(queue):
    client = Client()
    made = publish(client, queue, b"\x00\xff", headers={"k": "v", "ü": ""}, ordering_key="o")
    eq(len(made.message_id), 26, "length of an id that the broker made")
    eq(publish(client, queue, message_id="mine", ttl_ms=60_000).message_id, "mine", "an id of one's own")
    eq(listed(client, queue), (2, 0), "waiting and held")
    client.consume(queue, prefetch=5, visibility_timeout=30)
    first, second = client.message(), client.message()
    eq((first.message_id, second.message_id), (made.message_id, "mine"), "ids")
    eq((first.payload, dict(first.headers)), (b"\x00\xff", {"k": "v", "ü": ""}), "payload and headers")
    eq((first.queue, first.attempt, first.ordering_key), (queue, 1, "o"), "queue, attempt, key")
    eq(abs(first.published_at - second.published_at) < 60_000, True, "moments of publishing")
    if is_documented():
        eq(second.delivery_id, first.delivery_id + 1, "numbers of deliveries")
        both = M["AckRequest"](delivery_id=first.delivery_id, delivery_id_last=second.delivery_id)
        client.order("ACK", both)
        stats = client.ask("QUEUE_STATS", M["QueueStatsRequest"](queue=queue))
        eq((stats.message_count, stats.in_flight_count, stats.consumer_count), (0, 0, 1), "statistics")
    else:
        eq(first.delivery_id, 0, "an extension in the versioned layout")
        client.ack(first)
        client.ack(second)
        eq(listed(client, queue), (0, 0), "waiting and held")
    client.close()


def test_redelivery(queue):
    client = Client()
    publish(client, queue, b"again", message_id="a")
    client.consume(queue)
    eq(client.message().attempt, 1, "attempt")
    client.order("NACK", M["NackRequest"](message_id="a", requeue=True))
    eq(client.message().attempt, 2, "attempt")
    # The end of the connection is a failure as well.
    client.close()
    client = Client()
    client.consume(queue, visibility_timeout=1)
    eq(client.message().attempt, 3, "attempt")
    # And so is a time-out.
    message = client.message()
    eq((message.attempt, message.payload), (4, b"again"), "attempt and payload")
    client.ack(message)
    refused(4, "message not found", lambda: late(client, message))
    client.close()


def late(client, message):
    client.ack(message)
    if not is_documented():
        # Its ERROR stands where its answer would: before the answer to what follows.
        client.answer()


def test_dead_letter(queue):
    client = Client()
    publish(client, queue, b"bad", headers={"k": "v"})
    client.consume(queue)
    client.ack(client.message(), "NACK")
    client.consume(f"{queue}.dlq")
    message = client.message()
    eq((message.queue, message.payload, message.headers["k"]), (f"{queue}.dlq", b"bad", "v"), "dead letter")
    client.ack(message)
    client.close()


def test_extend(queue):
    client = Client()
    publish(client, queue, b"slow", message_id="s")
    client.consume(queue, visibility_timeout=2)
    message = client.message()
    extended = client.ask("EXTEND_VISIBILITY", M["ExtendVisibilityRequest"](message_id="s", extension_seconds=600))
    eq(extended.new_visible_at > message.published_at + 500_000, True, "the new moment")
    unknown = M["ExtendVisibilityRequest"](message_id="other", extension_seconds=1)
    refused(4, "message not found", lambda: client.ask("EXTEND_VISIBILITY", unknown))
    client.ack(message)
    client.close()


def test_errors(queue):
    client = Client()
    OP["NOTHING"] = 0x7F
    refused(1, "unknown opcode", lambda: client.ask("NOTHING"))
    refused(1, "unknown opcode", lambda: client.ask("PUBLISH_ACK"))
    # A string that runs past the end, and one that is not UTF-8.
    refused(2, "invalid request", lambda: client.ask("PUBLISH", b"\x0a\x05"))
    refused(2, "invalid request", lambda: client.ask("PUBLISH", b"\x0a\x01\xff"))
    refused(2, "queue", lambda: client.ask("PUBLISH", b""))
    refused(7, "schema not found", lambda: client.ask("SCHEMA_GET", M["SchemaRegisterRequest"](queue=queue)))
    if is_documented():
        nothing = M["UnsubscribeRequest"](queue=queue)
        refused(4, "consumer not found", lambda: client.order("UNSUBSCRIBE", nothing))
        refused(50, "", lambda: client.ask("QUEUE_STATS", M["QueueStatsRequest"](queue=queue)))
        refused(53, "message too large", lambda: publish(client, queue, bytes((16 << 20) + 3500)))
        eq(client.ask("PING", M["PingRequest"](data=b"x")).data, b"x", "data of a PONG")
    # After all that the connection goes on.
    publish(client, queue, b"fine")
    client.close()
    # A length that no frame has: closed without an answer.
    client = Client()
    client.socket.sendall(b"\x01\x00\x7f\xff\xff\xff" if is_documented() else b"\x00\x00\x00\x01\x01")
    eq(client.socket.recv(1), b"", "answer to a broken frame")


def test_pipeline(queue):
    client = Client()
    requests = [client.send("PUBLISH", M["PublishRequest"](queue=queue, message_id=f"m{n}")) for n in range(500)]
    answers = {}
    for n in range(500):
        name, message, correlation = client.read()
        eq(name, "PUBLISH_ACK", "answer")
        answers[correlation if is_documented() else n] = message.message_id
    wanted = {(requests[n] if is_documented() else n): f"m{n}" for n in range(500)}
    eq(answers, wanted, "ids by request")
    if is_documented():
        batch = M["PublishBatchRequest"](messages=[M["PublishRequest"](queue=q, message_id="b") for q in (queue, "amq.not-allowed")])
        results = client.ask("PUBLISH_BATCH", batch).results
        eq([(r.code, r.message_id) for r in results], [(0, "b"), (52, "")], "results of a batch")
        eq(client.ask("QUEUE_PURGE", M["QueuePurgeRequest"](queue=queue)).message_count, 501, "purged")
        refused(54, queue, lambda: busy(client, queue))
        client.order("UNSUBSCRIBE", M["UnsubscribeRequest"](queue=queue))
        eq(client.ask("QUEUE_DELETE", M["QueueDeleteRequest"](queue=queue)).message_count, 0, "deleted")
    client.close()


def busy(client, queue):
    client.consume(queue)
    client.ask("QUEUE_DELETE", M["QueueDeleteRequest"](queue=queue, if_unused=True))


def test_call(queue):
    asker, server = Client(), Client()
    server.consume(queue)
    request = M["CallRequest"](queue=queue, payload=b"ping", headers={"k": "v"}, timeout_ms=10_000)
    correlation = asker.send("CALL", request)
    message = server.message()
    eq((message.payload, message.headers["k"]), (b"ping", "v"), "request")
    headers = {"correlation_id": message.headers["correlation_id"], "more": "1"}
    publish(server, message.headers["reply_to"], b"pong", headers=headers)
    server.ack(message)
    answer = asker.answer(correlation)
    eq((answer.payload, dict(answer.headers)), (b"pong", headers), "answer")
    slow = M["CallRequest"](queue=queue, timeout_ms=300)
    refused(8, "call timeout", lambda: asker.ask("CALL", slow))
    asker.close()
    server.close()


TEXT = """syntax = "proto3";
package shop;
message Order { int64 id = 1; repeated Line lines = 2; map<string, string> notes = 3; Kind kind = 4; }
message Line { string sku = 1; double price = 2; }
enum Kind { NEW = 0; OLD = 1; }
"""


def order_file():
    """The same as TEXT, as protoc would say it."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    line = file.message_type.add(name="Line")
    line.field.add(name="sku", number=1, label=1, type=9)
    line.field.add(name="price", number=2, label=1, type=1)
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, label=1, type=3)
    order.field.add(name="lines", number=2, label=3, type=11, type_name=".shop.Line")
    messages.add(order, set(), "3", "notes", "map")
    order.field[-1].type_name = ".shop.Order.NotesEntry"
    order.field.add(name="kind", number=4, label=1, type=14, type_name=".shop.Kind")
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="NEW", number=0)
    kind.value.add(name="OLD", number=1)
    return file


def order_class():
    pool = descriptor_pool.DescriptorPool()
    pool.Add(order_file())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def try_orders(client, queue):
    """A right message of the independent implementation passes, others do not."""
    order = order_class()(id=-7, notes={"a": "b"}, kind=1)
    order.lines.add(sku="x", price=1.5)
    order.lines.add(sku="ü")
    right = order.SerializeToString()
    publish(client, queue, right)
    publish(client, queue, b"")
    text = "schema validation failed: message validation failed: "
    # The second line's sku as a number, then a string that is cut.
    refused(5, text + "lines[1].sku: ", lambda: publish(client, queue, b"\x12\x00\x12\x02\x08\x01"))
    refused(5, text, lambda: publish(client, queue, right[:-1]))
    if is_documented():
        batch = M["PublishBatchRequest"](messages=[M["PublishRequest"](queue=queue, payload=p) for p in (right, b"\x08")])
        eq([r.code for r in client.ask("PUBLISH_BATCH", batch).results], [0, 5], "codes of a batch")
    request = M["CallRequest"](queue=queue, payload=b"\x08")
    refused(5, text, lambda: client.ask("CALL", request))


def register(client, queue, **more):
    return client.ask("SCHEMA_REGISTER", M["SchemaRegisterRequest"](queue=queue, **more))


def test_schema_text(queue):
    client = Client()
    made = register(client, queue, proto_source=TEXT, message_type="shop.Order")
    eq(made.version, 1, "version")
    eq(made.message_type, "shop.Order" if is_documented() else "", "type")
    try_orders(client, queue)
    text = "schema registration failed: "
    refused(6, "schema.proto:2:", lambda: register(client, queue, proto_source="\nmessage M { strin a = 1; }"))
    refused(6, text + "message type not found in descriptor", lambda: register(client, queue, proto_source=TEXT, message_type="Order"))
    client.close()


def test_schema_descriptor(queue):
    client = Client()
    files = descriptor_pb2.FileDescriptorSet(file=[order_file()]).SerializeToString()
    eq(register(client, queue, descriptor=files, message_type="shop.Order").version, 1, "version")
    try_orders(client, queue)
    cut = lambda: register(client, queue, descriptor=files[:-3], message_type="shop.Order")
    refused(6, "schema registration failed: invalid descriptor", cut)
    listed = [(s.message_type, s.version) for s in client.ask("SCHEMA_LIST").schemas if s.queue == queue]
    eq(listed, [("shop.Order", 1)], "in the list")
    found = client.ask("SCHEMA_GET", M["SchemaRegisterRequest"](queue=queue))
    eq(found.version, 1, "version")
    if is_documented():
        eq((found.descriptor, found.message_type), (files, "shop.Order"), "what comes back")
    client.close()


def test_schema_compatibility(queue):
    client = Client()
    register(client, queue, proto_source=TEXT, message_type="shop.Order")
    narrow = TEXT.replace("int64 id", "int32 id")
    more = dict(message_type="shop.Order")
    refused(6, "shop.Order.id", lambda: register(client, queue, proto_source=narrow, **more))
    wide = TEXT.replace("string sku = 1;", "string sku = 1; string note = 3;")
    eq(register(client, queue, proto_source=wide, refuse_unknown_fields=True, **more).version, 2, "version")
    refused(5, "the schema has no field 9", lambda: publish(client, queue, b"\x48\x01"))
    # The rule of the queue stays until another one is named.
    none = dict(more, compatibility=1)
    eq(register(client, queue, proto_source=narrow, **none).version, 3, "version")
    if is_documented():
        first = client.ask("SCHEMA_GET", M["SchemaRegisterRequest"](queue=queue, version=1))
        eq((first.version, first.compatibility, first.refuse_unknown_fields), (1, 2, False), "first version")
    client.close()


def test_auth(queue):
    client = Client(TOKEN_PORT)
    refused(9, "authentication required", lambda: publish(client, queue))
    eq(client.socket.recv(1), b"", "what follows")
    client = Client(TOKEN_PORT)
    answer = client.ask("AUTH", M["AuthRequest"](token="wrong"))
    eq((answer.success, answer.message), (False, "invalid token"), "answer")
    eq(client.socket.recv(1), b"", "what follows")
    client = Client(TOKEN_PORT)
    answer = client.ask("AUTH", M["AuthRequest"](token="s3cret"))
    eq((answer.success, answer.message), (True, "authenticated"), "answer")
    publish(client, queue)
    client.close()
    # A broker without tokens takes any.
    client = Client()
    eq(client.ask("AUTH", M["AuthRequest"](token="any")).success, True, "success")
    client.close()


def main():
    global LAYOUT, PORT, TOKEN_PORT
    doc, LAYOUT, port, token_port, *only = sys.argv[1:]
    PORT, TOKEN_PORT = int(port), int(token_port)
    classes, opcodes = messages.load(doc)
    M.update(classes)
    OP.update(opcodes)
    wanted = only[0].split(",") if only and only[0] else None
    for name in [name for name in globals() if name.startswith("test_")]:
        word = name[len("test_"):].replace("_", "-")
        if wanted and word not in wanted:
            continue
        try:
            globals()[name](queue_of(word))
            print(f"PASS python {LAYOUT} {word}", flush=True)
        except Exception as error:  # whatever it is, the test has failed
            traceback.print_exc()
            print(f"FAIL python {LAYOUT} {word}: {error}", flush=True)


if __name__ == "__main__":
    main()
