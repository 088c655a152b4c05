//! Cases that need a node of a special make, or a hand on it: ids that begin near 2^32, a full
//! queue, a queue that is deleted under its consumer, priorities.

use qq_conformance::bed::node::{NodeBed, NodeOptions};
use qq_conformance::kit::{Env, Kit, known};
use qq_conformance::run::shared;
use qq_conformance::script::Failure;
use qq_conformance::wire::{message, perf};
use qq_core::broker::QueueSpec;
use std::cell::RefCell;
use std::rc::Rc;

struct Bench {
    node: Rc<RefCell<NodeBed>>,
    kit: Kit,
}

fn bench(options: NodeOptions) -> Bench {
    let node = Rc::new(RefCell::new(NodeBed::new(options)));
    let env = Rc::new(Env {
        missing: Some("nope".into()),
        ..Env::fresh()
    });
    let kit = Kit::new(shared(Rc::clone(&node)), env, "special");
    Bench { node, kit }
}

fn well<T>(result: Result<T, Failure>, kit: &Kit) -> T {
    result.unwrap_or_else(|e| panic!("{e:?}\n{}", kit.trace.borrow().join("\n")))
}

/// SF-04, 2.5.6-d: the broker's ids begin at 2^32-4. A flow that was sent before its begin came has
/// no next-incoming-id and must not be misread across the wrap.
#[test]
fn ids_near_the_wrap_and_an_early_flow() {
    let options = NodeOptions {
        first_outgoing_id: 4_294_967_292,
        ..NodeOptions::default()
    };
    let mut b = bench(options);
    let filled = b.kit.fill_count("q1", 6);
    well(filled, &b.kit);
    let mut p = well(b.kit.hello(), &b.kit);
    let flow = "0000001f02000000005313c012074070000008004370000008005201405205";
    p.hex(&[known::OPEN, known::BEGIN, known::RCV, flow].concat());
    let begin = well(p.want("begin"), &b.kit);
    assert_eq!(begin.number("next-outgoing-id"), Some(4_294_967_292));
    well(p.want("attach"), &b.kit);
    let got = well(p.must_get_all("r1", 5), &b.kit);
    let ids: Vec<_> = got.iter().map(|d| d.id).collect();
    assert_eq!(
        ids,
        [
            4_294_967_292,
            4_294_967_293,
            4_294_967_294,
            4_294_967_295,
            0
        ]
    );
    // SE-01: one range across the wrap settles four of them.
    let disposition = perf("disposition")
        .with("role", true)
        .with("first", 4_294_967_293u32)
        .with("last", 0u32)
        .with("settled", true)
        .with("state", perf("accepted"));
    p.send(0, disposition);
    well(p.sync(), &b.kit);
    well(p.close(), &b.kit);
    assert_eq!(well(b.kit.bodies("q1"), &b.kit), ["m0", "m5"]);
}

/// SF-04, second run: next-incoming-id 0 leads the broker's ids by four. The session ends with
/// window-violation, or the field is read as absent; 2^32-4 of window it is not.
#[test]
fn next_incoming_id_ahead_of_the_broker() {
    let options = NodeOptions {
        first_outgoing_id: 4_294_967_292,
        ..NodeOptions::default()
    };
    let mut b = bench(options);
    let filled = b.kit.fill_count("q1", 6);
    well(filled, &b.kit);
    let mut p = well(b.kit.hello(), &b.kit);
    let flow = "0000001f02000000005313c012074370000008004370000008005201405205";
    p.hex(&[known::OPEN, known::BEGIN, known::RCV, flow].concat());
    well(p.pump(500), &b.kit);
    match p.take("end").first() {
        Some(end) => assert_eq!(end.condition(), "amqp:session:window-violation"),
        None => assert_eq!(p.count("transfer"), 5),
    }
    assert_eq!(p.count("close"), 0);
}

/// LF-09, OU-07 (b): a full queue rejects, says why, and the publisher's credit comes back.
#[test]
fn a_full_queue_rejects_and_credit_returns() {
    let full = QueueSpec {
        max_length: Some(10),
        ..QueueSpec::new("q1")
    };
    let mut b = bench(NodeOptions {
        queues: vec![full],
        ..NodeOptions::default()
    });
    for round in 0..2u32 {
        let mut p = well(b.kit.session(), &b.kit);
        well(p.sender("s1", 0, "q1"), &b.kit);
        let mut accepted = 0;
        let mut flows = 0;
        for id in 0..2_000 {
            while p.credit_left(0) == 0 {
                well(p.want("flow"), &b.kit);
                flows += 1;
            }
            p.publish(0, id, &message::data(b"x"));
        }
        for id in 0..2_000 {
            let d = well(p.disposition(id), &b.kit);
            match d.state() {
                "accepted" => accepted += 1,
                "rejected" => {
                    let error = d.field("state").field(0);
                    let condition = error.field(0).words().unwrap_or_default();
                    assert_eq!(condition, "amqp:resource-limit-exceeded", "round {round}");
                    let text = format!("{error:?}");
                    assert!(
                        text.contains("q1"),
                        "the error does not name the queue: {text}"
                    );
                }
                other => panic!("{other}"),
            }
        }
        assert_eq!(accepted, 10, "round {round}");
        assert!(flows <= 200, "{flows} waits for credit in 2000 messages");
        well(p.close(), &b.kit);
        assert_eq!(well(b.kit.bodies("q1"), &b.kit).len(), 10);
    }
}

