"""Qpid Proton (Python) against a broker: the program that run.sh starts.

    client.py test   --port P --auto-port A    every test of this client; one line each, PASS or FAIL
    client.py put    --port P --queue Q        sends every message of messages.json
    client.py check  --port P --queue Q        receives them (sent by any client) and compares each one

Queues are declared by run.sh as `interop-python-TEST`. The broker at --auto-port makes queues on attach, the other not.
"""
import argparse
import sys
import time
import traceback

import proton
import values
from proton import ConnectionException, Delivery, Endpoint, Handler, Link, Message, Terminus, Timeout
from proton.handlers import TransactionHandler
from proton.reactor import AtMostOnce, Container, Copy, ReceiverOption
from proton.utils import BlockingConnection, LinkDetached

ARGS = None
WAIT_S = 8     # how long anything that must happen may take before it counts as failed
TESTS = []


def test(f):
    TESTS.append(f)
    return f


def queue(name): return ARGS.address.replace("{}", f"interop-python-{name}")


def connect(mech="ANONYMOUS", user=None, password=None, container_id=None, port=None, **more):
    c = Container()
    if container_id: c.container_id = container_id
    return BlockingConnection(f"amqp://127.0.0.1:{port or ARGS.port}", timeout=WAIT_S, container=c, allowed_mechs=mech,
                              allow_insecure_mechs=True, user=user, password=password, **more)


class Inbox(Handler):
    """Keeps what arrives on one link, as bytes; gives no credit and settles nothing by itself."""

    def __init__(self): self.got = []

    def on_delivery(self, event):
        d = event.delivery
        if d.readable and not d.partial and not d.aborted:
            raw = b""
            while d.pending: raw += event.link.recv(d.pending)
            event.link.advance()
            self.got.append((raw, d))

    def on_link_remote_close(self, event):
        if event.link.state & Endpoint.LOCAL_ACTIVE:
            event.link.close()
            raise LinkDetached(event.link)

    on_link_remote_detach = on_link_remote_close


class Reader:
    """A receiver with hand-given credit."""

    def __init__(self, conn, address, credit=0, **more):
        self.conn, self.inbox = conn, Inbox()
        # kept: when the wrapper is collected, Proton takes the handler off the link
        self.wrapper = conn.create_receiver(address, credit=0, handler=self.inbox, **more)
        self.link = self.wrapper.link
        if credit: self.link.flow(credit)

    def wait(self, n=1):
        """The next n deliveries as (message, bytes, delivery)."""
        self.conn.wait(lambda: len(self.inbox.got) >= n, msg=f"{n} deliveries (have {len(self.inbox.got)})")
        out, self.inbox.got = self.inbox.got[:n], self.inbox.got[n:]
        return [(decode(raw), raw, d) for raw, d in out]

    def one(self): return self.wait(1)[0]

    def drain(self, credit):
        """Everything that the broker has for a drained credit."""
        self.link.drain(credit)
        self.conn.wait(lambda: not self.link.draining(), msg="drained")
        self.link.drain_mode = False
        return self.wait(len(self.inbox.got))


    def close(self): self.wrapper.close()


def decode(raw):
    m = Message()
    m.decode(raw)
    return m


def settle(delivery, outcome):
    delivery.update(outcome)
    delivery.settle()


def send(conn, address, bodies, **more):
    """Sends by a link of its own, which is closed again: Proton gives every sender to an address the same name."""
    s = conn.create_sender(address, **more)
    send_by(s, bodies)
    s.close()


def send_by(sender, bodies):
    for b in bodies: eq(sender.send(Message(body=b)).remote_state, Delivery.ACCEPTED, "outcome")


def left(conn, address):
    """What a new consumer finds on the queue (and takes)."""
    r = Reader(conn, address)
    got = r.drain(50)
    for _, _, d in got: settle(d, Delivery.ACCEPTED)
    r.close()
    return [(m.body, m.delivery_count) for m, _, _ in got]


