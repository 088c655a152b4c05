//! Visibility over the wire: acknowledgements that race with the end of their time (VI-02).

use std::collections::BTreeSet;
use std::time::Duration;

use qq_proto_binary::message::{FailurePolicy, QueueDeclareRequest};
use qq_proto_binary::reply::Reply;
use qq_proto_binary::request::Request;

use super::{Bench, ack, consume, publish};

const LOCK_MS: u64 = 50;
const MESSAGES: usize = 500;

/// Numbers that look random, from the seed of a failing run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// A delivery of the consumer under test.
struct Attempt {
    delivery_id: u64,
    message: usize,
    ack_at: Duration,
}

/// Takes what came, and decides when it will be acknowledged: up to 2 ms before or after the end of its time.
fn take(bench: &mut Bench, client: usize, dice: &mut Dice, attempts: &mut Vec<Attempt>) {
    let now = bench.now.mono;
    for message in bench.messages(client) {
        let payload = String::from_utf8_lossy(&message.payload).into_owned();
        attempts.push(Attempt {
            delivery_id: message.delivery_id,
            message: payload.parse().expect("a number"),
            ack_at: now + Duration::from_millis(LOCK_MS - 2 + dice.below(5)),
        });
    }
}

/// A bench with a full queue, and a client.
fn filled() -> (Bench, usize) {
    let mut bench = Bench::new();
    let a = bench.connect();
    let declare = QueueDeclareRequest {
        queue: "q".to_owned(),
        lock_timeout_ms: LOCK_MS,
        failure_policy: FailurePolicy::Infinite as i32,
        ..QueueDeclareRequest::default()
    };
    bench
        .ask(a, &Request::QueueDeclare(declare.into()))
        .expect("made");
    for n in 0..MESSAGES {
        bench.ask(a, &publish("q", &n.to_string())).expect("taken");
    }
    (bench, a)
}

#[test]
fn vi_02_an_acknowledgement_at_the_end_of_its_time_counts_or_is_stale() {
    for seed in 1..=3 {
        let mut dice = Dice(seed);
        let (mut bench, a) = filled();
        bench.ask(a, &consume("q", 100)).expect("open");
        let (mut done, mut stale) = (BTreeSet::new(), 0);
        let mut attempts = Vec::new();
        take(&mut bench, a, &mut dice, &mut attempts);
        for _ in 0..10_000 {
            if done.len() == MESSAGES {
                break;
            }
            // Time passes; whether the broker or the peer is faster is left to chance.
            bench.advance(bench.now.mono + Duration::from_millis(1));
            if dice.below(2) == 0 {
                bench.run_timers();
            }
            let now = bench.now.mono;
            while let Some(at) = attempts.iter().position(|attempt| attempt.ack_at <= now) {
                let attempt = attempts.swap_remove(at);
                match bench.ask(a, &ack(attempt.delivery_id, 0)) {
                    Ok(reply) => {
                        assert_eq!(reply, Reply::Done);
                        assert!(done.insert(attempt.message), "seed {seed}: done twice");
                    }
                    Err(error) => {
                        assert_eq!((error.code, &*error.message), (4, "message not found"));
                        stale += 1;
                    }
                }
                let counters = bench
                    .node
                    .broker()
                    .queue_counters("q")
                    .expect("it is there");
                let left = MESSAGES - done.len();
                assert_eq!(counters.messages, left, "seed {seed}");
                assert_eq!(counters.waiting + counters.unsettled, left, "seed {seed}");
                take(&mut bench, a, &mut dice, &mut attempts);
            }
            bench.run_timers();
            take(&mut bench, a, &mut dice, &mut attempts);
            let is_over = |attempt: &Attempt| done.contains(&attempt.message);
            assert!(
                !attempts.iter().any(is_over),
                "seed {seed}: done, and delivered"
            );
        }
        assert_eq!(done.len(), MESSAGES, "seed {seed}");
        assert!(stale > 100, "seed {seed}: {stale} of them lost the race");
        let counters = bench
            .node
            .broker()
            .queue_counters("q")
            .expect("it is there");
        assert_eq!((counters.messages, counters.unsettled), (0, 0));
    }
}
