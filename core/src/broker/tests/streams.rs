//! Streams: what is published stays in order, every reader gets all of it, and retention takes the oldest.

use super::harness::*;
use super::paging::{numbers, paged};
use crate::broker::{BrokerConfig, QueueSpec};
use crate::vocab::{
    Address, ConsumerSpec, Delivered, Envelope, NodeKind, Notice, Outcome, Reason, StreamRead,
    StreamStart,
};

pub(super) fn reading(start: StreamStart) -> ConsumerSpec {
    ConsumerSpec {
        stream: StreamRead {
            start,
            resumes: None,
        },
        ..consumer(named("s"))
    }
}

fn rig_of(spec: QueueSpec) -> Rig {
    let mut rig = Rig::new(config([spec]));
    rig.produce(A, P, named("s"));
    rig
}

/// Publishes messages whose payloads are numbers, one per millisecond.
pub(super) fn append(rig: &mut Rig, range: std::ops::Range<u64>, envelope: &Envelope) {
    for number in range {
        rig.publish(A, P, message(&number.to_string(), envelope.clone()));
        rig.sleep_ms(1);
    }
}

const NONE: [u64; 0] = [];

fn positions(delivered: &[Delivered]) -> Vec<u64> {
    delivered.iter().map(|one| one.seq.0).collect()
}

/// What a new reader is given at once.
fn read_from(rig: &mut Rig, start: StreamStart) -> Vec<u64> {
    rig.consume(B, D, reading(start));
    rig.permit(B, D, 100_000);
    let got = positions(&rig.delivered(B, D));
    rig.close(B, D, false);
    rig.told(B);
    got
}

#[test]
fn reading_does_not_remove_whatever_the_outcome() {
    let mut rig = rig_of(QueueSpec::stream("s"));
    append(&mut rig, 0..10, &durable());
    for outcome in [
        Outcome::Accepted,
        Outcome::Rejected { reason: None },
        failed(),
        not_here(),
        Outcome::Released,
    ] {
        rig.consume(B, C, reading(StreamStart::First));
        rig.permit(B, C, 100);
        assert_eq!(rig.texts(B, C), numbers(0..10));
        rig.settle(B, C, 0, 9, outcome);
        assert_eq!(rig.texts(B, C), Vec::<String>::new(), "nothing comes again");
        rig.close(B, C, true);
    }
    assert_eq!(rig.broker.queue_counters("s").unwrap().messages, 10);
    assert_eq!(rig.broker.counters().dead_lettered, 0);
}

#[test]
fn readers_begin_where_they_ask() {
    let mut rig = rig_of(QueueSpec::stream("s"));
    assert_eq!(read_from(&mut rig, StreamStart::First), NONE);
    assert_eq!(read_from(&mut rig, StreamStart::Last), NONE);
    let began_at = rig.now.wall_ms;
    append(&mut rig, 0..10, &durable());
    let all: Vec<u64> = (0..10).collect();
    for (start, first) in [
        (StreamStart::First, 0),
        (StreamStart::Last, 9),
        (StreamStart::Next, 10),
        (StreamStart::Offset(0), 0),
        (StreamStart::Offset(7), 7),
        (StreamStart::Offset(10), 10),
        (StreamStart::Offset(u64::MAX), 10),
        (StreamStart::Since(0), 0),
        (StreamStart::Since(began_at + 4), 4),
        (StreamStart::Since(began_at + 9), 9),
        (StreamStart::Since(began_at + 10), 10),
        (StreamStart::Ago(0), 10),
        (StreamStart::Ago(3), 7),
        (StreamStart::Ago(u64::MAX), 0),
    ] {
        assert_eq!(read_from(&mut rig, start), all[first..], "{start:?}");
    }
}

