//! The order of work, with a store that does as it is told and writes down what it was asked.

use std::sync::{Arc, Mutex};

use qq_core::store::{BatchId, Op};
use qq_core::vocab::{Message, QueueId, Seq};

use super::*;

/// How the next calls end; everything else works.
#[derive(Default)]
struct Script {
    calls: Vec<String>,
    flush: Option<StoreError>,
    fetch: Option<StoreError>,
    tend: Option<StoreError>,
    /// Steps of housekeeping that are left.
    steps: u32,
    is_short: bool,
    is_instant: bool,
    panics: bool,
}

type Shared = Arc<Mutex<Script>>;

struct Told {
    shared: Shared,
    newest: Option<BatchId>,
}

impl Store for Told {
    fn recover(&mut self, _: &mut dyn FnMut(Op)) -> Result<(), StoreError> {
        Ok(())
    }
    fn submit(&mut self, batch: Batch) {
        let mut script = self.shared.lock().expect("no panic");
        script.calls.push(format!("submit {}", batch.id.0));
        self.newest = Some(batch.id);
    }
    fn flush(&mut self) -> Result<Option<BatchId>, StoreError> {
        let mut script = self.shared.lock().expect("no panic");
        if script.panics {
            drop(script);
            panic!("told to");
        }
        script.calls.push("flush".into());
        script.flush.clone().map_or(Ok(self.newest), Err)
    }
    fn fetch(&mut self, fetch: &Fetch) -> Result<Vec<(Seq, Arc<Message>)>, StoreError> {
        let mut script = self.shared.lock().expect("no panic");
        script.calls.push(format!("fetch {}", fetch.first.0));
        script.fetch.clone().map_or(Ok(Vec::new()), Err)
    }
    fn tend(&mut self) -> Result<bool, StoreError> {
        let mut script = self.shared.lock().expect("no panic");
        script.calls.push("tend".into());
        script.steps = script.steps.saturating_sub(1);
        let has_more = script.steps > 0;
        script.tend.clone().map_or(Ok(has_more), Err)
    }
    fn is_short_of_room(&mut self) -> bool {
        self.shared.lock().expect("no panic").is_short
    }
    fn is_instant(&self) -> bool {
        self.shared.lock().expect("no panic").is_instant
    }
}

struct Bed {
    keeper: Keeper,
    script: Shared,
}

impl Bed {
    /// A keeper that looked at its store at the moment 0.
    fn new(adjust: impl FnOnce(&mut Script)) -> Self {
        let mut script = Script::default();
        adjust(&mut script);
        let script = Arc::new(Mutex::new(script));
        let store = Box::new(Told {
            shared: Arc::clone(&script),
            newest: None,
        });
        let mut bed = Self {
            keeper: Keeper::new(store),
            script,
        };
        if bed.keeper.wants_turn_at() == Some(Duration::ZERO) {
            bed.turn(0, &[], &[]);
            bed.calls();
        }
        bed
    }

    fn set(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.script.lock().expect("no panic"));
    }

    /// What the store was asked since the last call.
    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.script.lock().expect("no panic").calls)
    }

    fn turn(&mut self, now_ms: u64, batches: &[u64], fetches: &[u64]) -> Vec<StoreEvent> {
        let jobs = Jobs {
            batches: batches
                .iter()
                .map(|id| Batch {
                    id: BatchId(*id),
                    ops: Vec::new(),
                })
                .collect(),
            fetches: fetches.iter().map(|first| fetch(*first)).collect(),
        };
        let mut told = Vec::new();
        self.keeper
            .turn(Duration::from_millis(now_ms), jobs, &mut |event| {
                told.push(event);
            });
        told
    }

    fn wants_ms(&self) -> Option<u128> {
        self.keeper.wants_turn_at().map(|at| at.as_millis())
    }
}

fn fetch(first: u64) -> Fetch {
    Fetch {
        queue: QueueId(1),
        first: Seq(first),
        count: 1,
    }
}

fn persisted(upto: u64) -> StoreEvent {
    StoreEvent::Persisted {
        upto: BatchId(upto),
    }
}

fn room(is_short: bool) -> StoreEvent {
    StoreEvent::Room { is_short }
}

fn failed(text: &str) -> StoreEvent {
    StoreEvent::Failed { text: text.into() }
}

#[test]
fn what_queued_up_is_one_flush_and_reads_come_first() {
    let mut bed = Bed::new(|_| {});
    let told = bed.turn(1, &[1, 2], &[7]);
    assert_eq!(bed.calls(), ["fetch 7", "submit 1", "submit 2", "flush"]);
    let fetched = StoreEvent::Fetched {
        fetch: fetch(7),
        messages: Vec::new(),
    };
    assert_eq!(told, [fetched, persisted(2)]);
}