def pump(conn, seconds):
    """Lets the library run: for proving that something does not come."""
    try: conn.wait(lambda: False, timeout=seconds)
    except Timeout: pass


def eq(got, want, what):
    if got != want: raise AssertionError(f"{what}: got {got!r}, want {want!r}")


@test
def connect_plain():
    c = connect("PLAIN", ARGS.user, ARGS.password)
    send(c, queue("connect-plain"), ["hello"])
    c.close()


@test
def connect_wrong_password():
    try: connect("PLAIN", ARGS.user, "not " + ARGS.password)
    except ConnectionException as e: assert "amqp:unauthorized-access" in str(e), e
    else: raise AssertionError("logged in with a wrong password")


@test
def unsettled():
    c = connect()
    q = queue("unsettled")
    send(c, q, range(200))
    r = Reader(c, q, credit=200)
    got = r.wait(200)
    eq([m.body for m, _, _ in got], list(range(200)), "bodies in order")
    assert not any(d.settled for _, _, d in got), "an unsettled receiver was sent settled deliveries"
    for _, _, d in got: settle(d, Delivery.ACCEPTED)
    r.close()
    eq(left(c, q), [], "left on the queue")
    c.close()


@test
def presettled():
    c = connect()
    q = queue("presettled")
    s = c.create_sender(q, options=AtMostOnce())
    for i in range(200): s.send(Message(body=i))
    r = Reader(c, q, credit=200, options=AtMostOnce())
    got = r.wait(200)
    eq([m.body for m, _, _ in got], list(range(200)), "bodies in order")
    assert all(d.settled for _, _, d in got), "a receiver that asked for settled got unsettled deliveries"
    r.close()
    eq(left(c, q), [], "left on the queue")
    c.close()


def outcome(name, state, prepare=None):
    """One message, settled with the state; what the next consumer finds."""
    c = connect()
    q = queue(name)
    send(c, q, ["m"])
    r = Reader(c, q, credit=1)
    m, _, d = r.one()
    eq(m.delivery_count, 0, "delivery-count of the first delivery")
    if prepare: prepare(d.local)
    settle(d, state)
    r.close()
    got = left(c, q)
    c.close()
    return got


@test
def outcome_accepted(): eq(outcome("outcome-accepted", Delivery.ACCEPTED), [], "left after accepted")


@test
def outcome_rejected(): eq(outcome("outcome-rejected", Delivery.REJECTED), [], "left after rejected")


@test
def outcome_released(): eq(outcome("outcome-released", Delivery.RELEASED), [("m", 0)], "left after released")


@test
def outcome_modified():
    eq(outcome("outcome-modified", Delivery.MODIFIED), [("m", 0)], "left after modified")

    def failed(local): local.failed = True
    eq(outcome("outcome-modified", Delivery.MODIFIED, failed), [("m", 1)], "left after modified(delivery-failed)")


@test
def modified_annotations():
    c = connect()
    q = queue("modified-annotations")
    send(c, q, ["m"])
    r = Reader(c, q, credit=1)
    _, _, d = r.one()
    d.local.failed = True
    d.local.annotations = {proton.symbol("x-opt-interop-why"): "because"}
    settle(d, Delivery.MODIFIED)
    r.link.flow(1)
    m, _, d = r.one()
    eq((m.delivery_count, (m.annotations or {}).get(proton.symbol("x-opt-interop-why"))), (1, "because"), "second delivery")
    settle(d, Delivery.ACCEPTED)
    c.close()


@test
def large_message():
    c = connect()
    q = queue("large-message")
    body = bytes(i * 7 & 0xff for i in range(1 << 20))
    send(c, q, [body])
    m, _, d = Reader(c, q, credit=1).one()
    assert bytes(m.body) == body, f"body differs ({len(m.body)} bytes)"
    settle(d, Delivery.ACCEPTED)
    c.close()


