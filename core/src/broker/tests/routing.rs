//! Where addresses lead.

use bytes::Bytes;

use super::harness::*;
use crate::broker::{BrokerConfig, QueueSpec};
use crate::vocab::{
    Address, ConsumerSpec, Envelope, NodeKind, Notice, ProducerOpened, Reason, Verdict,
};

fn opened(rig: &mut Rig, address: Address) -> Result<ProducerOpened, Reason> {
    rig.produce(A, P, address);
    match rig.told(A).pop() {
        Some(Notice::ProducerOpened { port: P, opened }) => {
            rig.close(A, P, false);
            Ok(*opened)
        }
        Some(Notice::Refused { port: P, refusal }) => Err(refusal.reason),
        other => panic!("{other:?}"),
    }
}

fn exchange(name: &str, key: Option<&str>) -> Address {
    Address::Exchange {
        name: name.to_owned(),
        key: key.map(str::to_owned),
    }
}

fn to(address: &str) -> Envelope {
    Envelope {
        to: Some(Bytes::copy_from_slice(address.as_bytes())),
        ..Envelope::default()
    }
}

fn subject(key: &str) -> Envelope {
    Envelope {
        subject: Some(Bytes::copy_from_slice(key.as_bytes())),
        ..Envelope::default()
    }
}

#[test]
fn targets_are_what_their_address_says() {
    let mut rig = Rig::with_q();
    let as_queue = Ok(ProducerOpened {
        kind: NodeKind::Queue,
        name: "q".to_owned(),
        rule: None,
    });
    assert_eq!(opened(&mut rig, named("q")), as_queue);
    assert_eq!(opened(&mut rig, Address::Queue("q".to_owned())), as_queue);
    for name in ["", "amq.direct", "amq.topic", "amq.fanout", "amq.headers"] {
        let as_exchange = Ok(ProducerOpened {
            kind: NodeKind::Exchange,
            name: name.to_owned(),
            rule: None,
        });
        assert_eq!(opened(&mut rig, exchange(name, None)), as_exchange);
        assert_eq!(opened(&mut rig, exchange(name, Some("k"))), as_exchange);
    }
    let as_exchange = Ok(ProducerOpened {
        kind: NodeKind::Exchange,
        name: "amq.topic".to_owned(),
        rule: None,
    });
    assert_eq!(opened(&mut rig, named("amq.topic")), as_exchange);
    let anonymous = Ok(ProducerOpened {
        kind: NodeKind::Anonymous,
        name: String::new(),
        rule: None,
    });
    assert_eq!(opened(&mut rig, Address::Anonymous), anonymous);
    for unknown in [
        named("r"),
        Address::Queue("r".to_owned()),
        Address::Stream("q".to_owned()),
        exchange("logs", None),
    ] {
        assert_eq!(opened(&mut rig, unknown), Err(Reason::NotFound));
    }
    assert_eq!(
        opened(&mut rig, Address::Queue("amq.topic".to_owned())),
        Err(Reason::NotFound)
    );
}

