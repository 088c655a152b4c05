//! The ledger: what survives a crash, what is found damaged, what room it takes.

use std::collections::BTreeMap;
use std::sync::Arc;

use qq_core::broker::QueueSpec;
use qq_core::store::{Batch, BatchId, Fetch, Op, Store, StoreFault, StoredMessage};
use qq_core::vocab::{Envelope, Format, Message, QueueId, Seq};
use qq_store_mem::{FlushFault, Ledger};

const QUEUE: QueueId = QueueId(7);

fn message(number: u64) -> Arc<Message> {
    let payload = number.to_be_bytes().repeat(4).into();
    Message {
        envelope: Envelope::default(),
        format: Format::Amqp(0),
        payload,
    }
    .share()
}

fn declared() -> Op {
    let spec = Arc::new(QueueSpec::new("q"));
    Op::QueueDeclared { queue: QUEUE, spec }
}

fn enqueued(seq: u64) -> Op {
    Op::Enqueued(StoredMessage {
        message: message(seq),
        arrived_at_ms: 5,
        places: std::iter::once((QUEUE, Seq(seq))).collect(),
    })
}

fn removed(seq: u64) -> Op {
    let seq = Seq(seq);
    Op::Removed {
        queue: QUEUE,
        seq,
        count: 1,
    }
}

fn returned(seq: u64, delivery_count: u32) -> Op {
    Op::Returned {
        queue: QUEUE,
        seq: Seq(seq),
        delivery_count,
        annotations: None,
    }
}

fn submit(store: &mut Ledger, id: u64, ops: Vec<Op>) {
    let id = BatchId(id);
    store.submit(Batch { id, ops });
}

/// What operations come to: messages with their counts, and the next free position.
#[derive(Debug, Default, PartialEq)]
struct State {
    messages: BTreeMap<u64, (Arc<Message>, u32)>,
    next: u64,
}

impl State {
    fn apply(&mut self, op: Op) {
        match op {
            Op::Enqueued(stored) => {
                let seq = stored.places[0].1.0;
                self.messages.insert(seq, (stored.message, 0));
                self.next = self.next.max(seq + 1);
            }
            Op::Removed { seq, count, .. } => {
                for seq in seq.0..seq.0 + count {
                    assert!(self.messages.remove(&seq).is_some());
                }
            }
            Op::Returned {
                seq,
                delivery_count,
                ..
            } => self.messages.get_mut(&seq.0).expect("it is there").1 = delivery_count,
            Op::Counted { next, .. } => self.next = self.next.max(next.0),
            _ => {}
        }
    }

    fn of(store: &mut Ledger) -> Self {
        let mut state = Self::default();
        store
            .recover(&mut |op| state.apply(op))
            .expect("nothing is damaged");
        state
    }
}

fn fetch(first: u64, count: u32) -> Fetch {
    let first = Seq(first);
    Fetch {
        queue: QUEUE,
        first,
        count,
    }
}

#[test]
fn what_was_flushed_survives_and_the_rest_is_a_beginning_of_whole_batches() {
    let (mut none, mut some, mut all) = (0, 0, 0);
    for seed in 0..64 {
        let mut store = Ledger::new(seed);
        submit(&mut store, 1, vec![declared(), enqueued(0), enqueued(1)]);
        assert_eq!(store.flush(), Ok(Some(BatchId(1))));
        submit(&mut store, 2, vec![enqueued(2), removed(0), returned(1, 3)]);
        submit(&mut store, 3, vec![removed(1), enqueued(3), enqueued(4)]);
        store.crash();
        let state = State::of(&mut store);
        let seqs: Vec<u64> = state.messages.keys().copied().collect();
        match seqs[..] {
            [0, 1] => none += 1,
            [1, 2] => {
                some += 1;
                assert_eq!(state.messages[&1].1, 3, "seed {seed}");
            }
            [2, 3, 4] => all += 1,
            _ => panic!("seed {seed}: {seqs:?}"),
        }
        assert_eq!(
            State::of(&mut store),
            state,
            "a second reader sees the same"
        );
        // It goes on as if nothing had been.
        let next = state.next;
        submit(&mut store, 1, vec![enqueued(next)]);
        assert_eq!(store.flush(), Ok(Some(BatchId(1))));
        store.crash();
        assert_eq!(State::of(&mut store).next, next + 1);
    }
    assert!(
        none > 5 && some > 5 && all > 5,
        "{none} none, {some} some, {all} all"
    );
}

