//! Returned messages stand where they stood: cases PO-01, PO-04, QL-05.

use super::harness::*;
use crate::broker::Event;
use crate::vocab::{Command, ConnId, DeliveryId, Outcome};

fn texts(numbers: impl IntoIterator<Item = u32>) -> Vec<String> {
    numbers
        .into_iter()
        .map(|number| format!("m{number}"))
        .collect()
}

fn rig_with(messages: u32, taken: u64) -> Rig {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    let payloads = texts(0..messages);
    rig.publish_all(A, P, payloads.iter().map(String::as_str));
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, taken);
    assert_eq!(rig.texts(B, C), texts(0..taken as u32));
    rig
}

fn read_all(rig: &mut Rig) -> Vec<String> {
    rig.consume(A, D, consumer(named("q")));
    rig.permit(A, D, 1_000);
    rig.texts(A, D)
}

#[test]
fn po_01_a_released_one_by_one_from_the_last() {
    let mut rig = rig_with(10, 10);
    for delivery in (0..10).rev() {
        rig.settle(B, C, delivery, delivery, Outcome::Released);
    }
    rig.publish_all(A, P, ["m10"]);
    assert_eq!(read_all(&mut rig), texts(0..11));
}

#[test]
fn po_01_released_one_by_one_from_the_first_and_in_a_mix() {
    for order in [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        [5, 1, 9, 0, 3, 2, 8, 7, 4, 6],
    ] {
        let mut rig = rig_with(10, 10);
        for delivery in order {
            rig.settle(B, C, delivery, delivery, Outcome::Released);
        }
        rig.publish_all(A, P, ["m10"]);
        assert_eq!(read_all(&mut rig), texts(0..11), "{order:?}");
    }
}

#[test]
fn po_01_b_detached_and_c_cut() {
    for lost in [false, true] {
        let mut rig = rig_with(15, 10);
        rig.close(B, C, lost);
        assert_eq!(read_all(&mut rig), texts(0..15));
    }
    let mut rig = rig_with(15, 10);
    rig.event(Event::Disconnected { conn: B });
    assert_eq!(read_all(&mut rig), texts(0..15));
}

#[test]
fn po_01_d_some_settled_the_rest_released_in_one_range() {
    let mut rig = rig_with(10, 10);
    rig.settle(B, C, 2, 2, Outcome::Accepted);
    rig.settle(B, C, 5, 5, Outcome::Accepted);
    rig.settle(B, C, 0, 9, Outcome::Released);
    rig.publish_all(A, P, ["m10"]);
    assert_eq!(read_all(&mut rig), texts([0, 1, 3, 4, 6, 7, 8, 9, 10]));
}

#[test]
fn po_04_a_new_reader_never_overtakes_what_comes_back() {
    // The new consumer opens before, after, or in the same inbox as the cut.
    for turn in 0..3 {
        let mut rig = rig_with(20, 10);
        let newcomer = ConnId(3);
        rig.connect(newcomer);
        let open = Command::OpenConsumer {
            port: C,
            spec: Box::new(consumer(named("q"))),
        };
        let permit = Command::Permit {
            port: C,
            limit: 1,
            drain: false,
        };
        let now = rig.now;
        match turn {
            0 => {
                rig.broker.handle_event(
                    now,
                    Event::Commands {
                        conn: newcomer,
                        commands: vec![open, permit],
                    },
                );
                rig.broker
                    .handle_event(now, Event::Disconnected { conn: B });
            }
            1 => {
                rig.broker
                    .handle_event(now, Event::Disconnected { conn: B });
                rig.broker.handle_event(
                    now,
                    Event::Commands {
                        conn: newcomer,
                        commands: vec![open, permit],
                    },
                );
            }
            _ => {
                rig.broker.handle_event(
                    now,
                    Event::Commands {
                        conn: newcomer,
                        commands: vec![open],
                    },
                );
                rig.broker
                    .handle_event(now, Event::Disconnected { conn: B });
                rig.broker.handle_event(
                    now,
                    Event::Commands {
                        conn: newcomer,
                        commands: vec![permit],
                    },
                );
            }
        }
        rig.flush();
        let got = rig.delivered(newcomer, C);
        assert_eq!(
            got.iter().map(text).collect::<Vec<_>>(),
            ["m0"],
            "turn {turn}"
        );
        assert_eq!((got[0].delivery_count, got[0].first_acquirer), (1, false));
    }
}

#[test]
fn the_oldest_unsettled_message_does_not_hold_up_or_reorder_thousands() {
    let mut rig = rig_with(2_000, 2_000);
    rig.settle(B, C, 1, 1_998, Outcome::Accepted);
    rig.settle(B, C, 0, 1_999, Outcome::Released);
    assert_eq!(read_all(&mut rig), texts([0, 1_999]));
}

#[test]
fn ql_05_a_purge_leaves_what_consumers_hold() {
    let mut rig = rig_with(100, 30);
    assert_eq!(rig.broker.purge_queue("q").expect("q exists"), 70);
    rig.settle(B, C, 0, 9, Outcome::Released);
    rig.settle(B, C, 10, 29, Outcome::Accepted);
    let counters = rig.broker.queue_counters("q").expect("q exists");
    assert_eq!((counters.waiting, counters.unsettled), (10, 0));
    assert_eq!(read_all(&mut rig), texts(0..10));
    rig.settle(A, D, 0, DeliveryId(u64::MAX).0, Outcome::Accepted);
    assert_eq!(
        (rig.broker.counters().messages, rig.broker.counters().bytes),
        (0, 0)
    );
    assert!(rig.broker.purge_queue("r").is_err());
}