#[test]
fn a_refusal_names_the_address_and_what_to_do() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("orders\n"));
    rig.produce(A, P, named("orders"));
    let told = rig.told(A);
    let texts: Vec<_> = told
        .iter()
        .map(|notice| match notice {
            Notice::Refused { refusal, .. } => refusal.text.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(
        texts[0].contains("'orders\\n'") && !texts[0].contains('\n'),
        "{texts:?}"
    );
    assert!(
        texts[1].contains("'orders'") && texts[1].contains("auto_create_queues"),
        "{texts:?}"
    );
    // A refused port is free again.
    rig.produce(A, P, named("q"));
    assert!(matches!(rig.told(A)[..], [Notice::ProducerOpened { .. }]));
}

#[test]
fn sources_are_queues() {
    let mut rig = Rig::with_q();
    let mut reason = |address| {
        rig.consume(A, C, consumer(address));
        match rig.told(A).pop() {
            Some(Notice::Refused { refusal, .. }) => refusal.reason,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(reason(exchange("logs", None)), Reason::NotFound);
    assert_eq!(reason(named("r")), Reason::NotFound);
    assert_eq!(reason(Address::Stream("q".to_owned())), Reason::NotFound);
    assert_eq!(reason(Address::Anonymous), Reason::Invalid);
}

#[test]
fn unknown_names_are_made_when_that_is_on_and_the_name_is_not_excepted() {
    let made = BrokerConfig {
        auto_create_queues: true,
        auto_create_except: vec!["sys.".to_owned()],
        ..BrokerConfig::default()
    };
    let mut rig = Rig::new(made);
    rig.produce(A, P, named("fresh"));
    rig.consume(B, C, consumer(Address::Queue("fresh".to_owned())));
    rig.permit(B, C, 1);
    rig.publish(A, P, message("m", durable()));
    assert_eq!(rig.texts(B, C), ["m"]);
    assert_eq!(rig.broker.counters().queues, 1);
    rig.consume(B, D, consumer(named("sys.x")));
    assert!(matches!(rig.told(B)[..], [Notice::Refused { .. }]));
    // A message's own address makes its queue as an attach would; the key of an exchange does not.
    rig.produce(A, C, Address::Anonymous);
    rig.told(A);
    for (address, verdict) in [
        ("other", Verdict::Accepted),
        ("/queues/another", Verdict::Accepted),
        ("sys.y", Verdict::Unroutable),
        ("/exchanges//keyed", Verdict::Unroutable),
    ] {
        rig.publish(A, C, message("m", to(address)));
        let told = rig.verdicts(A);
        assert_eq!((told.len(), &told[0].2), (1, &verdict), "{address}");
    }
    assert_eq!(rig.broker.counters().queues, 3);
}

#[test]
fn the_anonymous_terminus_reads_every_messages_address() {
    let mut rig = Rig::new(config([QueueSpec::new("q"), QueueSpec::new("a b")]));
    rig.produce(A, P, Address::Anonymous);
    rig.told(A);
    let invalid = Verdict::Rejected(Reason::Invalid);
    for (envelope, verdict) in [
        (to("q"), Verdict::Accepted),
        (to("q"), Verdict::Accepted),
        (to("/queues/a%20b"), Verdict::Accepted),
        (to("amqp://host/q"), Verdict::Accepted),
        (to("/exchanges//q"), Verdict::Accepted),
        (to("nowhere"), Verdict::Unroutable),
        (to("/exchanges/amq.topic/q"), Verdict::Unroutable),
        (to("/streams/q"), Verdict::Unroutable),
        (to(""), invalid.clone()),
        (to("/queues/%zz"), invalid.clone()),
        (
            Envelope {
                to: Some(Bytes::from_static(b"\xff")),
                ..Envelope::default()
            },
            invalid.clone(),
        ),
        (Envelope::default(), invalid),
    ] {
        rig.publish(A, P, message("m", envelope.clone()));
        let told = rig.verdicts(A);
        assert_eq!((told.len(), &told[0].2), (1, &verdict), "{envelope:?}");
    }
    let waiting = |name| rig.broker.queue_counters(name).expect("it exists").waiting;
    assert_eq!((waiting("q"), waiting("a b")), (4, 1));
}

#[test]
fn a_remembered_route_does_not_outlive_its_queue() {
    let mut rig = Rig::new(config([QueueSpec::new("q"), QueueSpec::new("r")]));
    rig.produce(A, P, Address::Anonymous);
    rig.told(A);
    rig.publish(A, P, message("m", to("q")));
    rig.broker.delete_queue(rig.now, "q").expect("q exists");
    rig.publish(A, P, message("m", to("q")));
    // Another queue in the same place is another queue.
    rig.broker
        .declare_queue(QueueSpec::new("s"), None)
        .expect("the name is free");
    rig.publish(A, P, message("m", to("q")));
    rig.broker
        .declare_queue(QueueSpec::new("q"), None)
        .expect("the name is free");
    rig.publish(A, P, message("m", to("q")));
    let verdicts: Vec<_> = rig.verdicts(A).into_iter().map(|told| told.2).collect();
    assert_eq!(
        verdicts,
        [
            Verdict::Accepted,
            Verdict::Unroutable,
            Verdict::Unroutable,
            Verdict::Accepted
        ]
    );
    assert_eq!(
        rig.broker.queue_counters("s").expect("s exists").messages,
        0
    );
}

#[test]
fn the_default_exchange_routes_by_key_then_subject() {
    let mut rig = Rig::new(config([QueueSpec::new("q"), QueueSpec::new("r")]));
    rig.produce(A, P, exchange("", None));
    rig.produce(A, C, exchange("", Some("r")));
    rig.produce(A, D, Address::Anonymous);
    rig.told(A);
    for (port, envelope, verdict) in [
        (P, subject("q"), Verdict::Accepted),
        (P, subject("q"), Verdict::Accepted),
        (P, subject("r"), Verdict::Accepted),
        (P, subject("s"), Verdict::Unroutable),
        (P, Envelope::default(), Verdict::Unroutable),
        (C, subject("q"), Verdict::Accepted),
        (C, Envelope::default(), Verdict::Accepted),
        (
            D,
            Envelope {
                subject: subject("q").subject,
                ..to("/exchanges/")
            },
            Verdict::Accepted,
        ),
        (
            D,
            Envelope {
                subject: subject("r").subject,
                ..to("/exchanges/")
            },
            Verdict::Accepted,
        ),
        (D, to("/exchanges/"), Verdict::Unroutable),
    ] {
        rig.publish(A, port, message("m", envelope.clone()));
        assert_eq!(rig.verdicts(A)[0].2, verdict, "{port:?} {envelope:?}");
    }
    let waiting = |name| rig.broker.queue_counters(name).expect("it exists").waiting;
    assert_eq!((waiting("q"), waiting("r")), (3, 4));
}

#[test]
fn publishes_to_ports_that_are_not_open_are_dropped() {
    let mut rig = Rig::with_q();
    rig.publish(A, P, message("m", Envelope::default()));
    rig.consume(
        A,
        C,
        ConsumerSpec {
            settled: true,
            ..consumer(named("q"))
        },
    );
    rig.told(A);
    rig.publish(A, C, message("m", Envelope::default()));
    assert!(rig.told(A).is_empty());
    assert_eq!(rig.broker.counters().messages, 0);
}

#[test]
fn queues_made_on_attach_follow_their_template() {
    let auto_create_spec = QueueSpec {
        name: "ignored".to_owned(),
        max_length: Some(1),
        exclusive: true,
        ..QueueSpec::default()
    };
    let mut rig = Rig::new(BrokerConfig {
        auto_create_queues: true,
        auto_create_spec,
        ..BrokerConfig::default()
    });
    rig.produce(A, P, named("fresh"));
    rig.produce(B, P, named("fresh"));
    rig.told(A);
    rig.publish_all(A, P, ["0", "1"]);
    let full = Verdict::Full("fresh".into());
    assert_eq!(rig.verdicts(A), [(0, 0, Verdict::Accepted), (1, 1, full)]);
    assert_eq!(
        (
            rig.broker.counters().queues,
            rig.broker.counters().producers
        ),
        (1, 2)
    );
}