#[test]
fn a_reader_that_waits_for_the_next_gets_what_comes_and_others_get_all() {
    let mut rig = rig_of(QueueSpec::stream("s"));
    append(&mut rig, 0..3, &durable());
    rig.consume(B, C, reading(StreamStart::Next));
    rig.permit(B, C, 2);
    append(&mut rig, 3..6, &durable());
    assert_eq!(rig.texts(B, C), ["3", "4"]);
    rig.permit(B, C, 3);
    assert_eq!(rig.texts(B, C), ["5"]);
    assert_eq!(read_from(&mut rig, StreamStart::First), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_reader_is_told_what_is_in_effect() {
    let mut rig = rig_of(QueueSpec::stream("s"));
    append(&mut rig, 0..3, &durable());
    rig.consume(B, C, reading(StreamStart::Last));
    let opened = rig.told(B).into_iter().find_map(|notice| match notice {
        Notice::ConsumerOpened { opened, .. } => Some(opened),
        _ => None,
    });
    let opened = opened.expect("it is open");
    assert_eq!((opened.kind, opened.browse), (NodeKind::Stream, true));
    assert_eq!(opened.next.map(|next| next.0), Some(2));
}

#[test]
fn nothing_is_shown_before_it_is_safe() {
    let mut rig = rig_of(QueueSpec::stream("s"));
    rig.consume(B, C, reading(StreamStart::First));
    rig.permit(B, C, 10);
    rig.is_instant = false;
    append(&mut rig, 0..2, &Envelope::default());
    assert_eq!(rig.texts(B, C), Vec::<String>::new());
    rig.persist_one();
    assert_eq!(rig.texts(B, C), ["0"]);
    rig.persist_one();
    assert_eq!(rig.texts(B, C), ["1"]);
}

#[test]
fn offsets_go_on_after_a_restart_without_gaps() {
    let spec = QueueSpec {
        max_length: Some(3),
        ..QueueSpec::stream("s")
    };
    let mut rig = rig_of(spec.clone());
    // Also what no sender called durable is kept: a gap would be a loss.
    append(&mut rig, 0..5, &Envelope::default());
    let mut rig = rig.restarted(config([spec.clone()]));
    assert_eq!(read_from(&mut rig, StreamStart::First), [2, 3, 4]);
    rig.produce(A, P, named("s"));
    append(&mut rig, 5..7, &durable());
    assert_eq!(read_from(&mut rig, StreamStart::First), [4, 5, 6]);
    rig.broker.purge_queue("s").unwrap();
    rig.flush();
    let mut rig = rig.restarted(config([spec]));
    assert_eq!(read_from(&mut rig, StreamStart::First), NONE);
    rig.produce(A, P, named("s"));
    append(&mut rig, 7..8, &durable());
    assert_eq!(read_from(&mut rig, StreamStart::First), [7]);
}

#[test]
fn moments_are_found_after_a_restart() {
    let mut rig = rig_of(QueueSpec::stream("s"));
    let began_at = rig.now.wall_ms;
    append(&mut rig, 0..10, &durable());
    let mut rig = rig.restarted(config([]));
    let got = read_from(&mut rig, StreamStart::Since(began_at + 6));
    assert_eq!(got, [6, 7, 8, 9]);
}

#[test]
fn the_oldest_go_by_count_and_by_bytes() {
    let mut rig = rig_of(QueueSpec {
        max_length: Some(4),
        ..QueueSpec::stream("s")
    });
    append(&mut rig, 0..100, &durable());
    assert_eq!(read_from(&mut rig, StreamStart::First), [96, 97, 98, 99]);
    assert_eq!(
        read_from(&mut rig, StreamStart::Offset(3)),
        [96, 97, 98, 99]
    );
    // 12 bytes of payload: six of two bytes each, or four of three.
    let mut rig = rig_of(QueueSpec {
        max_bytes: Some(12),
        ..QueueSpec::stream("s")
    });
    append(&mut rig, 0..100, &durable());
    assert_eq!(
        read_from(&mut rig, StreamStart::First),
        [94, 95, 96, 97, 98, 99]
    );
    append(&mut rig, 100..110, &durable());
    assert_eq!(
        read_from(&mut rig, StreamStart::First),
        [106, 107, 108, 109]
    );
    rig.told(A);
    rig.publish(A, P, message("thirteen bytes", durable()));
    let full = crate::vocab::Verdict::Full("s".into());
    assert_eq!(rig.verdicts(A), [(110, 110, full)]);
    assert_eq!(
        read_from(&mut rig, StreamStart::First),
        [106, 107, 108, 109]
    );
}

#[test]
fn the_oldest_go_by_age_and_their_own_time_to_live_does_not_count() {
    for is_restarted in [false, true] {
        let spec = QueueSpec {
            max_age_ms: Some(1_000),
            ..QueueSpec::stream("s")
        };
        let mut rig = rig_of(spec.clone());
        let envelope = Envelope {
            ttl_ms: Some(1),
            expires_at_ms: Some(0),
            ..durable()
        };
        append(&mut rig, 0..10, &envelope);
        if is_restarted {
            rig = rig.restarted(config([spec]));
        }
        rig.sleep_ms(985);
        rig.tick();
        assert_eq!(rig.broker.queue_counters("s").unwrap().messages, 10);
        // Now 1,003 ms after the first, one for each message; a fraction may be rounded up.
        rig.sleep_ms(8);
        rig.tick();
        let left = read_from(&mut rig, StreamStart::First);
        assert!(matches!(left[..], [3 | 4, .., 9]), "{left:?}");
        rig.sleep_ms(50);
        rig.tick();
        assert_eq!(read_from(&mut rig, StreamStart::First), NONE);
        assert_eq!(rig.broker.counters().dead_lettered, 0);
    }
}

#[test]
fn dead_letters_and_bindings_lead_into_a_stream() {
    let source = QueueSpec {
        dead_letter_routing_key: Some("s".to_owned()),
        ..QueueSpec::new("q")
    };
    let mut rig = Rig::new(BrokerConfig {
        bindings: vec![crate::route::BindingSpec::to_queue("amq.fanout", "s", "")],
        ..config([source, QueueSpec::stream("s")])
    });
    rig.produce(A, P, named("q"));
    rig.publish(A, P, message("dead", Envelope::default()));
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 1);
    rig.settle(B, C, 0, 0, Outcome::Rejected { reason: None });
    let to = Address::Exchange {
        name: "amq.fanout".to_owned(),
        key: None,
    };
    rig.produce(A, D, to);
    rig.publish(A, D, message("bound", Envelope::default()));
    rig.told(B);
    let mut rig = rig.restarted(config([]));
    rig.consume(B, C, reading(StreamStart::First));
    rig.permit(B, C, 9);
    let got = rig.delivered(B, C);
    let texts: Vec<String> = got.iter().map(text).collect();
    assert_eq!(texts, ["dead", "bound"]);
    assert!(got[0].message.envelope.deaths.is_some());
}

#[test]
fn a_stream_is_no_queue_and_a_queue_is_no_stream() {
    let mut rig = Rig::new(config([QueueSpec::stream("s"), QueueSpec::new("q")]));
    for (address, is_open) in [
        (Address::Stream("s".to_owned()), true),
        (Address::Queue("s".to_owned()), true),
        (Address::Stream("q".to_owned()), false),
        (Address::Stream("x".to_owned()), false),
    ] {
        rig.consume(B, C, consumer(address.clone()));
        let told = rig.told(B);
        let refused = told.iter().find_map(|notice| match notice {
            Notice::Refused { refusal, .. } => Some(refusal.reason),
            _ => None,
        });
        assert_eq!(
            refused,
            (!is_open).then_some(Reason::NotFound),
            "{address:?}"
        );
        rig.close(B, C, false);
    }
    let fields = |spec: QueueSpec| spec.check_fields().map_err(|refusal| refusal.reason);
    for spec in [
        QueueSpec {
            max_priority: 1,
            ..QueueSpec::stream("t")
        },
        QueueSpec {
            message_ttl_ms: Some(1),
            ..QueueSpec::stream("t")
        },
        QueueSpec {
            dead_letter_exchange: Some("x".to_owned()),
            ..QueueSpec::stream("t")
        },
        QueueSpec {
            auto_delete: true,
            ..QueueSpec::stream("t")
        },
        QueueSpec {
            max_age_ms: Some(0),
            ..QueueSpec::stream("t")
        },
        QueueSpec {
            max_age_ms: Some(1),
            ..QueueSpec::new("t")
        },
    ] {
        assert_eq!(fields(spec.clone()), Err(Reason::Invalid), "{spec:?}");
    }
    let other = rig.broker.declare_queue(QueueSpec::new("s"), None);
    assert!(other.unwrap_err().text.contains("kind"));
}

#[test]
fn readers_far_apart_read_a_stream_from_the_store_with_bounded_memory() {
    let mut rig = Rig::new(paged([QueueSpec::stream("s")]));
    rig.produce(A, P, named("s"));
    append(&mut rig, 0..5_000, &durable());
    let counters = rig.broker.queue_counters("s").unwrap();
    assert!(counters.bodies <= 64, "{counters:?}");
    assert!(
        rig.broker.index_bytes("s") < 40_000,
        "{}",
        rig.broker.index_bytes("s")
    );
    rig.is_prompt = false;
    let starts = [(C, 0), (D, 2_000)];
    for (port, start) in starts {
        rig.consume(B, port, reading(StreamStart::Offset(start)));
        rig.permit(B, port, 10_000);
    }
    let mut got = [Vec::new(), Vec::new()];
    let mut highest = 0;
    while !rig.fetches.is_empty() {
        // The newest request first: their order means nothing.
        let last = rig.fetches.len() - 1;
        rig.fetch_one(last);
        let counters = rig.broker.counters();
        assert_eq!(counters.bytes, rig.broker.counted_bytes());
        highest = highest.max(counters.bytes);
        for notice in rig.told(B) {
            if let Notice::Deliver { port, delivered } = notice {
                got[usize::from(port == D)].push(delivered.seq.0);
            }
        }
    }
    assert_eq!(got[0], (0..5_000).collect::<Vec<u64>>());
    assert_eq!(got[1], (2_000..5_000).collect::<Vec<u64>>());
    // Two requests for each of two readers, and the end of the stream.
    assert!(highest < (4 * 1_024 + 64) * 170, "{highest}");
    rig.told(B);
    append(&mut rig, 5_000..5_010, &durable());
    assert_eq!(rig.texts(B, C), numbers(5_000..5_010));
}

#[test]
fn readers_at_the_same_place_share_requests() {
    let mut rig = Rig::new(paged([QueueSpec::stream("s")]));
    rig.produce(A, P, named("s"));
    append(&mut rig, 0..3_000, &durable());
    rig.is_prompt = false;
    for port in [C, D] {
        rig.consume(B, port, reading(StreamStart::First));
        rig.permit(B, port, 10_000);
    }
    let mut requests = 0;
    while !rig.fetches.is_empty() {
        requests += rig.fetches.len();
        rig.fetch_one(0);
        requests -= rig.fetches.len();
    }
    // 3,000 messages by 1,024, whoever reads them.
    assert!(requests <= 4, "{requests}");
    let got = rig.told(B);
    let of = |port| {
        got.iter()
            .filter(|notice| matches!(notice, Notice::Deliver { port: to, .. } if *to == port))
            .count()
    };
    assert_eq!((of(C), of(D)), (3_000, 3_000));
}

#[test]
fn what_a_slow_reader_has_not_read_may_be_gone_and_it_goes_on_with_what_is_left() {
    let mut rig = Rig::new(paged([QueueSpec {
        max_length: Some(1_000),
        ..QueueSpec::stream("s")
    }]));
    rig.produce(A, P, named("s"));
    append(&mut rig, 0..1_000, &durable());
    rig.consume(B, C, reading(StreamStart::First));
    rig.permit(B, C, 10);
    assert_eq!(rig.texts(B, C), numbers(0..10));
    append(&mut rig, 1_000..5_000, &durable());
    rig.permit(B, C, 100_000);
    let got = positions(&rig.delivered(B, C));
    let gap = got.iter().position(|seq| *seq >= 4_000).unwrap();
    // What was fetched before it went may still come, in order; then everything that is kept.
    assert!(
        got[..gap]
            .iter()
            .eq((10..).take(gap).collect::<Vec<_>>().iter())
    );
    assert_eq!(got[gap..], (4_000..5_000).collect::<Vec<u64>>());
    assert_eq!(rig.broker.counters().bytes, rig.broker.counted_bytes());
}
