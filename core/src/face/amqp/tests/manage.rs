//! The node `$management`: requests, answers, and what happens to those that nobody takes.

use bytes::{Bytes, BytesMut};
use qq_proto_amqp::connection::{Event, LinkId, NewLink, OutgoingDelivery, SessionId};
use qq_proto_amqp::performative::{
    DeliveryState, RcvSettleMode, SndSettleMode, Source, Target, TargetKind,
};
use qq_proto_amqp::section::{Properties, Sections};
use qq_proto_amqp::types::{DeliveryTag, Described, Map, Str, Value};

use super::{Bench, client_config};

const NODE: &str = "$management";

fn text(text: &str) -> Value {
    Value::Str(Str::from(text))
}

fn map(entries: &[(&str, Value)]) -> Value {
    let entries = entries.iter();
    Value::Map(
        entries
            .map(|(key, value)| (text(key), value.clone()))
            .collect(),
    )
}

fn put(buf: &mut BytesMut, code: u64, value: Value) {
    let descriptor = Value::Ulong(code);
    Value::Described(Box::new(Described { descriptor, value })).encode(buf);
}

/// A request as a client writes it.
struct Ask {
    properties: Properties,
    told: Map,
    body: Value,
}

impl Ask {
    fn new(operation: &str, kind: &str, name: &str) -> Self {
        let mut told = vec![(text("operation"), text(operation))];
        let more = [("type", kind), ("name", name)];
        let more = more.into_iter().filter(|(_, value)| !value.is_empty());
        told.extend(more.map(|(key, value)| (text(key), text(value))));
        Self {
            properties: Properties {
                reply_to: Some(text("me")),
                message_id: Some(Value::Ulong(7)),
                ..Properties::default()
            },
            told,
            body: Value::Null,
        }
    }

    fn with(mut self, name: &str, value: Value) -> Self {
        self.told.push((text(name), value));
        self
    }

    fn body(self, body: Value) -> Self {
        Self { body, ..self }
    }

    fn encode(&self) -> Bytes {
        let mut buf = BytesMut::new();
        self.properties.clone().encode(&mut buf);
        put(&mut buf, 0x74, Value::Map(self.told.clone()));
        put(&mut buf, 0x77, self.body.clone());
        buf.freeze()
    }
}

/// An answer as a client reads it.
#[derive(Debug)]
struct Heard {
    properties: Properties,
    told: Value,
    body: Value,
}

fn at(value: &Value, key: &str) -> Value {
    let Value::Map(map) = value else {
        panic!("{value:?} is no map");
    };
    let found = map.iter().find(|(known, _)| *known == text(key));
    found.map_or(Value::Null, |(_, value)| value.clone())
}

impl Heard {
    fn of(payload: &Bytes) -> Self {
        let sections = Sections::scan(payload).expect("a message");
        let properties = sections.properties(payload).expect("properties");
        let told = sections.application_properties.expect("has some");
        let (told, _) = Value::decode(&payload.slice(told.value)).expect("a map");
        let (body, _) = Value::decode(&payload.slice(sections.body.range)).expect("a body");
        let Value::Described(body) = body else {
            panic!("a body is described");
        };
        Self {
            properties: properties.expect("has some"),
            told,
            body: body.value,
        }
    }

    fn status(&self) -> Value {
        at(&self.told, "statusCode")
    }
}

/// A peer with a link to the node and one from it.
struct Operator {
    client: usize,
    session: SessionId,
    asks: LinkId,
    answers: LinkId,
    sent: u64,
}

fn link_between(name: &str, is_sender: bool, source: Source, target: &str) -> NewLink {
    NewLink {
        name: Str::from(name),
        is_sender,
        source: Some(source),
        target: Some(TargetKind::Target(Target {
            address: Some(text(target)),
            ..Target::default()
        })),
        snd_settle_mode: SndSettleMode::Mixed,
        rcv_settle_mode: RcvSettleMode::First,
        max_message_size: None,
        unsettled: None,
        properties: None,
    }
}

fn source(address: &str) -> Source {
    Source {
        address: Some(text(address)),
        ..Source::default()
    }
}

impl Bench {
    fn attach(&mut self, client: usize, session: SessionId, link: NewLink) -> LinkId {
        let machine = &mut self.clients[client].machine;
        let link = machine.attach(session, link).expect("attached");
        self.settle();
        link
    }

