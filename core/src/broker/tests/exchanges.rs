//! Exchanges and bindings in the broker: declared, routed by, stored and deleted.

use bytes::Bytes;

use super::harness::*;
use crate::broker::{BrokerConfig, Limits, Now, Overflow, QueueSpec};
use crate::route::{BindingSpec, Datum, ExchangeKind, ExchangeSpec};
use crate::store::Op;
use crate::vocab::{Address, Envelope, NodeKind, Notice, Reason, Verdict};

pub(super) fn exchange(name: &str, key: Option<&str>) -> Address {
    Address::Exchange {
        name: name.to_owned(),
        key: key.map(str::to_owned),
    }
}

pub(super) fn keyed(key: &str) -> Envelope {
    Envelope {
        subject: Some(Bytes::copy_from_slice(key.as_bytes())),
        ..Envelope::default()
    }
}

/// Queues `a`, `b` and `c` at a topic exchange `logs`: `a` by `a.#`, `b` by `*.b`.
fn logs() -> BrokerConfig {
    BrokerConfig {
        exchanges: vec![ExchangeSpec::new("logs", ExchangeKind::Topic)],
        bindings: vec![
            BindingSpec::to_queue("logs", "a", "a.#"),
            BindingSpec::to_queue("logs", "b", "*.b"),
        ],
        ..config(["a", "b", "c"].map(QueueSpec::new))
    }
}

fn lengths(rig: &Rig) -> [usize; 3] {
    ["a", "b", "c"].map(|name| {
        rig.broker
            .queue_counters(name)
            .map_or(usize::MAX, |counters| counters.messages)
    })
}

fn last_verdict(rig: &mut Rig) -> Verdict {
    rig.verdicts(A).pop().expect("it is told").2
}

#[test]
fn a_message_goes_to_every_queue_whose_binding_takes_it_and_to_none_else() {
    let mut rig = Rig::new(logs());
    rig.produce(A, P, exchange("logs", None));
    assert!(matches!(
        &rig.told(A)[..],
        [Notice::ProducerOpened { opened, .. }]
            if opened.kind == NodeKind::Exchange && opened.name == "logs"
    ));
    for (key, expected, verdict) in [
        ("a", [1, 0, 0], Verdict::Accepted),
        ("a.b", [2, 1, 0], Verdict::Accepted),
        ("a.b", [3, 2, 0], Verdict::Accepted),
        ("x.b", [3, 3, 0], Verdict::Accepted),
        ("c", [3, 3, 0], Verdict::Unroutable),
    ] {
        rig.publish(A, P, message("m", keyed(key)));
        assert_eq!(last_verdict(&mut rig), verdict, "{key}");
        assert_eq!(lengths(&rig), expected, "{key}");
    }
    // Without a subject the key is empty.
    rig.publish(A, P, message("m", Envelope::default()));
    assert_eq!(last_verdict(&mut rig), Verdict::Unroutable);
}

#[test]
fn the_key_of_the_address_goes_before_the_subject() {
    let mut rig = Rig::new(logs());
    rig.produce(A, P, exchange("logs", Some("x.b")));
    rig.produce(A, C, named("logs"));
    rig.produce(A, D, Address::Anonymous);
    rig.told(A);
    rig.publish(A, P, message("m", keyed("a")));
    assert_eq!(lengths(&rig), [0, 1, 0]);
    rig.publish(A, C, message("m", keyed("a")));
    assert_eq!(lengths(&rig), [1, 1, 0]);
    for (to, subject, expected) in [
        ("/exchanges/logs/a.b", "c", [2, 2, 0]),
        ("/exchanges/logs/a.b", "c", [3, 3, 0]),
        ("/exchanges/logs", "a", [4, 3, 0]),
        ("/exchanges/logs", "x.b", [4, 4, 0]),
        ("logs", "a", [5, 4, 0]),
        ("c", "a", [5, 4, 1]),
        ("logs", "a.b", [6, 5, 1]),
        ("/queues/logs", "a", [6, 5, 1]),
        ("/exchanges/none/a", "a", [6, 5, 1]),
    ] {
        let envelope = Envelope {
            to: Some(Bytes::copy_from_slice(to.as_bytes())),
            ..keyed(subject)
        };
        rig.publish(A, D, message("m", envelope));
        assert_eq!(lengths(&rig), expected, "{to} {subject}");
    }
}