@test
def credit_exact():
    c = connect()
    q, other = queue("credit-exact"), queue("credit-exact-other")
    send(c, q, range(30))
    r = Reader(c, q)
    for n in (0, 10, 5, 1):
        if n: r.link.flow(n)
        r.conn.wait(lambda: len(r.inbox.got) >= n, msg=f"{n} deliveries")
        send(c, other, ["round trip"])
        pump(c, 0.3)
        eq(len(r.inbox.got), n, f"deliveries for a credit of {n}")
        for _, _, d in r.wait(n): settle(d, Delivery.ACCEPTED)
    c.close()


@test
def drain():
    c = connect()
    q = queue("drain")
    r = Reader(c, q)
    eq(r.drain(10), [], "deliveries from an empty queue")
    send(c, q, ["a", "b", "c"])
    eq([m.body for m, _, _ in r.drain(10)], ["a", "b", "c"], "deliveries while draining")
    send(c, q, ["d"])
    pump(c, 0.3)
    eq(len(r.inbox.got), 0, "deliveries after the drain")
    r.link.flow(1)
    eq(r.one()[0].body, "d", "delivery for new credit")
    c.close()


@test
def browse():
    c = connect()
    q = queue("browse")
    send(c, q, ["a", "b"])
    for _ in range(2):
        r = Reader(c, q, options=Copy())
        eq(r.link.remote_source.distribution_mode, proton.Terminus.DIST_MODE_COPY, "distribution-mode in effect")
        r.link.flow(5)
        got = r.wait(2)
        eq([m.body for m, _, _ in got], ["a", "b"], "browsed")
        for _, _, d in got: settle(d, Delivery.ACCEPTED)
        r.close()
    eq([b for b, _ in left(c, q)], ["a", "b"], "on the queue after browsing")
    c.close()


def hold(conn, address):
    """Attaches a sender and waits for its end."""
    s = conn.create_sender(address)
    conn.wait(lambda: s.link.state & Endpoint.REMOTE_CLOSED, msg="end of a link to a deleted node")
    raise LinkDetached(s.link)


@test
def request_reply():
    """A dynamic node for the answers, and the anonymous terminus to send them by."""
    asker, answerer = connect(), connect()
    q = queue("request-reply")
    answers = Reader(asker, None, credit=5, dynamic=True)
    address = answers.link.remote_source.address
    assert address, "no address for the dynamic node"
    s = asker.create_sender(q)
    requests = Reader(answerer, q, credit=5)
    relay = answerer.create_sender(None)
    for i in range(5):
        s.send(Message(body=i, reply_to=address, correlation_id=f"r{i}"))
        m, _, d = requests.one()
        eq(relay.send(Message(address=m.reply_to, correlation_id=m.correlation_id, body=m.body * 2)).remote_state,
           Delivery.ACCEPTED, "outcome of the answer")
        settle(d, Delivery.ACCEPTED)
        a, _, d = answers.one()
        eq((a.body, a.correlation_id), (i * 2, f"r{i}"), "answer")
        settle(d, Delivery.ACCEPTED)
    asker.close()
    # the node may go just before or just after the new link comes to it
    not_found(lambda: hold(answerer, address), "amqp:resource-deleted")
    answerer.close()


@test
def anonymous_terminus():
    c = connect()
    qs = [queue("anonymous-terminus-a"), queue("anonymous-terminus-b")]
    s = c.create_sender(None)
    for q in qs: eq(s.send(Message(address=q, body=q)).remote_state, Delivery.ACCEPTED, "outcome")
    for q in qs: eq([b for b, _ in left(c, q)], [q], "on the queue")
    state = s.send(Message(address=absent(), body="lost"), error_states=[]).remote_state
    assert state in (Delivery.REJECTED, Delivery.RELEASED), f"a message to an unknown name was {state}"
    eq(s.send(Message(address=qs[0], body="again")).remote_state, Delivery.ACCEPTED, "outcome afterwards")
    c.close()


def absent(): return ARGS.address.replace("{}", f"interop-absent-{time.time_ns()}")