    fn operator(&mut self, credit: u32) -> Operator {
        let client = self.connect(client_config());
        let session = self.clients[client].machine.begin().expect("open");
        self.settle();
        let asks = link_between("asks", true, source("here"), NODE);
        let asks = self.attach(client, session, asks);
        let answers = link_between("answers", false, source(NODE), "me");
        let answers = self.attach(client, session, answers);
        let operator = Operator {
            client,
            session,
            asks,
            answers,
            sent: 0,
        };
        self.grant(&operator, credit);
        self.take_events(client);
        operator
    }

    fn grant(&mut self, operator: &Operator, credit: u32) {
        let machine = &mut self.clients[operator.client].machine;
        machine.grant(operator.answers, credit).expect("attached");
        self.settle();
    }

    fn ask(&mut self, operator: &mut Operator, payload: &Bytes) {
        operator.sent += 1;
        let out = OutgoingDelivery {
            tag: DeliveryTag::new(&operator.sent.to_be_bytes()).expect("short"),
            token: operator.sent,
            settled: false,
            message_format: 0,
            head: &[],
            payload,
            batchable: false,
        };
        let machine = &mut self.clients[operator.client].machine;
        machine.send(operator.asks, out).expect("credit");
        self.settle();
    }

    /// What came on the operator's links: outcomes of requests, and answers, which are accepted.
    fn heard(&mut self, operator: &Operator) -> (Vec<DeliveryState>, Vec<Heard>) {
        let (mut outcomes, mut answers) = (Vec::new(), Vec::new());
        for event in self.take_events(operator.client) {
            match event {
                Event::Outcome { state, .. } => outcomes.extend(state),
                Event::Delivery {
                    delivery, payload, ..
                } => {
                    let machine = &mut self.clients[operator.client].machine;
                    let accepted = machine.settle(delivery, DeliveryState::Accepted, true);
                    accepted.expect("unsettled");
                    answers.push(Heard::of(&payload));
                }
                _ => {}
            }
        }
        self.settle();
        (outcomes, answers)
    }

    /// Asks and takes the one answer.
    fn told(&mut self, operator: &mut Operator, ask: &Ask) -> Heard {
        self.ask(operator, &ask.encode());
        let (outcomes, mut answers) = self.heard(operator);
        assert_eq!(outcomes, [DeliveryState::Accepted], "{answers:?}");
        assert_eq!(answers.len(), 1);
        answers.remove(0)
    }

    fn credit(&self, operator: &Operator) -> u32 {
        self.clients[operator.client].machine.credit(operator.asks)
    }
}

#[test]
fn queues_are_made_read_purged_and_deleted() {
    let mut bench = Bench::new();
    let mut operator = bench.operator(10);
    let settings = map(&[
        ("max_length", Value::Uint(5)),
        ("durable", Value::Bool(true)),
    ]);
    let create = Ask::new("CREATE", "queue", "orders").body(settings);
    let heard = bench.told(&mut operator, &create);
    assert_eq!(heard.status(), Value::Int(201));
    assert_eq!(heard.properties.correlation_id, Some(Value::Ulong(7)));
    assert_eq!(heard.properties.to, Some(text("me")));
    assert_eq!(at(&heard.body, "name"), text("orders"));
    let settings = at(&heard.body, "settings");
    assert_eq!(at(&settings, "max_length"), Value::Long(5));
    // The same once more is there, another one is a conflict.
    assert_eq!(bench.told(&mut operator, &create).status(), Value::Int(200));
    let other = Ask::new("CREATE", "queue", "orders");
    let heard = bench.told(&mut operator, &other);
    assert_eq!(heard.status(), Value::Int(409));
    assert_eq!(at(&heard.body, "field"), text("max_length"));

    let mut read = Ask::new("READ", "queue", "orders");
    read.properties.correlation_id = Some(text("mine"));
    let heard = bench.told(&mut operator, &read);
    assert_eq!(heard.status(), Value::Int(200));
    assert_eq!(heard.properties.correlation_id, Some(text("mine")));
    assert_eq!(at(&heard.body, "depth"), Value::Long(0));

    bench.publish(&Bytes::from_static(&[0x00, 0x53, 0x77, 0x40]));
    let heard = bench.told(&mut operator, &Ask::new("PURGE", "queue", "q1"));
    assert_eq!(heard.status(), Value::Int(200));
    assert_eq!(at(&heard.body, "purged"), Value::Long(1));
    bench.publish(&Bytes::from_static(&[0x00, 0x53, 0x77, 0x40]));
    let if_empty = map(&[("if_empty", Value::Bool(true))]);
    let delete = Ask::new("DELETE", "queue", "q1").body(if_empty);
    assert_eq!(bench.told(&mut operator, &delete).status(), Value::Int(409));
    let heard = bench.told(&mut operator, &Ask::new("DELETE", "queue", "q1"));
    assert_eq!(heard.status(), Value::Int(204));
    assert_eq!(at(&heard.told, "messages"), Value::Long(1));
    let heard = bench.told(&mut operator, &Ask::new("READ", "queue", "q1"));
    assert_eq!(heard.status(), Value::Int(404));
}

