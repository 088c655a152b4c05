//! What configured queues and exchanges do, seen by a peer over AMQP: routing by every kind of exchange, priorities,
//! queues that expire, dead letters that go round, and the second settle mode of senders.

use qq_conformance::bed::node::{NodeBed, NodeOptions};
use qq_conformance::kit::{Env, Kit, Peer, rejected};
use qq_conformance::run::shared;
use qq_conformance::script::Failure;
use qq_conformance::wire::{Value, message, perf, text};
use qq_core::broker::{Overflow, QueueSpec};
use qq_core::route::{BindingSpec, Datum, ExchangeKind, ExchangeSpec};
use std::rc::Rc;

fn kit(options: NodeOptions) -> Kit {
    let env = Rc::new(Env {
        missing: Some("nope".into()),
        ..Env::fresh()
    });
    Kit::new(shared(NodeBed::new(options)), env, "model")
}

fn well<T>(result: Result<T, Failure>, kit: &Kit) -> T {
    result.unwrap_or_else(|e| panic!("{e:?}\n{}", kit.trace.borrow().join("\n")))
}

/// A peer with a sender to this address, handle 0.
fn sender_to(k: &mut Kit, address: &str) -> Peer {
    let mut p = well(k.session(), k);
    let target = perf("target").with("address", address);
    let attach = p.sender_attach("s", 0, "x").with("target", target);
    well(p.attach(attach), k);
    well(p.credit_wait(0), k);
    p
}

/// Application properties.
fn properties(pairs: &[(&str, Value)]) -> Vec<u8> {
    let pairs = pairs.iter().map(|(key, value)| (text(key), value.clone()));
    message::section(
        message::code::APPLICATION_PROPERTIES,
        Value::Map(pairs.collect()),
    )
}

fn subject(key: &str) -> Vec<u8> {
    perf("properties").with("subject", key).value().bytes()
}

/// Sends a message with these sections before its body; returns the outcome.
fn say(p: &mut Peer, k: &Kit, id: u32, sections: Vec<u8>, body: &str) -> &'static str {
    p.publish(0, id, &[sections, message::data(body.as_bytes())].concat());
    well(p.outcome(id), k)
}

#[test]
fn a_direct_exchange_routes_by_the_whole_key() {
    let mut k = kit(NodeOptions {
        queues: ["a", "b"].map(QueueSpec::new).to_vec(),
        exchanges: vec![ExchangeSpec::new("events", ExchangeKind::Direct)],
        bindings: vec![
            BindingSpec::to_queue("events", "a", "one"),
            BindingSpec::to_queue("events", "b", "two"),
            BindingSpec::to_queue("events", "b", "one.more"),
        ],
        ..NodeOptions::default()
    });
    let mut p = sender_to(&mut k, "/exchanges/events");
    for (id, key) in ["one", "two", "one.more", "three", "One"]
        .iter()
        .enumerate()
    {
        let expected = if id < 3 { "accepted" } else { "released" };
        assert_eq!(
            say(&mut p, &k, id as u32, subject(key), key),
            expected,
            "{key}"
        );
    }
    well(p.close(), &k);
    // The key in the address counts, whatever the subject.
    let mut p = sender_to(&mut k, "/exchanges/events/two");
    assert_eq!(say(&mut p, &k, 0, subject("one"), "by address"), "accepted");
    well(p.close(), &k);
    assert_eq!(well(k.bodies("a"), &k), ["one"]);
    assert_eq!(well(k.bodies("b"), &k), ["two", "one.more", "by address"]);
}

#[test]
fn a_headers_exchange_routes_by_application_properties() {
    let binding = |queue: &str, x_match: &str| BindingSpec {
        exchange: "amq.headers".into(),
        queue: Some(queue.into()),
        arguments: [
            ("x-match".to_owned(), Datum::Text(x_match.into())),
            ("region".to_owned(), Datum::Text("eu".into())),
            ("size".to_owned(), Datum::Int(7)),
        ]
        .into(),
        ..BindingSpec::default()
    };
    let mut k = kit(NodeOptions {
        queues: ["all", "any"].map(QueueSpec::new).to_vec(),
        bindings: vec![binding("all", "all"), binding("any", "any")],
        ..NodeOptions::default()
    });
    let mut p = sender_to(&mut k, "/exchanges/amq.headers");
    let eu = || ("region", text("eu"));
    // Numbers are compared by value, whatever their width.
    let both = properties(&[eu(), ("size", Value::Ubyte(7))]);
    assert_eq!(say(&mut p, &k, 0, both, "both"), "accepted");
    assert_eq!(say(&mut p, &k, 1, properties(&[eu()]), "one"), "accepted");
    let wrong = properties(&[("region", text("us")), ("size", text("7"))]);
    assert_eq!(say(&mut p, &k, 2, wrong, "none"), "released");
    well(p.close(), &k);
    assert_eq!(well(k.bodies("all"), &k), ["both"]);
    assert_eq!(well(k.bodies("any"), &k), ["both", "one"]);
}