#[test]
fn a_broken_sync_ends_it_until_the_restart() {
    let mut store = Ledger::new(1);
    submit(&mut store, 1, vec![declared()]);
    store.fail_next_flush(FlushFault::Fatal);
    for _ in 0..2 {
        let error = store.flush().expect_err("the sync fails");
        assert_eq!(error.fault, StoreFault::Fatal);
    }
    assert!(store.fetch(&fetch(0, 1)).is_err());
    store.crash();
    State::of(&mut store);
    assert_eq!(store.flush(), Ok(None));
}

#[test]
fn without_room_nothing_is_lost_and_removals_pass() {
    let mut store = Ledger::new(1);
    submit(&mut store, 1, vec![declared(), enqueued(0), enqueued(1)]);
    store.flush().expect("room");
    store.set_quota(Some(store.used_bytes()));
    assert!(store.is_short_of_room());
    submit(&mut store, 2, vec![enqueued(2)]);
    let error = store.flush().expect_err("no room");
    assert_eq!(error.fault, StoreFault::NoRoom);
    // What is removed makes room for what waits.
    submit(&mut store, 3, vec![removed(0)]);
    assert_eq!(store.flush(), Ok(Some(BatchId(3))));
    store.set_quota(None);
    assert!(!store.is_short_of_room());
    store.fail_next_flush(FlushFault::NoRoom);
    submit(&mut store, 4, vec![removed(1)]);
    assert!(store.flush().is_err());
    assert_eq!(store.flush(), Ok(Some(BatchId(4))));
    let state = State::of(&mut store);
    assert_eq!(state.messages.keys().copied().collect::<Vec<_>>(), [2]);
}

#[test]
fn bodies_are_fetched_and_damage_is_found() {
    let mut store = Ledger::new(1);
    let ops = (0..10).map(enqueued);
    submit(
        &mut store,
        1,
        std::iter::once(declared()).chain(ops).collect(),
    );
    submit(&mut store, 2, vec![removed(4)]);
    store.flush().expect("room");
    let found = store.fetch(&fetch(3, 3)).expect("sound");
    assert_eq!(found, [(Seq(3), message(3)), (Seq(5), message(5))]);
    assert_eq!(store.fetch(&fetch(90, 3)), Ok(vec![]));
    store.damage_next_fetch();
    let error = store.fetch(&fetch(0, 10)).expect_err("damaged");
    assert_eq!(error.fault, StoreFault::Damaged);
    assert!(
        store.fetch(&fetch(0, 10)).is_ok(),
        "it was one reading that was wrong"
    );
}

#[test]
fn every_flipped_bit_is_found_at_recovery() {
    for place in 0..2_000 {
        let mut store = Ledger::new(place);
        submit(
            &mut store,
            1,
            vec![declared(), enqueued(0), enqueued(1), enqueued(2)],
        );
        store.flush().expect("room");
        store.crash();
        assert!(store.rot(place));
        let error = store.recover(&mut |_| {}).expect_err("a bit is wrong");
        assert_eq!(error.fault, StoreFault::Damaged, "place {place}");
        assert!(store.rot(place));
        assert_eq!(State::of(&mut store).messages.len(), 3, "put right");
    }
}

#[test]
fn a_long_run_stays_small_and_positions_stay_taken() {
    let mut store = Ledger::new(1);
    submit(&mut store, 1, vec![declared()]);
    for seq in 0..20_000 {
        submit(&mut store, seq + 2, vec![enqueued(seq), removed(seq)]);
        store.flush().expect("room");
    }
    assert!(store.records() < 2_000, "{} records", store.records());
    assert_eq!(store.used_bytes(), 0);
    store.crash();
    let state = State::of(&mut store);
    assert!(state.messages.is_empty());
    assert_eq!(state.next, 20_000);
}