def not_found(attach, *also):
    try: attach()
    except LinkDetached as e: assert e.condition in ("amqp:not-found", *also), e
    else: raise AssertionError("attached to a name that does not exist")


@test
def unknown_name():
    c = connect()
    q = queue("unknown-name")
    s = c.create_sender(q)
    send_by(s, ["before"])
    not_found(lambda: c.create_sender(absent()))
    not_found(lambda: c.create_receiver(absent()))
    assert s.link.session.state & Endpoint.REMOTE_ACTIVE, "the session ended with the link"
    eq(s.send(Message(body="after")).remote_state, Delivery.ACCEPTED, "outcome on the link beside it")
    c.close()


@test
def auto_create():
    c = connect(port=ARGS.auto_port)
    q = absent()
    send(c, q, ["made on attach"])
    eq([b for b, _ in left(c, q)], ["made on attach"], "on the queue")
    c.close()


@test
def link_stealing():
    q = queue("link-stealing")
    old, new = connect(container_id="interop-python-thief"), connect(container_id="interop-python-thief")
    first = Reader(old, q, credit=5, name="the-link")
    second = Reader(new, q, credit=5, name="the-link")
    try: old.wait(lambda: False, msg="the detach")
    except LinkDetached as e: eq(e.condition, "amqp:link:stolen", "error condition")
    send(new, q, ["m"])
    m, _, d = second.one()
    eq((m.body, len(first.inbox.got)), ("m", 0), "delivery to the new link only")
    settle(d, Delivery.ACCEPTED)
    old.close()
    new.close()


@test
def reconnect_same_name():
    q = queue("reconnect-same-name")
    for i in range(5):
        c = connect(container_id="interop-python-again")
        if i == 0: send(c, q, ["m"], name="the-link")
        r = Reader(c, q, credit=1, name="the-link")
        m, _, d = r.one()
        eq(m.body, "m", "delivery")
        if i == 4: settle(d, Delivery.ACCEPTED)
        c.conn.transport.close_head() if i % 2 else c.close()
    c = connect()
    eq(left(c, q), [], "left on the queue")
    c.close()


@test
def heartbeat():
    # Proton announces half of this and closes the connection itself when nothing comes for the whole of it.
    c = connect(heartbeat=1)
    s = c.create_sender(queue("heartbeat"))
    pump(c, 3.5)
    eq(s.send(Message(body="alive")).remote_state, Delivery.ACCEPTED, "outcome after the quiet time")
    c.close()


class Told(TransactionHandler):
    """What became of a transaction."""

    def __init__(self): self.txn, self.end = None, None

    def on_transaction_declared(self, event): self.txn = event.transaction

    def on_transaction_committed(self, event): self.end = "committed"

    def on_transaction_aborted(self, event): self.end = "aborted"

    def on_transaction_commit_failed(self, event): self.end = str(event.delivery.remote.condition.name)

    def on_transaction_declare_failed(self, event): self.end = "not declared"


def declare(conn, **more):
    told = Told()
    conn.container.declare_transaction(conn.conn, handler=told, **more)
    conn.wait(lambda: told.txn or told.end, msg="declared")
    assert told.txn, told.end
    return told


def discharge(conn, told, fail=False):
    told.txn.abort() if fail else told.txn.commit()
    conn.wait(lambda: told.end, msg="discharged")
    return told.end


def post(conn, told, sender, message):
    d = told.txn.send(sender.link, message)
    conn.wait(lambda: d.remote_state, msg="outcome of a posting")
    return d


def transaction(name, fail, **more):
    """Takes one message and sends another in one transaction; what is on both queues afterwards."""
    c = connect()
    q, to = queue(name), queue(name + "-to")
    send(c, q, ["in"])
    r = Reader(c, q, credit=1)
    s = c.create_sender(to)
    told = declare(c, **more)
    _, _, d = r.one()
    told.txn.accept(d)
    post(c, told, s, Message(body="out"))
    eq(left(c, to), [], "seen before the discharge")
    eq(discharge(c, told, fail), "aborted" if fail else "committed", "end")
    r.close()
    found = left(c, q), left(c, to)
    c.close()
    return found