#[test]
fn exchanges_are_bound_and_unbound() {
    let mut bench = Bench::new();
    let mut operator = bench.operator(10);
    let topic = map(&[("type", text("topic"))]);
    let heard = bench.told(
        &mut operator,
        &Ask::new("CREATE", "exchange", "x").body(topic),
    );
    assert_eq!(heard.status(), Value::Int(201));
    let arguments = map(&[("a", Value::Binary(Bytes::from_static(b"\x01")))]);
    let binding = map(&[
        ("exchange", text("x")),
        ("queue", text("q1")),
        ("routing_key", text("a.*")),
        ("arguments", arguments),
    ]);
    let bind = Ask::new("BIND", "", "").body(binding.clone());
    assert_eq!(bench.told(&mut operator, &bind).status(), Value::Int(201));
    assert_eq!(bench.told(&mut operator, &bind).status(), Value::Int(200));
    let of_queue = map(&[("queue", text("q1"))]);
    let query = Ask::new("QUERY", "", "").with("entityType", text("binding"));
    let heard = bench.told(&mut operator, &query.body(of_queue));
    assert_eq!(at(&heard.told, "count"), Value::Long(1));
    let unbind = Ask::new("UNBIND", "binding", "").body(binding);
    assert_eq!(bench.told(&mut operator, &unbind).status(), Value::Int(204));
    assert_eq!(bench.told(&mut operator, &unbind).status(), Value::Int(404));
    let heard = bench.told(&mut operator, &Ask::new("DELETE", "exchange", "x"));
    assert_eq!(heard.status(), Value::Int(204));
    let heard = bench.told(&mut operator, &Ask::new("DELETE", "exchange", "amq.topic"));
    assert_eq!(heard.status(), Value::Int(403));
}

#[test]
fn streams_are_no_queues() {
    let mut bench = Bench::new();
    let mut operator = bench.operator(10);
    let settings = map(&[("max_messages", Value::Ulong(9))]);
    let heard = bench.told(
        &mut operator,
        &Ask::new("CREATE", "stream", "log").body(settings),
    );
    assert_eq!(heard.status(), Value::Int(201));
    assert_eq!(at(&heard.body, "type"), text("stream"));
    assert_eq!(at(&heard.body, "next_offset"), Value::Long(0));
    for operation in ["READ", "DELETE", "PURGE"] {
        let heard = bench.told(&mut operator, &Ask::new(operation, "stream", "q1"));
        assert_eq!(heard.status(), Value::Int(404), "{operation}");
    }
    let heard = bench.told(&mut operator, &Ask::new("DELETE", "stream", "log"));
    assert_eq!(heard.status(), Value::Int(204));
}

#[test]
fn lists_come_in_parts() {
    let mut bench = Bench::new();
    let mut operator = bench.operator(10);
    for name in ["q2", "q3"] {
        bench.told(&mut operator, &Ask::new("CREATE", "queue", name));
    }
    bench.told(&mut operator, &Ask::new("CREATE", "stream", "s1"));
    let names = map(&[("attributeNames", Value::List(vec![text("name"), text("x")]))]);
    let mut seen = Vec::new();
    let mut next = Value::Uint(0);
    while next != Value::Null {
        let query = Ask::new("QUERY", "org.amqp.management", "self")
            .with("entityType", text("queue"))
            .with("offset", next)
            .with("count", Value::Int(2))
            .body(names.clone());
        let heard = bench.told(&mut operator, &query);
        assert_eq!(heard.status(), Value::Int(200));
        let columns = Value::List(vec![text("name"), text("x")]);
        assert_eq!(at(&heard.body, "attributeNames"), columns);
        let Value::List(rows) = at(&heard.body, "results") else {
            panic!("no rows");
        };
        let count = Value::Long(rows.len() as i64);
        assert_eq!(at(&heard.told, "count"), count);
        seen.extend(rows);
        next = at(&heard.told, "next");
    }
    let row = |name| Value::List(vec![text(name), Value::Null]);
    assert_eq!(seen, [row("q1"), row("q2"), row("q3")]);
}