/// A sender that lists its outcomes without `released` hears `rejected` of what no queue takes.
#[test]
fn what_no_queue_takes_is_rejected_where_released_is_not_understood() {
    let mut k = kit(NodeOptions::default());
    let mut p = well(k.session(), &k);
    let outcomes = ["amqp:accepted:list", "amqp:rejected:list"].map(qq_conformance::wire::sym);
    let source = perf("source").with("outcomes", Value::Array(outcomes.to_vec()));
    let target = perf("target").with("address", "/exchanges/amq.fanout");
    let attach = p.sender_attach("s", 0, "x");
    well(
        p.attach(attach.with("source", source).with("target", target)),
        &k,
    );
    well(p.credit_wait(0), &k);
    p.publish(0, 0, &message::data(b"lost"));
    let answer = well(p.disposition(0), &k);
    assert_eq!(answer.state(), "rejected");
    let error = answer.field("state").field(0);
    assert_eq!(error.field(0).words(), Some("amqp:not-found"));
}

#[test]
fn a_rejected_fanout_names_its_exchange_and_the_queue_that_is_full() {
    let full = QueueSpec {
        max_length: Some(1),
        ..QueueSpec::new("small")
    };
    let mut k = kit(NodeOptions {
        queues: vec![QueueSpec::new("large"), full],
        bindings: ["large", "small"]
            .map(|queue| BindingSpec::to_queue("amq.fanout", queue, ""))
            .to_vec(),
        ..NodeOptions::default()
    });
    let mut p = sender_to(&mut k, "/exchanges/amq.fanout");
    assert_eq!(say(&mut p, &k, 0, vec![], "0"), "accepted");
    p.publish(0, 1, &message::data(b"1"));
    let answer = well(p.disposition(1), &k);
    assert_eq!(answer.state(), "rejected");
    let error = answer.field("state").field(0);
    assert_eq!(error.field(0).words(), Some("amqp:resource-limit-exceeded"));
    let says = error.field(1).words().unwrap_or_default();
    assert!(
        says.contains("small") && says.contains("amq.fanout"),
        "{says}"
    );
    let Value::Map(info) = error.field(2) else {
        panic!("no info: {error:?}");
    };
    let find = |name: &str| {
        let found = info.iter().find(|(key, _)| key.words() == Some(name));
        found.and_then(|(_, value)| value.words())
    };
    assert_eq!(
        (find("queue"), find("exchange"), find("reason")),
        (Some("small"), Some("amq.fanout"), Some("limit"))
    );
    well(p.close(), &k);
    assert_eq!(
        well(k.bodies("large"), &k),
        ["0"],
        "none of its queues has it"
    );
}

/// PO-02, second run: priorities hold while a consumer waits; equal ones keep their order.
#[test]
fn priorities_hold_while_a_consumer_is_attached() {
    let mut k = kit(NodeOptions {
        queues: vec![QueueSpec {
            max_priority: 9,
            ..QueueSpec::new("q1")
        }],
        ..NodeOptions::default()
    });
    let mut consumer = well(k.session_as("consumer"), &k);
    well(consumer.receiver("r1", 1, "q1"), &k);
    let mut p = sender_to(&mut k, "q1");
    let priority = |priority: u8| perf("header").with("priority", priority).value().bytes();
    for (id, (level, body)) in [(1, "a1"), (9, "a9"), (5, "a5"), (9, "b9"), (1, "b1")]
        .into_iter()
        .enumerate()
    {
        assert_eq!(
            say(&mut p, &k, id as u32, priority(level), body),
            "accepted"
        );
    }
    // Without a header a message has priority 4.
    assert_eq!(say(&mut p, &k, 5, vec![], "none"), "accepted");
    consumer.credit(1, 10);
    let got = well(consumer.must_get_all("r1", 6), &k);
    let texts: Vec<_> = got.iter().map(|one| one.text()).collect();
    assert_eq!(texts, ["a9", "b9", "a5", "none", "a1", "b1"]);
}