@test
def transaction_commit(): eq(transaction("transaction-commit", False), ([], [("out", 0)]), "on the queues")


@test
def transaction_rollback():
    eq(transaction("transaction-rollback", True), ([("in", 0)], []), "on the queues")
    settled = transaction("transaction-rollback", True, settle_before_discharge=True)
    eq(settled, ([("in", 1)], []), "on the queues, settled before the discharge")


@test
def transaction_refused():
    c = connect()
    q = queue("transaction-refused")
    s, relay = c.create_sender(q), c.create_sender(None)
    told = declare(c)
    post(c, told, s, Message(body="m"))
    post(c, told, relay, Message(address=absent(), body="lost"))
    eq(discharge(c, told), "amqp:transaction:rollback", "end")
    eq(left(c, q), [], "on the queue")
    c.close()


@test
def transaction_several():
    c = connect()
    q = queue("transaction-several")
    s = c.create_sender(q)
    one, two = declare(c), declare(c)
    post(c, one, s, Message(body="one"))
    post(c, two, s, Message(body="two"))
    eq((discharge(c, two), discharge(c, one, True)), ("committed", "aborted"), "ends")
    eq(left(c, q), [("two", 0)], "on the queue")
    c.close()


@test
def second_mode():
    """A receiver says its outcome and waits until the broker has settled the delivery."""
    c = connect()
    q = queue("second-mode")
    send(c, q, range(3))
    r = c.create_receiver(q, credit=0, handler=(inbox := Inbox()), options=SecondMode())
    eq(r.link.remote_rcv_settle_mode, Link.RCV_SECOND, "settle mode in effect")
    r.link.flow(3)
    c.wait(lambda: len(inbox.got) == 3, msg="deliveries")
    for (_, d), state in zip(inbox.got, (Delivery.ACCEPTED, Delivery.RELEASED, Delivery.ACCEPTED)):
        d.update(state)
        c.wait(lambda: d.settled, msg="settlement by the broker")
        d.settle()
    r.close()
    eq([b for b, _ in left(c, q)], [1], "left on the queue")
    c.close()


class SecondMode(ReceiverOption):
    def apply(self, receiver): receiver.rcv_settle_mode = Link.RCV_SECOND


def exchange(name): return f"/exchanges/interop-python-{name}"


@test
def route_topic():
    c = connect()
    a, b = queue("route-topic"), queue("route-topic-b")
    s = c.create_sender(exchange("topic"))
    for key, want in (("a.1", Delivery.ACCEPTED), ("b.1.2", Delivery.ACCEPTED), ("a.1.2", Delivery.RELEASED)):
        eq(s.send(Message(body=key, subject=key), error_states=[]).remote_state, want, f"outcome of {key}")
    eq([x for x, _ in left(c, a)], ["a.1"], "what a.* takes")
    eq([x for x, _ in left(c, b)], ["b.1.2"], "what b.# takes")
    c.close()


@test
def route_fanout():
    """Every queue or none: one of them has room for one message."""
    c = connect()
    a, b = queue("route-fanout"), queue("route-fanout-b")
    s = c.create_sender(exchange("fanout"))
    eq(s.send(Message(body=1)).remote_state, Delivery.ACCEPTED, "outcome")
    d = s.send(Message(body=2), error_states=[])
    eq(d.remote_state, Delivery.REJECTED, "outcome when one is full")
    eq(d.remote.condition.name, "amqp:resource-limit-exceeded", "condition")
    info = {str(k): v for k, v in d.remote.condition.info.items()}
    eq((info.get("queue"), info.get("exchange")), (b, "interop-python-fanout"), "what the info names")
    for q in (a, b): eq([x for x, _ in left(c, q)], [1], "on the queue")
    c.close()