#[test]
fn what_cannot_be_is_answered_and_what_cannot_be_answered_is_rejected() {
    let mut bench = Bench::new();
    let mut operator = bench.operator(20);
    let create = |settings| Ask::new("CREATE", "queue", "q9").body(map(settings));
    let queue_list = |count| Ask::new("QUERY", "queue", "").with("count", count);
    let condition = map(&[("if_emty", Value::Bool(true))]);
    for (ask, status) in [
        (Ask::new("FROB", "queue", "q1"), 501),
        (Ask::new("UPDATE", "queue", "q1"), 501),
        (Ask::new("READ", "binding", "q1"), 501),
        (Ask::new("PURGE", "exchange", "amq.topic"), 501),
        (Ask::new("READ", "", "q1"), 400),
        (Ask::new("READ", "qeue", "q1"), 400),
        (Ask::new("READ", "queue", ""), 400),
        (create(&[("max_lenght", Value::Uint(1))]), 400),
        (create(&[("max_length", text("1"))]), 400),
        (create(&[("max_length", Value::Decimal32([0; 4]))]), 400),
        (Ask::new("CREATE", "queue", NODE), 403),
        (Ask::new("DELETE", "queue", "q1").body(condition), 400),
        (Ask::new("READ", "queue", "q1").body(text("x")), 400),
        (Ask::new("BIND", "", "").body(map(&[])), 400),
        (queue_list(Value::Int(-1)), 400),
        (queue_list(text("1")), 400),
        (Ask::new("QUERY", "org.amqp.management", "self"), 400),
    ] {
        let heard = bench.told(&mut operator, &ask);
        assert_eq!(heard.status(), Value::Int(status), "{:?}", ask.told);
        let detail = at(&heard.body, "detail");
        assert_eq!(detail, at(&heard.told, "statusDescription"));
    }
    // Clients may leave the body out.
    let mut bare = BytesMut::new();
    let ask = Ask::new("GET-TYPES", "", "");
    ask.properties.clone().encode(&mut bare);
    put(&mut bare, 0x74, Value::Map(ask.told.clone()));
    bench.ask(&mut operator, &bare.freeze());
    let (_, answers) = bench.heard(&operator);
    assert_eq!(at(&answers[0].body, "queue"), Value::List(vec![]));

    let mut nowhere = Ask::new("READ", "queue", "q1");
    nowhere.properties.reply_to = None;
    let garbage = Bytes::from_static(&[0x00, 0x53, 0x99]);
    let no_queues = [
        "/exchanges/amq.topic",
        "$management",
        "a\u{7}",
        &"q".repeat(256),
    ];
    let no_queues = no_queues.map(|reply_to| {
        let mut ask = Ask::new("CREATE", "queue", "never");
        ask.properties.reply_to = Some(text(reply_to));
        ask.encode()
    });
    for payload in [nowhere.encode(), garbage].into_iter().chain(no_queues) {
        bench.ask(&mut operator, &payload);
        let (outcomes, answers) = bench.heard(&operator);
        assert!(
            matches!(outcomes[..], [DeliveryState::Rejected(Some(_))]),
            "{outcomes:?}"
        );
        assert!(answers.is_empty());
    }
}

#[test]
fn answers_go_to_a_queue_that_reply_to_names() {
    let mut bench = Bench::new();
    let mut operator = bench.operator(0);
    let mut ask = Ask::new("READ", "queue", "q1");
    ask.properties.reply_to = Some(text("q1"));
    bench.ask(&mut operator, &ask.encode());
    assert_eq!(bench.heard(&operator).0, [DeliveryState::Accepted]);
    let (_, got) = bench.get();
    assert_eq!(Heard::of(&got.payload).status(), Value::Int(200));
    // One that is not there loses the answer, and nothing else.
    ask.properties.reply_to = Some(text("nobody"));
    for _ in 0..40 {
        bench.ask(&mut operator, &ask.encode());
    }
    let (outcomes, _) = bench.heard(&operator);
    assert_eq!(outcomes.len(), 40);
}