#[test]
fn a_queue_expires_when_nobody_consumes_from_it() {
    let mut k = kit(NodeOptions {
        queues: vec![QueueSpec {
            expires_ms: Some(5_000),
            ..QueueSpec::new("nope")
        }],
        ..NodeOptions::default()
    });
    let mut p = well(k.session(), &k);
    well(p.receiver("r1", 1, "nope"), &k);
    for _ in 0..2 {
        k.wait(5_000);
        well(p.sync(), &k);
    }
    well(p.sender("s1", 2, "nope"), &k);
    well(p.detach(1, true), &k);
    k.wait(4_000);
    well(p.sync(), &k);
    assert_eq!(p.count("detach"), 0, "it is still there");
    k.wait(2_000);
    let remote = p.remote_handle(2).expect("attached");
    well(p.detached(remote, &["amqp:resource-deleted"]), &k);
    let attach = p.receiver_attach("r2", 3, "nope");
    well(p.attach_refused(attach, &["amqp:not-found"]), &k);
    well(p.close(), &k);
}

/// DL-01: rounds that contain a rejection go on. The retry queue sends back what expires there.
#[test]
fn a_retry_ring_that_a_consumer_drives_goes_on() {
    let to = |name: &str, target: &str| QueueSpec {
        dead_letter_routing_key: Some(target.to_owned()),
        ..QueueSpec::new(name)
    };
    let retry = QueueSpec {
        message_ttl_ms: Some(200),
        ..to("retry", "work")
    };
    let mut k = kit(NodeOptions {
        queues: vec![to("work", "retry"), retry],
        ..NodeOptions::default()
    });
    let mut p = well(k.session(), &k);
    well(p.receiver("r1", 1, "work"), &k);
    for message in 0..2 {
        let filled = k.fill_count("work", 1);
        well(filled, &k);
        for round in 0..4u64 {
            p.credit(1, 1);
            let got = well(p.must_get("r1"), &k);
            assert_eq!(got.text(), "m0", "message {message}, round {round}");
            if round > 0 {
                let sections = message::sections(&got.payload).expect("sections");
                let seen = format!("{sections:?}");
                assert!(
                    seen.contains("x-opt-deaths") && seen.contains("rejected"),
                    "{seen}"
                );
            }
            let state = match round {
                3 => perf("accepted").value(),
                _ => rejected("amqp:decode-error"),
            };
            p.settle_with(got.id, state);
        }
    }
    well(p.close(), &k);
}

/// DL-02: a ring in which messages expire by themselves comes to its end, and a queue that is its own grave does too.
#[test]
fn a_ring_of_expiries_comes_to_an_end() {
    let ring = |name: &str, target: &str, ttl_ms: u64| QueueSpec {
        message_ttl_ms: Some(ttl_ms),
        dead_letter_routing_key: Some(target.to_owned()),
        ..QueueSpec::new(name)
    };
    let mut k = kit(NodeOptions {
        queues: vec![
            ring("self", "self", 50),
            ring("one", "two", 10),
            ring("two", "one", 10),
        ],
        ..NodeOptions::default()
    });
    for queue in ["self", "one"] {
        let filled = k.fill_count(queue, 100);
        well(filled, &k);
    }
    k.wait(2_000);
    for queue in ["self", "one", "two", "self.dlq", "one.dlq", "two.dlq"] {
        assert_eq!(well(k.bodies(queue), &k).len(), 0, "left in {queue}");
    }
}

/// Overflow of a queue that keeps what it refuses: the sender hears `rejected`, the message is a dead letter.
#[test]
fn a_refused_message_can_be_kept_as_a_dead_letter() {
    let mut k = kit(NodeOptions {
        queues: vec![QueueSpec {
            max_length: Some(1),
            overflow: Overflow::RejectDlx,
            ..QueueSpec::new("q1")
        }],
        ..NodeOptions::default()
    });
    let mut p = sender_to(&mut k, "q1");
    assert_eq!(say(&mut p, &k, 0, vec![], "0"), "accepted");
    assert_eq!(say(&mut p, &k, 1, vec![], "1"), "rejected");
    well(p.close(), &k);
    assert_eq!(well(k.bodies("q1.dlq"), &k), ["1"]);
}

