//! Schemas without faces: what nobody checked ahead of the broker, what survives a restart, what is told to whom.

use std::sync::Arc;

use bytes::Bytes;

use super::harness::*;
use crate::admin::{PublishTo, Reply, Request};
use crate::broker::{GroupSpec, QueueSpec};
use crate::route::BindingSpec;
use crate::schema::{Candidate, Schema, SchemaMode, Source, Unfit};
use crate::store::Op;
use crate::vocab::{
    Address, Answer, Ask, AskId, Command, Format, Message, Notice, Reason, RuleId, Ticket, TxnId,
    Verdict,
};

const TEXT: &str = "syntax = \"proto3\"; message M { string name = 1; }";

fn candidate(subject: &str) -> Candidate {
    let schema = Schema::compile(&Source::Text(TEXT.to_owned()), "M").expect("it is one");
    Candidate {
        subject: subject.to_owned(),
        schema: Arc::new(schema),
        source: None,
        compatibility: None,
        refuses_unknown_fields: None,
    }
}

fn register(rig: &mut Rig, subject: &str) {
    let ask = Box::new(Ask::SchemaRegister {
        candidate: candidate(subject),
    });
    let id = AskId(9);
    rig.command(B, Command::Ask { id, ask });
}

/// An AMQP message of one data section with these octets.
fn with(body: &[u8]) -> Arc<Message> {
    let mut payload = vec![0x00, 0x53, 0x75, 0xa0, body.len() as u8];
    payload.extend_from_slice(body);
    Message {
        envelope: durable(),
        format: Format::Amqp(0),
        payload: payload.into(),
    }
    .share()
}

fn publish(rig: &mut Rig, ticket: u64, vetted: RuleId, body: &[u8]) -> Verdict {
    let command = Command::Publish {
        port: P,
        ticket: Ticket(ticket),
        message: with(body),
        vetted,
    };
    rig.command(A, command);
    rig.told(A)
        .into_iter()
        .find_map(|notice| match notice {
            Notice::Confirm { verdict, .. } => Some(verdict),
            _ => None,
        })
        .expect("an answer")
}

fn mismatch() -> Verdict {
    Verdict::Unfit(Box::new(Unfit::Mismatch {
        path: "name".to_owned(),
        what: "a string is not valid UTF-8".to_owned(),
    }))
}

const WRONG: &[u8] = &[0x0a, 0x01, 0xff];
const RIGHT: &[u8] = &[0x0a, 0x01, 0x61];

#[test]
fn producers_hear_of_a_rule_and_what_they_checked_is_not_checked_again() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    rig.told(A);
    register(&mut rig, "q");
    let told = rig.told(A);
    let [
        Notice::Ruled {
            port: P,
            rule: Some(rule),
        },
    ] = &told[..]
    else {
        panic!("{told:?}");
    };
    let id = rule.id;
    assert_eq!(publish(&mut rig, 0, RuleId::NONE, WRONG), mismatch());
    // The broker believes who says that it checked.
    assert_eq!(publish(&mut rig, 1, id, WRONG), Verdict::Accepted);
    register(&mut rig, "q");
    assert_eq!(publish(&mut rig, 2, id, WRONG), mismatch());
    assert_eq!(publish(&mut rig, 3, id, RIGHT), Verdict::Accepted);
    assert_eq!(rig.broker.delete_schema("q"), 2);
    rig.flush();
    assert_eq!(publish(&mut rig, 4, id, WRONG), Verdict::Accepted);
    assert_eq!(rig.broker.delete_schema("q"), 0);
}

#[test]
fn what_comes_through_an_exchange_is_checked_for_every_queue() {
    let mut rig = Rig::new(config([QueueSpec::new("a"), QueueSpec::new("b")]));
    for queue in ["a", "b"] {
        let binding = BindingSpec::to_queue("amq.fanout", queue, "");
        rig.broker.bind(binding, None).expect("both are there");
    }
    register(&mut rig, "b");
    let name = "amq.fanout".to_owned();
    rig.produce(A, P, Address::Exchange { name, key: None });
    rig.told(A);
    assert_eq!(publish(&mut rig, 0, RuleId::NONE, WRONG), mismatch());
    let waiting = |rig: &Rig, queue| rig.broker.queue_counters(queue).map(|q| q.messages);
    assert_eq!((waiting(&rig, "a"), waiting(&rig, "b")), (Some(0), Some(0)));
    assert_eq!(publish(&mut rig, 1, RuleId::NONE, RIGHT), Verdict::Accepted);
    assert_eq!((waiting(&rig, "a"), waiting(&rig, "b")), (Some(1), Some(1)));
}