#[test]
fn a_queue_goes_before_an_exchange_of_its_name() {
    let mut rig = Rig::new(BrokerConfig {
        exchanges: vec![ExchangeSpec::new("c", ExchangeKind::Fanout)],
        bindings: vec![BindingSpec::to_queue("c", "a", "")],
        ..config(["a", "b", "c"].map(QueueSpec::new))
    });
    rig.produce(A, P, named("c"));
    rig.publish(A, P, message("m", Envelope::default()));
    assert_eq!(lengths(&rig), [0, 0, 1]);
    rig.produce(A, C, exchange("c", None));
    rig.publish(A, C, message("m", Envelope::default()));
    assert_eq!(lengths(&rig), [1, 0, 1]);
}

#[test]
fn a_remembered_route_follows_every_change() {
    let mut rig = Rig::new(logs());
    rig.produce(A, P, exchange("logs", None));
    rig.publish(A, P, message("m", keyed("a.b")));
    assert_eq!(lengths(&rig), [1, 1, 0]);
    let to_c = BindingSpec::to_queue("logs", "c", "#");
    assert_eq!(rig.broker.bind(to_c.clone(), None), Ok(true));
    assert_eq!(rig.broker.bind(to_c.clone(), None), Ok(false));
    rig.publish(A, P, message("m", keyed("a.b")));
    assert_eq!(lengths(&rig), [2, 2, 1]);
    rig.broker
        .unbind(rig.now, &to_c, None)
        .expect("it is there");
    rig.broker.delete_queue(rig.now, "b").expect("it is there");
    // Another queue in the place of the old one has no binding.
    rig.broker
        .declare_queue(QueueSpec::new("b"), None)
        .expect("the name is free");
    rig.publish(A, P, message("m", keyed("a.b")));
    assert_eq!(lengths(&rig), [3, 0, 1]);
    let reason = rig.broker.unbind(rig.now, &to_c, None);
    assert_eq!(
        reason.map_err(|refusal| refusal.reason),
        Err(Reason::NotFound)
    );
}

#[test]
fn headers_decide_message_by_message() {
    let arguments = [("kind".to_owned(), Datum::Text("x".to_owned()))];
    let mut rig = Rig::new(BrokerConfig {
        bindings: vec![BindingSpec {
            arguments: arguments.into(),
            ..BindingSpec::to_queue("amq.headers", "a", "")
        }],
        ..config(["a", "b", "c"].map(QueueSpec::new))
    });
    rig.produce(A, P, exchange("amq.headers", None));
    rig.told(A);
    // Application properties (0x74) of one entry: kind = x, then kind = y.
    let with = |kind: &[u8; 1]| {
        let mut payload = vec![0x00, 0x53, 0x74, 0xc1, 0x0a, 0x02, 0xa1, 0x04];
        payload.extend_from_slice(b"kind\xa1\x01");
        payload.extend_from_slice(kind);
        payload.extend_from_slice(&[0x00, 0x53, 0x77, 0x40]);
        crate::vocab::Message {
            envelope: keyed("same"),
            format: crate::vocab::Format::Amqp(0),
            payload: Bytes::from(payload),
        }
        .share()
    };
    for (kind, verdict) in [
        (b"x", Verdict::Accepted),
        (b"y", Verdict::Unroutable),
        (b"x", Verdict::Accepted),
        (b"y", Verdict::Unroutable),
    ] {
        rig.publish(A, P, with(kind));
        assert_eq!(last_verdict(&mut rig), verdict);
    }
    assert_eq!(lengths(&rig), [2, 0, 0]);
}

#[test]
fn ou_07_a_publish_is_in_all_its_queues_or_in_none() {
    let mut small = QueueSpec::new("b");
    small.max_length = Some(1);
    let bindings = ["a", "b", "c"].map(|queue| BindingSpec::to_queue("amq.fanout", queue, ""));
    let mut rig = Rig::new(BrokerConfig {
        bindings: bindings.to_vec(),
        ..config([QueueSpec::new("a"), small.clone(), QueueSpec::new("c")])
    });
    rig.produce(A, P, named("amq.fanout"));
    rig.told(A);
    rig.publish(A, P, message("0", durable()));
    assert_eq!(last_verdict(&mut rig), Verdict::Accepted);
    rig.publish(A, P, message("1", durable()));
    assert_eq!(last_verdict(&mut rig), Verdict::Full("b".into()));
    assert_eq!(lengths(&rig), [1, 1, 1]);
    // A queue that drops its oldest is never in the way.
    rig.broker.delete_queue(rig.now, "b").expect("it is there");
    small.overflow = Overflow::DropHead;
    rig.broker.declare_queue(small, None).expect("it is free");
    let again = BindingSpec::to_queue("amq.fanout", "b", "");
    rig.broker.bind(again, None).expect("it can be bound");
    for _ in 0..3 {
        rig.publish(A, P, message("2", durable()));
        assert_eq!(last_verdict(&mut rig), Verdict::Accepted);
    }
    assert_eq!(lengths(&rig), [4, 1, 4]);
    assert_eq!(rig.broker.counters().bytes, rig.broker.counted_bytes());
}