@test
def route_headers():
    c = connect()
    q = queue("route-headers")
    s = c.create_sender(exchange("headers"))
    for n, (properties, want) in enumerate((({"region": "eu", "size": proton.ubyte(7)}, Delivery.ACCEPTED),
                                            ({"region": "eu"}, Delivery.RELEASED))):
        eq(s.send(Message(body=n, properties=properties), error_states=[]).remote_state, want, f"outcome of {n}")
    eq([x for x, _ in left(c, q)], [0], "on the queue")
    c.close()


@test
def subscription():
    """Each receiver from an exchange has a copy of its own; a durable one collects while it is away."""
    address = exchange("topic") + "/sub"
    away = connect(container_id="interop-python-subscriber")
    Reader(away, address, name="kept", options=Durable())
    away.close()
    c = connect(container_id="interop-python-subscriber")
    mine = Reader(c, address, credit=10)
    send(c, address, ["m"])
    for r in (mine, Reader(c, address, credit=10, name="kept", options=Durable())):
        m, _, d = r.one()
        eq(m.body, "m", "delivery")
        settle(d, Delivery.ACCEPTED)
        r.close()
    c.close()


class Durable(ReceiverOption):
    def apply(self, receiver):
        receiver.source.durability = Terminus.CONFIGURATION
        receiver.source.expiry_policy = Terminus.EXPIRE_NEVER


@test
def dead_letter():
    c = connect()
    q = queue("dead-letter")
    send(c, q, ["m"])
    r = Reader(c, q, credit=1)
    settle(r.one()[2], Delivery.REJECTED)
    r.close()
    m, _, d = Reader(c, q + ".dlq", credit=1).one()
    of = {str(k): v for k, v in m.annotations.items()}
    eq((m.body, of["x-opt-death-reason"], of["x-opt-death-queue"], of["x-opt-death-count"]), ("m", "rejected", q, 1), "dead letter")
    eq([{str(k): v for k, v in x.items()} for x in of["x-opt-deaths"]],
       [{"queue": q, "reason": "rejected", "count": 1, "time": of["x-opt-death-time"]}], "its history")
    settle(d, Delivery.ACCEPTED)
    c.close()

class Answers(ReceiverOption):
    """The link on which answers of the management node come."""

    def apply(self, receiver): receiver.target.address = "answers"


class Operator:
    """Asks the node $management."""

    def __init__(self, conn):
        self.requests = conn.create_sender("$management")
        self.answers = Reader(conn, "$management", credit=100, options=Answers())

    def ask(self, operation, body=None, **properties):
        """Status, map and application properties of the answer."""
        self.requests.send(Message(id="mine", reply_to="answers", properties={"operation": operation, **properties}, body=body))
        m, _, d = self.answers.one()
        settle(d, Delivery.ACCEPTED)
        eq(m.correlation_id, "mine", "correlation-id")
        return int(m.properties["statusCode"]), m.body, m.properties

    def declare(self, name, **settings):
        status, body, _ = self.ask("CREATE", settings, type="queue", name=name)
        assert status in (200, 201), body
        return name


def made(conn, name, **settings):
    """A queue with these settings, made by way of the management node."""
    return Operator(conn).declare(queue(name + "-made"), **settings)