#[test]
fn a_body_that_is_no_octets_does_not_fit() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    register(&mut rig, "q");
    rig.told(A);
    // An amqp-value section with the number 7.
    let message = Message {
        envelope: durable(),
        format: Format::Amqp(0),
        payload: Bytes::from_static(&[0x00, 0x53, 0x77, 0x53, 0x07]),
    };
    rig.publish(A, P, message.share());
    let told = rig.told(A);
    let no_body = Verdict::Unfit(Box::new(Unfit::NoBody));
    assert!(
        matches!(&told[..], [Notice::Confirm { verdict, .. }] if *verdict == no_body),
        "{told:?}"
    );
}

#[test]
fn schemas_survive_a_restart_and_answers_wait_for_the_store() {
    let mut rig = Rig::with_q();
    rig.is_instant = false;
    register(&mut rig, "q");
    assert_eq!(rig.told(B), []);
    rig.persist_one();
    let told = rig.told(B);
    let [Notice::Answered { answer, .. }] = &told[..] else {
        panic!("{told:?}");
    };
    let Answer::SchemaRegistered(record) = &**answer else {
        panic!("{answer:?}");
    };
    assert_eq!(record.registered_at_ms, rig.now.wall_ms);
    let op = rig.log.last().expect("a batch").ops.last().cloned();
    assert_eq!(
        op,
        Some(Op::SchemaRegistered {
            record: Arc::clone(record)
        })
    );
    let mut rig = rig.restarted(config([lossy("q")]));
    rig.produce(A, P, named("q"));
    rig.told(A);
    assert_eq!(publish(&mut rig, 0, RuleId::NONE, WRONG), mismatch());
}

#[test]
fn a_queue_can_name_a_subject_and_be_strict_by_itself() {
    let shared = QueueSpec {
        schema: Some("shared".to_owned()),
        schema_mode: Some(SchemaMode::Strict),
        ..QueueSpec::new("a")
    };
    let mut rig = Rig::new(config([shared]));
    rig.produce(A, P, named("a"));
    rig.told(A);
    let strict = Verdict::Unfit(Box::new(Unfit::NoSchema));
    assert_eq!(publish(&mut rig, 0, RuleId::NONE, RIGHT), strict);
    register(&mut rig, "a");
    rig.told(A);
    assert_eq!(publish(&mut rig, 1, RuleId::NONE, RIGHT), strict);
    register(&mut rig, "shared");
    rig.told(A);
    assert_eq!(publish(&mut rig, 2, RuleId::NONE, RIGHT), Verdict::Accepted);
    assert_eq!(publish(&mut rig, 3, RuleId::NONE, WRONG), mismatch());
}

#[test]
fn a_strict_broker_leaves_queues_of_its_own_alone() {
    let mut config = config([QueueSpec::new("q"), QueueSpec::new("q.dlq")]);
    config.schema_mode = SchemaMode::Strict;
    let mut rig = Rig::new(config);
    let lifetime = Default::default();
    let strict = Verdict::Unfit(Box::new(Unfit::NoSchema));
    for (address, verdict) in [
        (named("q"), strict),
        (named("q.dlq"), Verdict::Accepted),
        (Address::Dynamic { lifetime }, Verdict::Accepted),
    ] {
        rig.produce(A, P, address.clone());
        rig.told(A);
        assert_eq!(
            publish(&mut rig, 0, RuleId::NONE, WRONG),
            verdict,
            "{address:?}"
        );
        rig.command(
            A,
            Command::Close {
                port: P,
                forget: true,
                lost: false,
            },
        );
    }
}

#[test]
fn a_transaction_with_a_message_that_does_not_fit_can_only_be_rolled_back() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    register(&mut rig, "q");
    rig.told(A);
    let txn = TxnId(1);
    for (ticket, body) in [(0, RIGHT), (1, WRONG)] {
        stage(&mut rig, txn, ticket, body);
    }
    let verdicts: Vec<_> = rig.verdicts(A).into_iter().map(|told| told.2).collect();
    assert_eq!(verdicts, [Verdict::Accepted, mismatch()]);
    assert_eq!(discharge(&mut rig, txn), Some(Reason::Undecodable));
}

fn stage(rig: &mut Rig, txn: TxnId, ticket: u64, body: &[u8]) {
    let stage = Command::Stage {
        port: P,
        ticket: Ticket(ticket),
        txn,
        message: with(body),
    };
    rig.command(A, stage);
}