#[test]
fn answers_wait_for_credit_and_requests_for_answers() {
    let mut bench = Bench::new();
    let mut operator = bench.operator(0);
    let read = Ask::new("READ", "queue", "q1").encode();
    let first = bench.credit(&operator);
    for _ in 0..first {
        bench.ask(&mut operator, &read);
    }
    assert_eq!(bench.credit(&operator), 0);
    let (outcomes, answers) = bench.heard(&operator);
    assert_eq!(outcomes.len(), first as usize);
    assert!(answers.is_empty());
    bench.grant(&operator, 3);
    assert_eq!(bench.heard(&operator).1.len(), 3);
    assert!(bench.credit(&operator) > 0);
    bench.grant(&operator, 100);
    assert_eq!(bench.heard(&operator).1.len(), first as usize - 3);
    let half = first / 2;
    assert!(bench.credit(&operator) >= half);
}

#[test]
fn answers_go_with_their_link_and_credit_comes_back() {
    let mut bench = Bench::new();
    let mut operator = bench.operator(0);
    let read = Ask::new("READ", "queue", "q1").encode();
    while bench.credit(&operator) > 0 {
        bench.ask(&mut operator, &read);
    }
    let machine = &mut bench.clients[operator.client].machine;
    machine
        .detach(operator.answers, true, None)
        .expect("attached");
    bench.settle();
    assert!(bench.credit(&operator) > 0);
    let answers = link_between("answers", false, source(NODE), "me");
    operator.answers = bench.attach(operator.client, operator.session, answers);
    bench.grant(&operator, 10);
    assert!(bench.heard(&operator).1.is_empty());
    let heard = bench.told(&mut operator, &Ask::new("READ", "queue", "q1"));
    assert_eq!(heard.status(), Value::Int(200));
}

#[test]
fn a_drain_ends_when_no_answer_waits() {
    let mut bench = Bench::new();
    let mut operator = bench.operator(0);
    bench.ask(&mut operator, &Ask::new("READ", "queue", "q1").encode());
    let machine = &mut bench.clients[operator.client].machine;
    machine.grant_drain(operator.answers, 5).expect("attached");
    bench.settle();
    let events = bench.take_events(operator.client);
    let is_answer = |event: &&Event| matches!(event, Event::Delivery { .. });
    assert_eq!(events.iter().filter(is_answer).count(), 1);
    assert!(
        matches!(events.last(), Some(Event::Flow { .. })),
        "{events:?}"
    );
    let machine = &bench.clients[operator.client].machine;
    assert_eq!(machine.credit(operator.answers), 0);
}

#[test]
fn an_answer_too_large_for_its_link_says_so() {
    let mut bench = Bench::new();
    let mut operator = bench.operator(0);
    let machine = &mut bench.clients[operator.client].machine;
    machine
        .detach(operator.answers, true, None)
        .expect("attached");
    bench.settle();
    let answers = NewLink {
        max_message_size: Some(400),
        ..link_between("small", false, source(NODE), "me")
    };
    operator.answers = bench.attach(operator.client, operator.session, answers);
    bench.grant(&operator, 10);
    bench.take_events(operator.client);
    let heard = bench.told(&mut operator, &Ask::new("READ", "queue", "q1"));
    assert_eq!(heard.status(), Value::Int(413));
    // What was changed is said, without what it looks like now.
    let heard = bench.told(&mut operator, &Ask::new("CREATE", "queue", "q2"));
    assert_eq!(heard.status(), Value::Int(201));
    assert_eq!(heard.body, map(&[]));
}

#[test]
fn senders_to_the_node_are_few() {
    let mut bench = Bench::new();
    let operator = bench.operator(0);
    for n in 0..4 {
        let asks = link_between(&format!("asks{n}"), true, source("here"), NODE);
        bench.attach(operator.client, operator.session, asks);
    }
    let events = bench.take_events(operator.client);
    let is_refused = |event: &&Event| {
        matches!(event, Event::LinkClosed { error: Some(error), .. }
            if error.condition.as_str() == "amqp:resource-limit-exceeded")
    };
    assert_eq!(events.iter().filter(is_refused).count(), 1, "{events:?}");
}