#[test]
fn many_reads_do_not_hold_up_a_flush() {
    let mut bed = Bed::new(|_| {});
    let reads: Vec<u64> = (0..20).collect();
    assert_eq!(bed.turn(1, &[1], &reads).len(), 8 + 1);
    assert_eq!(bed.calls().last().map(String::as_str), Some("flush"));
    // It wants to go on at once, and then the next batch gets its turn as well.
    assert_eq!(bed.wants_ms(), Some(0));
    assert_eq!(bed.turn(2, &[2], &[]).len(), 8 + 1);
    assert_eq!(bed.turn(3, &[], &[]).len(), 4);
    let calls = bed.calls();
    assert_eq!(calls.first().map(String::as_str), Some("fetch 8"));
    assert_eq!(calls.last().map(String::as_str), Some("fetch 19"));
}

#[test]
fn du_08_without_room_everything_is_kept_and_tried_again_ever_more_rarely() {
    let mut bed = Bed::new(|script| script.flush = Some(StoreError::no_room("full")));
    assert_eq!(bed.turn(0, &[1], &[]), [room(true)]);
    assert_eq!(bed.calls(), ["submit 1", "flush"]);
    let mut tries = Vec::new();
    for now_ms in 1..=6_000 {
        assert_eq!(bed.turn(now_ms, &[], &[]), []);
        tries.extend(bed.calls().contains(&"flush".into()).then_some(now_ms));
    }
    assert_eq!(tries, [100, 300, 700, 1_500, 2_500, 3_500, 4_500, 5_500]);
    assert_eq!(bed.wants_ms(), Some(6_500));

    // Reads are served, and new work is a reason to try at once.
    assert_eq!(bed.turn(6_001, &[], &[3]).len(), 1);
    assert_eq!(bed.calls(), ["fetch 3"]);
    bed.set(|script| script.flush = None);
    assert_eq!(bed.turn(6_002, &[2], &[]), [persisted(2), room(false)]);
    // Nothing is submitted a second time.
    assert_eq!(bed.calls(), ["submit 2", "flush"]);
}

#[test]
fn room_that_comes_back_is_found_without_new_work() {
    let mut bed = Bed::new(|script| script.flush = Some(StoreError::no_room("full")));
    assert_eq!(bed.turn(0, &[1], &[]), [room(true)]);
    bed.set(|script| script.flush = None);
    assert_eq!(bed.wants_ms(), Some(100));
    assert_eq!(bed.turn(100, &[], &[]), [persisted(1), room(false)]);
}

#[test]
fn short_room_is_told_when_it_changes() {
    let mut bed = Bed::new(|_| {});
    bed.set(|script| script.is_short = true);
    assert_eq!(bed.turn(10, &[1], &[]), [persisted(1), room(true)]);
    assert_eq!(bed.turn(20, &[2], &[]), [persisted(2)]);
    bed.set(|script| script.is_short = false);
    // Nothing else happens: the room is looked at every second.
    assert_eq!(bed.turn(999, &[], &[]), []);
    assert_eq!(bed.turn(1_000, &[], &[]), [room(false)]);
    assert_eq!(bed.turn(2_000, &[], &[]), []);
    bed.set(|script| script.is_short = true);
    assert_eq!(bed.turn(3_000, &[], &[]), [room(true)]);
    // A flush without room changes nothing then, and its end leaves what the store says.
    bed.set(|script| script.flush = Some(StoreError::no_room("full")));
    assert_eq!(bed.turn(3_001, &[3], &[]), []);
    bed.set(|script| script.flush = None);
    assert_eq!(bed.turn(3_101, &[], &[]), [persisted(3)]);
}

#[test]
fn a_failed_flush_ends_everything() {
    for error in [StoreError::fatal("dead"), StoreError::damaged("bad page")] {
        let mut bed = Bed::new(|script| script.flush = Some(error.clone()));
        assert_eq!(bed.turn(0, &[1, 2], &[]), [failed(&error.text)]);
        bed.set(|script| script.flush = None);
        bed.calls();
        assert_eq!(bed.turn(1, &[3], &[1]), []);
        assert_eq!(bed.calls(), [""; 0], "the store is not used again");
        assert_eq!(bed.wants_ms(), None);
        assert_eq!(bed.keeper.failure(), Some(&error));
        assert_eq!(bed.keeper.close(), Err(error));
        assert_eq!(bed.script.lock().expect("no panic").calls, [""; 0]);
    }
}