#[test]
fn the_memory_limit_counts_every_queue_before_any_takes_it() {
    let one = message("m", Envelope::default()).cost();
    let mut rig = Rig::new(BrokerConfig {
        limits: Limits {
            memory_max_bytes: 2 * one,
            ..Limits::default()
        },
        bindings: ["a", "b", "c"]
            .map(|queue| BindingSpec::to_queue("amq.fanout", queue, ""))
            .to_vec(),
        ..config(["a", "b", "c"].map(QueueSpec::new))
    });
    rig.produce(A, P, named("amq.fanout"));
    rig.told(A);
    rig.publish(A, P, message("m", Envelope::default()));
    let full = Verdict::Rejected(Reason::LimitExceeded);
    assert_eq!(last_verdict(&mut rig), full);
    assert_eq!(lengths(&rig), [0, 0, 0]);
}

#[test]
fn a_body_is_stored_once_and_confirmed_when_it_is_safe() {
    let mut volatile = QueueSpec::new("c");
    volatile.durable = false;
    let mut rig = Rig::new(BrokerConfig {
        bindings: ["a", "b", "c"]
            .map(|queue| BindingSpec::to_queue("amq.fanout", queue, ""))
            .to_vec(),
        ..config([QueueSpec::new("a"), QueueSpec::new("b"), volatile])
    });
    rig.produce(A, P, named("amq.fanout"));
    for (port, queue) in [(C, "a"), (D, "c")] {
        rig.consume(B, port, consumer(named(queue)));
        rig.permit(B, port, 10);
    }
    rig.told(A);
    rig.told(B);
    rig.is_instant = false;
    let before = rig.log.len();
    rig.publish(A, P, message("m", durable()));
    let ops: Vec<_> = rig.log[before..].iter().flat_map(|b| &b.ops).collect();
    let [Op::Enqueued(stored)] = ops[..] else {
        panic!("one operation is enough: {ops:?}");
    };
    assert_eq!(stored.places.len(), 2);
    assert!(rig.verdicts(A).is_empty(), "nothing is safe yet");
    // What is not stored waits for nobody.
    assert_eq!(rig.texts(B, D), ["m"]);
    rig.persist_one();
    assert_eq!(rig.texts(B, C), ["m"]);
    assert_eq!(rig.verdicts(A), [(0, 0, Verdict::Accepted)]);
}

#[test]
fn a_conflict_names_the_field_and_reserved_names_are_kept() {
    let mut rig = Rig::new(logs());
    let same = ExchangeSpec::new("logs", ExchangeKind::Topic);
    assert_eq!(rig.broker.declare_exchange(same.clone()), Ok(false));
    let mut other = same;
    other.auto_delete = true;
    let refusal = rig.broker.declare_exchange(other).expect_err("it differs");
    assert_eq!(refusal.reason, Reason::Invalid);
    assert!(refusal.text.contains("auto_delete"), "{}", refusal.text);
    for name in ["", "amq.mine", "_mine"] {
        let spec = ExchangeSpec::new(name, ExchangeKind::Direct);
        let refusal = rig.broker.declare_exchange(spec).expect_err(name);
        assert_eq!(refusal.reason, Reason::NotAllowed, "{name}");
    }
    let delete = |rig: &mut Rig, name| rig.broker.delete_exchange(rig.now, name, true);
    let reason = |result: Result<(), crate::vocab::Refusal>| result.map_err(|r| r.reason);
    assert_eq!(reason(delete(&mut rig, "logs")), Err(Reason::Invalid));
    assert_eq!(reason(delete(&mut rig, "none")), Err(Reason::NotFound));
    assert_eq!(
        reason(delete(&mut rig, "amq.topic")),
        Err(Reason::NotAllowed)
    );
}