/// Part 2, 2.6.12: in the second mode the outcome comes unsettled, the sender settles, and what it has not settled holds
/// its credit.
#[test]
fn senders_get_the_second_mode_where_it_is_switched_on() {
    let mut k = kit(NodeOptions {
        senders_second: true,
        ..NodeOptions::default()
    });
    let mut p = well(k.session(), &k);
    let attach = p.sender_attach("s1", 0, "q1").with("rcv-settle-mode", 1u8);
    let answer = well(p.attach(attach), &k);
    assert_eq!(answer.number("rcv-settle-mode"), Some(1), "{answer:?}");
    well(p.credit_wait(0), &k);
    let credit = p.credit_left(0);
    for id in 0..credit {
        p.publish(0, id, &message::data(b"x"));
    }
    for id in 0..credit {
        let answer = well(p.disposition(id), &k);
        assert_eq!(
            (answer.state(), answer.flag("settled")),
            ("accepted", false)
        );
    }
    well(p.sync(), &k);
    assert_eq!(p.credit_left(0), 0, "nothing is settled yet");
    let settle = perf("disposition")
        .with("role", false)
        .with("first", 0u32)
        .with("last", credit - 1)
        .with("settled", true);
    p.send(0, settle);
    well(p.credit_wait(0), &k);
    // Of the last one only the outcome came: the message is in its queue all the same.
    p.publish(0, credit, &message::data(b"last"));
    assert_eq!(well(p.disposition(credit), &k).state(), "accepted");
    well(p.detach(0, true), &k);
    well(p.close(), &k);
    assert_eq!(well(k.bodies("q1"), &k).len(), credit as usize + 1);
}

/// A connection has so many transactions open; discharging one makes room.
#[test]
fn open_transactions_are_limited() {
    let mut k = kit(NodeOptions::default());
    let mut p = well(k.session(), &k);
    let attach = p.sender_attach("control", 0, "x");
    well(p.attach(attach.with("target", perf("coordinator"))), &k);
    let value = |of: Value| message::section(message::code::VALUE, of);
    let mut first = Vec::new();
    for id in 0..=256u32 {
        well(p.credit_wait(0), &k);
        p.publish(0, id, &value(perf("declare").value()));
        let answer = well(p.disposition(id), &k);
        if id == 256 {
            assert_eq!(answer.state(), "rejected");
            let error = answer.field("state").field(0);
            assert_eq!(error.field(0).words(), Some("amqp:resource-limit-exceeded"));
            continue;
        }
        assert_eq!(answer.state(), "declared", "transaction {id}");
        if id == 0 {
            first = answer.field("state").field(0).bytes();
        }
    }
    let id = Value::Raw(first);
    let discharge = perf("discharge").with("txn-id", id).with("fail", true);
    p.publish(0, 257, &value(discharge.value()));
    assert_eq!(well(p.disposition(257), &k).state(), "accepted");
    p.publish(0, 258, &value(perf("declare").value()));
    assert_eq!(well(p.disposition(258), &k).state(), "declared");
    well(p.close(), &k);
}

/// A sender that settles before it has heard the outcome is not waited for.
#[test]
fn a_sender_may_settle_before_the_outcome() {
    let mut k = kit(NodeOptions {
        senders_second: true,
        ..NodeOptions::default()
    });
    let mut p = well(k.session(), &k);
    let attach = p.sender_attach("s1", 0, "q1").with("rcv-settle-mode", 1u8);
    well(p.attach(attach), &k);
    well(p.credit_wait(0), &k);
    let credit = p.credit_left(0);
    for id in 0..3 * credit {
        well(p.credit_wait(0), &k);
        p.publish(0, id, &message::data(b"x"));
        let settle = perf("disposition").with("role", false).with("first", id);
        p.send(0, settle.with("settled", true));
    }
    well(p.sync(), &k);
    well(p.close(), &k);
    assert_eq!(well(k.bodies("q1"), &k).len(), 3 * credit as usize);
}