#[test]
fn a_body_that_cannot_be_read_is_no_failure_of_the_store() {
    for error in [StoreError::fatal("torn"), StoreError::damaged("torn")] {
        let mut bed = Bed::new(|script| script.fetch = Some(error));
        let expected = StoreEvent::FetchFailed {
            fetch: fetch(5),
            text: "torn".into(),
        };
        assert_eq!(bed.turn(0, &[1], &[5]), [expected, persisted(1)]);
        assert_eq!(bed.keeper.failure(), None);
    }
}

#[test]
fn housekeeping_waits_for_quiet_and_stops_for_work() {
    let mut bed = Bed::new(|script| script.steps = 5);
    assert_eq!(bed.turn(100, &[1], &[]), [persisted(1)]);
    bed.calls();
    assert_eq!(bed.wants_ms(), Some(200));
    // Work before that moment puts it off.
    bed.turn(150, &[2], &[]);
    bed.turn(201, &[], &[9]);
    assert_eq!(bed.wants_ms(), Some(301));
    assert_eq!(bed.calls(), ["submit 2", "flush", "fetch 9"]);
    // One step a turn, so that new work waits for one at most; more work, more waiting.
    bed.turn(301, &[], &[]);
    bed.turn(302, &[], &[]);
    assert_eq!(bed.calls(), ["tend", "tend"]);
    bed.turn(303, &[3], &[]);
    assert_eq!(bed.calls(), ["submit 3", "flush"]);
    for now_ms in 310..900 {
        bed.turn(now_ms, &[], &[]);
    }
    // The steps that were left: one was done at the start.
    assert_eq!(bed.calls(), ["tend", "tend"]);
    assert_eq!(bed.wants_ms(), Some(1_000), "the next look at the room");
}

#[test]
fn a_store_that_is_never_quiet_is_tended_all_the_same_but_rarely() {
    let mut bed = Bed::new(|script| script.steps = 1_000);
    for now_ms in 1..=35_000 {
        bed.turn(now_ms, &[now_ms], &[]);
    }
    let tended = bed.calls().iter().filter(|call| *call == "tend").count();
    assert_eq!(tended, 3);
}

#[test]
fn an_unused_store_is_tended_at_every_look() {
    let mut bed = Bed::new(|_| {});
    bed.turn(500, &[1], &[]);
    bed.turn(600, &[], &[]);
    bed.calls();
    // In the first of these seconds it was used.
    for now_ms in [1_000, 2_000, 3_000] {
        bed.turn(now_ms, &[], &[]);
    }
    assert_eq!(bed.calls(), ["tend", "tend"]);
}

#[test]
fn housekeeping_without_room_waits_and_with_damage_fails() {
    let mut bed = Bed::new(|script| script.tend = Some(StoreError::no_room("full")));
    bed.turn(0, &[1], &[]);
    assert_eq!(bed.turn(100, &[], &[]), []);
    assert_eq!(bed.wants_ms(), Some(1_000));
    bed.set(|script| script.tend = Some(StoreError::damaged("bad page")));
    bed.turn(1_000, &[], &[]);
    assert_eq!(bed.turn(2_000, &[], &[]), [failed("bad page")]);
}

#[test]
fn a_store_that_panics_has_failed() {
    let mut bed = Bed::new(|script| script.panics = true);
    assert_eq!(bed.turn(0, &[1], &[]), [failed("the store panicked")]);
    assert_eq!(bed.turn(1, &[2], &[]), []);
    assert!(bed.keeper.close().is_err());
}

#[test]
fn closing_makes_safe_what_was_submitted_or_says_that_it_cannot() {
    let bed = Bed::new(|_| {});
    assert_eq!(bed.keeper.close(), Ok(()));
    assert_eq!(bed.script.lock().expect("no panic").calls, ["flush"]);
    let mut bed = Bed::new(|script| script.flush = Some(StoreError::no_room("full")));
    bed.turn(0, &[1], &[]);
    assert_eq!(bed.keeper.close(), Err(StoreError::no_room("full")));
}

#[test]
fn a_store_without_a_disk_wants_no_turns_unless_it_is_short() {
    let mut bed = Bed::new(|script| script.is_instant = true);
    assert_eq!(bed.wants_ms(), None);
    bed.turn(0, &[1], &[]);
    assert_eq!(bed.wants_ms(), None);
    bed.set(|script| script.is_short = true);
    assert_eq!(bed.turn(20, &[2], &[]), [persisted(2), room(true)]);
    bed.set(|script| script.is_short = false);
    assert_eq!(bed.wants_ms(), Some(1_020));
    assert_eq!(bed.turn(1_020, &[], &[]), [room(false)]);
    assert_eq!(bed.wants_ms(), None);
}