#[test]
fn a_binding_needs_both_its_ends_and_the_right_to_its_queue() {
    let mut rig = Rig::new(logs());
    let mut own = QueueSpec::new("own");
    own.exclusive = true;
    rig.broker.declare_queue(own, Some(B)).expect("it is free");
    let mut reason = |spec: BindingSpec, by| rig.broker.bind(spec, by).map_err(|r| r.reason);
    let to = BindingSpec::to_queue;
    assert_eq!(reason(to("logs", "none", "k"), None), Err(Reason::NotFound));
    assert_eq!(reason(to("none", "a", "k"), None), Err(Reason::NotFound));
    assert_eq!(reason(to("", "a", "a"), None), Err(Reason::NotAllowed));
    assert_eq!(reason(to("logs", "own", "k"), Some(A)), Err(Reason::Locked));
    assert_eq!(reason(to("logs", "own", "k"), Some(B)), Ok(true));
    rig.produce(A, P, exchange("logs", Some("k")));
    rig.told(A);
    rig.publish(A, P, message("m", durable()));
    assert_eq!(last_verdict(&mut rig), Verdict::Accepted);
}

#[test]
fn limits_bound_exchanges_and_bindings() {
    let mut rig = Rig::new(BrokerConfig {
        limits: Limits {
            // Four always exist.
            exchanges_max: 5,
            bindings_max: 1,
            ..Limits::default()
        },
        ..config(["a"].map(QueueSpec::new))
    });
    let mut declare = |name| {
        let spec = ExchangeSpec::new(name, ExchangeKind::Direct);
        rig.broker.declare_exchange(spec).map_err(|r| r.reason)
    };
    assert_eq!(declare("x"), Ok(true));
    assert_eq!(declare("y"), Err(Reason::LimitExceeded));
    let mut bind = |key| {
        let spec = BindingSpec::to_queue("x", "a", key);
        rig.broker.bind(spec, None).map_err(|r| r.reason)
    };
    assert_eq!(bind("1"), Ok(true));
    assert_eq!(bind("2"), Err(Reason::LimitExceeded));
    assert_eq!(bind("1"), Ok(false));
}

#[test]
fn links_go_with_their_exchange() {
    let mut rig = Rig::new(logs());
    rig.produce(A, P, exchange("logs", None));
    rig.produce(A, C, named("amq.topic"));
    rig.told(A);
    rig.broker
        .delete_exchange(rig.now, "logs", false)
        .expect("it is there");
    rig.flush();
    assert!(matches!(
        &rig.told(A)[..],
        [Notice::Closed { port: P, refusal }] if refusal.reason == Reason::Deleted
    ));
    assert_eq!(rig.broker.counters().producers, 1);
    assert_eq!(rig.broker.bindings().count(), 0);
}

#[test]
fn exchanges_that_go_with_their_last_binding_go_in_a_chain() {
    let mut rig = Rig::new(logs());
    for name in ["front", "back"] {
        let mut spec = ExchangeSpec::new(name, ExchangeKind::Fanout);
        spec.auto_delete = true;
        rig.broker.declare_exchange(spec).expect("it is free");
    }
    for spec in [
        BindingSpec::to_exchange("front", "back", ""),
        BindingSpec::to_queue("back", "c", ""),
    ] {
        rig.broker.bind(spec, None).expect("it can be bound");
    }
    rig.produce(A, P, named("front"));
    rig.publish(A, P, message("m", Envelope::default()));
    assert_eq!(lengths(&rig), [0, 0, 1]);
    rig.broker.delete_queue(rig.now, "c").expect("it is there");
    rig.flush();
    let names: Vec<_> = rig.broker.exchanges().map(|spec| &spec.name).collect();
    assert!(!names.iter().any(|name| *name == "front" || *name == "back"));
    assert!(matches!(
        rig.told(A).last(),
        Some(Notice::Closed { port: P, .. })
    ));
}