@test
def management():
    c = connect()
    o = Operator(c)
    q, x = queue("management-made"), "interop-python-made"
    of = lambda kind, name: {"type": kind, "name": name}
    eq(o.ask("CREATE", {"max_length": 3, "x-overflow": "drop-head"}, **of("queue", q))[0], 201, "new queue")
    eq(o.ask("CREATE", {"max_length": 3, "overflow": "drop-head"}, **of("queue", q))[0], 200, "the same again")
    status, body, _ = o.ask("CREATE", {"max_length": 4}, **of("queue", q))
    eq((status, body["reason"], body["field"]), (409, "conflict", "max_length"), "another one of that name")
    eq(o.ask("CREATE", {"type": "topic"}, **of("exchange", x))[0], 201, "new exchange")
    binding = {"exchange": x, "queue": q, "routing_key": "a.#"}
    eq(o.ask("BIND", binding)[0], 201, "binding")
    send(c, f"/exchanges/{x}/a.b", ["m"])
    eq(o.ask("READ", **of("queue", q))[1]["depth"], 1, "depth")
    _, body, told = o.ask("QUERY", {"queue": q, "attributeNames": ["routing_key"]}, entityType="binding")
    eq((body["attributeNames"], body["results"], told["count"]), (["routing_key"], [["a.#"]], 1), "bindings")
    eq(o.ask("UNBIND", binding)[0], 204, "unbound")
    eq(o.ask("PURGE", **of("queue", q))[1]["purged"], 1, "purged")
    for kind, name in (("queue", q), ("exchange", x)): eq(o.ask("DELETE", **of(kind, name))[0], 204, "deleted")
    eq(o.ask("READ", **of("queue", q))[0], 404, "gone")
    eq(o.ask("FROB", **of("queue", q))[0], 501, "no operation")
    eq(o.ask("CREATE", {"max_lenght": 3}, **of("queue", q))[0], 400, "no setting")
    c.close()


@test
def lock_timeout():
    """Held too long, a message goes back and counts the attempt; a receiver that says it is at work keeps it."""
    c = connect()
    q = made(c, "lock-timeout", lock_timeout_ms=1000)
    send(c, q, ["m"])
    r = Reader(c, q, credit=1, name="holder")
    _, _, d = r.one()
    for _ in range(4):
        d.update(Delivery.RECEIVED)
        pump(c, 0.4)
    assert not d.settled, "lost while at work"
    eq(left(c, q), [], "held for longer than the timeout")
    c.wait(lambda: d.settled, msg="end of the lock")
    d.settle()
    r.close()
    eq(left(c, q), [("m", 1)], "left on the queue")
    c.close()


@test
def delay():
    c = connect()
    q = queue("delay")
    s = c.create_sender(q)
    began = time.time()
    for body, annotations in (("later", {"x-opt-delivery-delay": 900}),
                              ("then", {"x-opt-delivery-time": proton.timestamp(int((began + 0.6) * 1000))}), ("now", {})):
        annotations = {proton.symbol(k): v for k, v in annotations.items()}
        eq(s.send(Message(body=body, annotations=annotations)).remote_state, Delivery.ACCEPTED, "outcome")
    r = Reader(c, q, credit=3)
    for body, at in (("now", 0), ("then", 0.6), ("later", 0.9)):
        m, _, d = r.one()
        settle(d, Delivery.ACCEPTED)
        eq(m.body, body, "order")
        # a clock of whole milliseconds stands between
        assert time.time() - began > at - 0.005, f"{body} came early"
    c.close()


@test
def deduplication():
    c = connect()
    q = queue("deduplication")
    s = c.create_sender(q)
    for body, key in ((1, "a"), (2, "a"), (3, "b"), (4, None)):
        annotations = {proton.symbol("x-opt-dedup-id"): key} if key else None
        eq(s.send(Message(body=body, annotations=annotations)).remote_state, Delivery.ACCEPTED, "outcome")
    eq([b for b, _ in left(c, q)], [1, 3, 4], "on the queue")
    c.close()


@test
def single_active():
    """One is served; when it goes, what it held comes first to the next."""
    c = connect()
    q = made(c, "single-active", single_active_consumer=True)
    first = Reader(c, q, credit=1, name="first")
    second = Reader(c, q, credit=10, name="second")
    send(c, q, range(3))
    m, _, _ = first.one()
    eq(m.body, 0, "to the active one")
    pump(c, 0.3)
    eq(len(second.inbox.got), 0, "deliveries to the one that stands by")
    first.close()
    got = second.wait(3)
    eq([m.body for m, _, _ in got], [0, 1, 2], "after the hand-over")
    for _, _, d in got: settle(d, Delivery.ACCEPTED)
    c.close()