/// Discharges a transaction; what went wrong, if anything.
fn discharge(rig: &mut Rig, txn: TxnId) -> Option<Reason> {
    rig.told(A);
    rig.command(A, Command::Discharge { txn, fail: false });
    let told = rig.told(A);
    let [Notice::Discharged { fault, .. }] = &told[..] else {
        panic!("{told:?}");
    };
    fault.as_ref().map(|fault| fault.reason)
}

#[test]
fn a_transaction_keeps_the_rule_of_its_discharge() {
    let groups_only = QueueSpec {
        groups_only: true,
        ..lossy("r")
    };
    for (queue, group) in [("q", None), ("r", Some("g"))] {
        let mut rig = Rig::new(config([lossy("q"), groups_only.clone()]));
        if let Some(group) = group {
            let (queue, name) = (queue.to_owned(), group.to_owned());
            let group = GroupSpec { queue, name };
            rig.broker.declare_group(&group).expect("a group");
        }
        rig.produce(A, P, named(queue));
        for (number, body) in [WRONG, RIGHT].into_iter().enumerate() {
            stage(&mut rig, TxnId(number as u64), number as u64, body);
        }
        register(&mut rig, queue);
        let faults = [0, 1].map(|txn| discharge(&mut rig, TxnId(txn)));
        assert_eq!(faults, [Some(Reason::Undecodable), None], "{queue}");
        // The rule of another queue changes nothing.
        stage(&mut rig, TxnId(2), 2, RIGHT);
        register(&mut rig, "x");
        assert_eq!(discharge(&mut rig, TxnId(2)), None, "{queue}");
    }
}

#[test]
fn a_move_leaves_where_it_is_what_the_other_queue_would_not_take() {
    let mut rig = Rig::new(config([lossy("from"), lossy("to")]));
    rig.produce(A, P, named("from"));
    rig.told(A);
    for (ticket, body) in [WRONG, RIGHT].into_iter().enumerate() {
        publish(&mut rig, ticket as u64, RuleId::NONE, body);
    }
    register(&mut rig, "to");
    let request = Request::Move {
        queue: "from".into(),
        to: Some("to".into()),
        only_from: None,
        limit: 10,
    };
    assert_eq!(
        rig.manage(request.clone()),
        Reply::Moved { moved: 1, left: 1 }
    );
    assert!(
        matches!(rig.manage(request), Reply::Refused(refusal) if refusal.reason == Reason::Undecodable)
    );
}

#[test]
fn operators_register_find_and_delete_schemas_and_publish_what_fits() {
    let mut rig = Rig::with_q();
    let missing = |reply: Reply| match reply {
        Reply::Refused(refusal) => refusal.reason == Reason::NotFound,
        _ => false,
    };
    let subject = || "q".to_owned();
    let (first, all) = (
        Request::Schema {
            subject: subject(),
            version: 0,
        },
        Request::Schemas,
    );
    assert!(missing(rig.manage(first.clone())));
    assert!(missing(
        rig.manage(Request::DeleteSchema { subject: subject() })
    ));
    for version in [1, 2] {
        let candidate = Box::new(candidate("q"));
        let reply = rig.manage(Request::RegisterSchema { candidate });
        assert!(matches!(reply, Reply::Schema(record) if record.version == version));
    }
    let mut bad = candidate("q");
    let text = TEXT.replace("string name", "int32 name");
    bad.schema = Arc::new(Schema::compile(&Source::Text(text), "M").expect("it is one"));
    let reply = rig.manage(Request::RegisterSchema {
        candidate: Box::new(bad),
    });
    assert!(matches!(reply, Reply::SchemaRefused(refused) if refused.findings.len() == 1));
    let versions = |reply: Reply| match reply {
        Reply::Schemas(all) => all.iter().map(|record| record.version).collect(),
        _ => Vec::new(),
    };
    assert_eq!(versions(rig.manage(all)), [2]);
    let history = Request::SchemaVersions { subject: subject() };
    assert_eq!(versions(rig.manage(history)), [1, 2]);
    let mut publish = |body: &[u8]| {
        let to = PublishTo::Queue("q".to_owned());
        let message = with(body);
        rig.manage(Request::Publish { to, message })
    };
    assert_eq!(publish(RIGHT), Reply::Published { is_routed: true });
    assert!(
        matches!(publish(WRONG), Reply::Refused(refusal) if refusal.reason == Reason::Undecodable)
    );
    let reply = rig.manage(Request::DeleteSchema { subject: subject() });
    assert_eq!(reply, Reply::SchemaDeleted(2));
    assert!(missing(rig.manage(first)));
}