#[test]
fn what_is_durable_is_there_again_after_a_restart() {
    let mut rig = Rig::new(config(["a", "b", "c"].map(QueueSpec::new)));
    let mut transient = ExchangeSpec::new("transient", ExchangeKind::Fanout);
    transient.durable = false;
    let mut volatile = QueueSpec::new("volatile");
    volatile.durable = false;
    rig.broker
        .declare_queue(volatile, None)
        .expect("it is free");
    for spec in [
        transient,
        ExchangeSpec::new("logs", ExchangeKind::Topic),
        ExchangeSpec::new("gone", ExchangeKind::Topic),
    ] {
        rig.broker.declare_exchange(spec).expect("it is free");
    }
    let kept = BindingSpec::to_queue("logs", "a", "a.#");
    for spec in [
        kept.clone(),
        BindingSpec::to_exchange("logs", "gone", "x"),
        BindingSpec::to_queue("gone", "a", "a.#"),
        BindingSpec::to_queue("logs", "b", "b"),
        BindingSpec::to_queue("logs", "c", "c"),
        BindingSpec::to_queue("logs", "volatile", "v"),
        BindingSpec::to_queue("transient", "a", ""),
    ] {
        assert_eq!(rig.broker.bind(spec, None), Ok(true));
    }
    let b = BindingSpec::to_queue("logs", "b", "b");
    rig.broker.unbind(rig.now, &b, None).expect("it is there");
    rig.broker.delete_queue(rig.now, "c").expect("it is there");
    rig.broker
        .delete_exchange(rig.now, "gone", false)
        .expect("it is there");
    rig.flush();
    let mut rig = rig.restarted(BrokerConfig::default());
    let bindings: Vec<_> = rig.broker.bindings().map(|spec| (**spec).clone()).collect();
    assert_eq!(bindings, [kept]);
    let names: Vec<_> = rig.broker.exchanges().map(|spec| &spec.name[..]).collect();
    assert_eq!(names.len(), 5, "{names:?}");
    rig.produce(A, P, exchange("logs", Some("a.x")));
    rig.told(A);
    rig.publish(A, P, message("m", durable()));
    assert_eq!(last_verdict(&mut rig), Verdict::Accepted);
    // A message in several queues comes back into each of them.
    let also = BindingSpec::to_queue("logs", "b", "#");
    rig.broker.bind(also, None).expect("it can be bound");
    rig.publish(A, P, message("m", durable()));
    let rig = rig.restarted(BrokerConfig::default());
    assert_eq!(&lengths(&rig)[..2], [2, 1]);
}

#[test]
fn a_configuration_that_cannot_be_is_told_before_the_start() {
    let check = |config: BrokerConfig| config.check().map_err(|refusal| refusal.text);
    assert_eq!(check(logs()), Ok(()));
    let mut config = logs();
    config
        .bindings
        .push(BindingSpec::to_queue("logs", "none", "k"));
    let text = check(config).expect_err("the queue is missing");
    assert!(text.contains("'none'"), "{text}");
    let mut config = logs();
    config
        .exchanges
        .push(ExchangeSpec::new("logs", ExchangeKind::Direct));
    let text = check(config).expect_err("there are two of that name");
    assert!(text.contains("type"), "{text}");
    let _ = Now::default();
}

/// A binding that was never stored keeps an exchange that goes with its last one; the log does not say that the exchange
/// went, so it is there after a restart, whichever way its last stored binding went.
#[test]
fn a_log_is_taken_at_its_word_when_the_last_stored_binding_goes() {
    for by_queue in [false, true] {
        let mut rig = Rig::new(config([
            QueueSpec::new("kept"),
            QueueSpec {
                durable: false,
                ..QueueSpec::new("volatile")
            },
        ]));
        let mut spec = ExchangeSpec::new("e", ExchangeKind::Direct);
        spec.auto_delete = true;
        rig.broker.declare_exchange(spec).expect("it is new");
        for queue in ["kept", "volatile"] {
            let binding = BindingSpec::to_queue("e", queue, "k");
            rig.broker.bind(binding, None).expect("both are there");
        }
        rig.flush();
        if by_queue {
            assert_eq!(rig.broker.delete_queue(rig.now, "kept"), Ok(0));
        } else {
            let binding = BindingSpec::to_queue("e", "kept", "k");
            let unbound = rig.broker.unbind(rig.now, &binding, None);
            assert_eq!(unbound, Ok(()));
        }
        rig.flush();
        let again = rig.restarted(config([]));
        let is_there = again.broker.exchanges().any(|spec| spec.name == "e");
        assert!(is_there, "by the deletion of its queue: {by_queue}");
    }
}