/// LK-09, 2.8.15-h: a queue goes away under a consumer with a hundred unsettled deliveries.
#[test]
fn a_queue_deleted_under_its_consumer() {
    let mut b = bench(NodeOptions::default());
    let filled = b.kit.fill_count("q1", 100);
    well(filled, &b.kit);
    let mut p = well(b.kit.session(), &b.kit);
    well(p.receiver("r1", 1, "q1"), &b.kit);
    well(p.receiver("r2", 2, "q2"), &b.kit);
    p.credit(1, 200);
    let got = well(p.must_get_all("r1", 100), &b.kit);
    let deleted = b
        .node
        .borrow_mut()
        .administer(|broker, now| broker.delete_queue(now, "q1"));
    assert!(deleted.is_ok(), "{deleted:?}");
    // Dispositions and a flow cross the detach on the wire.
    for delivery in &got {
        p.settle(delivery.id, "accepted");
    }
    p.credit(1, 100);
    let remote = p.remote_handle(1).expect("an attached link");
    well(p.detached(remote, &["amqp:resource-deleted"]), &b.kit);
    let filled = b.kit.fill_count("q2", 1);
    well(filled, &b.kit);
    p.credit(2, 1);
    assert_eq!(well(p.must_get("r2"), &b.kit).text(), "m0");
    well(p.close(), &b.kit);
    assert!(
        well(b.kit.bodies("q1"), &b.kit).is_empty(),
        "the new queue is not empty"
    );
}

/// SE-05: the broker's outcome for our delivery is still due while its own delivery with the same
/// id is settled.
#[test]
fn one_id_in_two_directions() {
    let full = QueueSpec {
        max_length: Some(1),
        ..QueueSpec::new("q1")
    };
    let mut b = bench(NodeOptions {
        queues: vec![full],
        ..NodeOptions::default()
    });
    let filled = b.kit.fill_count("q1", 1);
    well(filled, &b.kit);
    let mut p = well(b.kit.session(), &b.kit);
    well(p.sender("s1", 0, "q1"), &b.kit);
    well(p.receiver("r1", 1, "q1"), &b.kit);
    well(p.credit_wait(0), &b.kit);
    p.credit(1, 1);
    let got = well(p.must_get("r1"), &b.kit);
    assert_eq!(got.id, 0);
    p.publish(0, 0, &message::data(b"late"));
    p.hex("0000001602000000005315c009054143404100532445");
    p.hex("0000001202000000005315c0050442434041");
    well(p.sync(), &b.kit);
    well(p.close(), &b.kit);
    let left = well(b.kit.bodies("q1"), &b.kit);
    assert!(
        left.len() <= 1 && !left.contains(&"m0".to_string()),
        "{left:?}"
    );
}

/// OU-07 (d): the queue goes between attach and transfer: the link is closed, or the message comes
/// back as released; accepted it is not.
#[test]
fn a_queue_deleted_under_its_publisher() {
    let mut b = bench(NodeOptions::default());
    let mut p = well(b.kit.session(), &b.kit);
    well(p.sender("s1", 0, "q1"), &b.kit);
    well(p.credit_wait(0), &b.kit);
    let deleted = b
        .node
        .borrow_mut()
        .administer(|broker, now| broker.delete_queue(now, "q1"));
    assert!(deleted.is_ok(), "{deleted:?}");
    p.publish(0, 0, &message::data(b"late"));
    let answer = p.want_where("disposition or detach", |f| {
        ["disposition", "detach"].contains(&f.name())
    });
    let answer = well(answer, &b.kit);
    if answer.name() == "detach" {
        assert_eq!(answer.condition(), "amqp:resource-deleted");
    } else {
        assert_eq!(answer.state(), "released");
    }
    well(p.sync(), &b.kit);
    well(p.close(), &b.kit);
}

/// A delivery cut into far more frames than its size can explain is refused, not stored: else a
/// peer buys work with next to no bytes.
#[test]
fn a_delivery_in_crumbs() {
    let mut b = bench(NodeOptions::default());
    let mut p = well(b.kit.session(), &b.kit);
    well(p.sender("s1", 0, "q1"), &b.kit);
    well(p.credit_wait(0), &b.kit);
    let payload = message::data(&[7; 400]);
    let last = payload.len() - 1;
    for (n, octet) in payload.iter().enumerate() {
        let transfer = if n == 0 {
            p.transfer(0, 0)
        } else {
            perf("transfer").with("handle", 0u32)
        };
        p.send_with(0, transfer.with("more", n < last), &[*octet]);
    }
    let answer = p.want_where("detach or end", |f| ["detach", "end"].contains(&f.name()));
    let answer = well(answer, &b.kit);
    assert_eq!(answer.condition(), "amqp:resource-limit-exceeded");
    p.cut();
    assert!(well(b.kit.bodies("q1"), &b.kit).is_empty());
}

/// 3.2.1-h: in a queue with priorities the higher ones are delivered first, each in its order; a message that names none
/// has priority 4.
#[test]
fn higher_priorities_first() {
    let queue = QueueSpec {
        max_priority: 9,
        ..QueueSpec::new("q1")
    };
    let mut b = bench(NodeOptions {
        queues: vec![queue],
        ..NodeOptions::default()
    });
    let given = [Some(1u8), Some(9), None, Some(0), Some(4), Some(9)];
    let payloads = given.iter().enumerate().map(|(n, priority)| {
        let header = priority.map(|priority| perf("header").with("priority", priority));
        let mut payload = header.map(|h| h.value().bytes()).unwrap_or_default();
        payload.extend(message::data(format!("m{n}").as_bytes()));
        payload
    });
    let filled = b.kit.fill("q1", &payloads.collect::<Vec<_>>());
    well(filled, &b.kit);
    let expected = ["m1", "m5", "m2", "m4", "m0", "m3"];
    assert_eq!(well(b.kit.bodies("q1"), &b.kit), expected);
}