@test
def ordering_key():
    """Of one key one message is out at a time, of others as many as there is credit for."""
    c = connect()
    q = queue("ordering-key")
    s = c.create_sender(q)
    for body, key in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("none", None)):
        eq(s.send(Message(body=body, group_id=key)).remote_state, Delivery.ACCEPTED, "outcome")
    one, two = Reader(c, q, credit=10, name="one"), Reader(c, q, credit=10, name="two")
    arrived = lambda: len(one.inbox.got) + len(two.inbox.got)
    c.wait(lambda: arrived() >= 3, msg="three deliveries")
    pump(c, 0.3)
    got = one.wait(len(one.inbox.got)) + two.wait(len(two.inbox.got))
    eq(sorted(m.body for m, _, _ in got), ["a1", "b1", "none"], "out at a time")
    for m, _, d in got: settle(d, Delivery.RELEASED if m.body == "a1" else Delivery.ACCEPTED)
    for want in ("a1", "a2"):
        c.wait(lambda: arrived() >= 1, msg=want)
        (m, _, d), = one.wait(len(one.inbox.got)) + two.wait(len(two.inbox.got))
        eq(m.body, want, "order of the key")
        settle(d, Delivery.ACCEPTED)
    c.close()


@test
def consumer_group():
    """Every group has a copy of each message, its members share it, and its progress outlives them."""
    c = connect()
    q = queue("consumer-group")
    billing, shipping = f"/queues/{q}/groups/billing", f"/queues/{q}/groups/shipping"
    for address in (billing, shipping): Reader(c, address).close()
    send(c, q, range(4))
    r = Reader(c, billing, credit=2, name="member")
    for want in (0, 1):
        m, _, d = r.one()
        eq(m.body, want, "billing")
        settle(d, Delivery.ACCEPTED)
    r.close()
    eq([b for b, _ in left(c, billing)], [2, 3], "to the next member")
    eq([b for b, _ in left(c, shipping)], [0, 1, 2, 3], "to the other group")
    eq([b for b, _ in left(c, q)], [0, 1, 2, 3], "to those without a group")
    c.close()


def put():
    c = connect()
    s = c.create_sender(ARGS.queue)
    for want in values.load():
        d = s.link.delivery(s.link.delivery_tag())
        s.link.stream(values.encode(want))
        s.link.advance()
        c.wait(lambda: d.settled, msg=want["name"])
        eq(d.remote_state, Delivery.ACCEPTED, want["name"])
        d.settle()
    c.close()


def check():
    c = connect()
    wants = values.load()
    r = Reader(c, ARGS.queue, credit=len(wants))
    bad = []
    for want in wants:
        _, raw, d = r.one()
        bad += [f"{want['name']}: {x}" for x in values.differences(want, raw)]
        settle(d, Delivery.ACCEPTED)
    c.close()
    assert not bad, "; ".join(bad)


def main():
    global ARGS
    p = argparse.ArgumentParser()
    p.add_argument("command", choices=["test", "put", "check"])
    p.add_argument("--port", type=int, required=True)
    p.add_argument("--auto-port", type=int)
    p.add_argument("--user", default="guest")
    p.add_argument("--password", default="guest")
    p.add_argument("--address", default="{}")
    p.add_argument("--queue")
    p.add_argument("--only")
    ARGS = p.parse_args()
    if ARGS.command == "put": return put()
    if ARGS.command == "check": return check()
    for t in TESTS:
        name = t.__name__.replace("_", "-")
        if ARGS.only and name not in ARGS.only.split(","): continue
        try:
            t()
            print(f"PASS python {name}", flush=True)
        except Exception as e:
            if isinstance(e, (TypeError, AttributeError, NameError)): traceback.print_exc()
            print(f"FAIL python {name}: {type(e).__name__}: {' '.join(str(e).split())}", flush=True)


if __name__ == "__main__": sys.exit(main())
