//! What is declared in a run: queues of all kinds, and exchanges.

use qq_core::broker::{Backoff, FailurePolicy, Overflow, QueueSpec};
use qq_core::route::{ExchangeKind, ExchangeSpec};

use super::plan::Fault;
use super::random::Random;

/// The queue whose messages have ordering keys.
pub(super) const KEYED: &str = "keyed";
/// The queue that takes back what consumers hold for too long.
pub(super) const LEASED: &str = "leased";
/// Queues that clients of both protocols use; they are not deleted where there are such clients.
pub(super) const QWERQ_QUEUES: [&str; 7] =
    ["both", "plain", "volatile", "work", "ranked", KEYED, TEAM];
/// The queue that has groups.
pub(super) const TEAM: &str = "team";
/// The stream.
pub(super) const LOG: &str = "log";
/// The exchange for dead letters, which nobody touches.
pub(super) const DEAD_EXCHANGE: &str = "dead";

/// Exchanges of all types.
pub(super) fn exchanges(random: &mut Random) -> Vec<ExchangeSpec> {
    let kinds = [
        ("d", ExchangeKind::Direct),
        ("t", ExchangeKind::Topic),
        ("f", ExchangeKind::Fanout),
        ("h", ExchangeKind::Headers),
    ];
    let all: Vec<_> = kinds
        .into_iter()
        .map(|(name, kind)| ExchangeSpec {
            durable: random.is_lucky(700),
            auto_delete: random.is_lucky(300),
            alternate_exchange: random
                .is_lucky(400)
                .then(|| ["f", "t", "amq.direct", "nowhere"][random.index(4)].to_owned()),
            ..ExchangeSpec::new(name, kind)
        })
        .collect();
    all
}

/// The queues of a run.
#[derive(Default)]
pub(super) struct Queues {
    pub(super) queues: Vec<QueueSpec>,
    pub(super) targets: Vec<QueueSpec>,
    pub(super) graves: Vec<QueueSpec>,
}

impl Queues {
    pub(super) fn new(random: &mut Random, faults: &[Fault], seed: u64) -> Self {
        let has = |fault| faults.contains(&fault);
        let mut all = Self::default();
        all.queues.push(lossy("plain"));
        if random.is_lucky(600) {
            all.queues.push(QueueSpec {
                durable: false,
                ..lossy("volatile")
            });
        }
        if has(Fault::Limits) {
            all.queues.push(QueueSpec {
                max_length: Some(random.within(1, 20)),
                ..lossy("short")
            });
            all.queues.push(QueueSpec {
                max_length: Some(random.within(1, 20)),
                max_bytes: random.is_lucky(500).then_some(4_000),
                overflow: Overflow::DropHead,
                ..lossy("ring")
            });
        }
        if has(Fault::Expiry) {
            all.queues.push(QueueSpec {
                message_ttl_ms: Some(random.within(1, 2_000)),
                ..lossy("brief")
            });
        }
        if has(Fault::Priorities) {
            all.queues.push(QueueSpec {
                durable: random.is_lucky(700),
                max_priority: random.within(1, 10) as u8,
                ..lossy("ranked")
            });
            all.queues.push(QueueSpec {
                max_priority: 5,
                max_length: Some(random.within(2, 20)),
                overflow: Overflow::DropHead,
                ..lossy("ranked.ring")
            });
        }
        if has(Fault::DeadLetters) {
            // With bodies in the store, a full ring waits for the one that it drops.
            all.keep_dead(random, !has(Fault::Paging), has(Fault::Exchanges));
        }
        if has(Fault::Delays) {
            for spec in &mut all.queues {
                if ["plain", "work", "poor"].contains(&spec.name.as_str()) && random.is_lucky(600) {
                    let min_ms = random.within(1, 300);
                    spec.retry_backoff = Some(Backoff {
                        min_ms,
                        max_ms: min_ms * random.within(1, 5),
                        factor: random.within(1, 3) as u32,
                    });
                }
            }
        }
        all.add_later(faults, seed);
        all
    }

    /// What kinds of trouble that came later need: drawn from a stream of their own.
    fn add_later(&mut self, faults: &[Fault], seed: u64) {
        let has = |fault| faults.contains(&fault);
        let random = &mut Random::fork(seed, 12, 0);
        let kept = |random: &mut Random, name: &str| QueueSpec {
            durable: random.is_lucky(700),
            ..lossy(name)
        };
        if has(Fault::Keys) {
            let mut keyed = kept(random, KEYED);
            if has(Fault::DeadLetters) {
                keyed.max_deliveries = random.within(1, 3) as u32;
                keyed.failure_policy = FailurePolicy::Dlq;
                self.targets.push(grave_of(&keyed));
            }
            self.queues.push(keyed);
        }
        if has(Fault::Single) {
            self.queues.push(QueueSpec {
                single_active_consumer: true,
                ..kept(random, "sole")
            });
        }
        if has(Fault::Locks) {
            self.queues.push(QueueSpec {
                // Longer than the pauses of the client that empties the queues.
                lock_timeout_ms: Some(random.within(300, 2_000)),
                ..kept(random, LEASED)
            });
        }
        if has(Fault::Streams) {
            self.queues.push(QueueSpec {
                max_length: random.is_lucky(300).then(|| random.within(5, 80)),
                max_bytes: random.is_lucky(200).then(|| random.within(2_000, 20_000)),
                ..QueueSpec::stream(LOG)
            });
        }
        if has(Fault::Groups) {
            self.queues.push(QueueSpec {
                groups_only: random.is_lucky(500),
                ..kept(random, TEAM)
            });
        }
        if has(Fault::Qwerq) {
            self.queues.push(lossy("both"));
        }
        if has(Fault::Duplicates) {
            for spec in self.queues.iter_mut().filter(|spec| !spec.is_stream()) {
                // None, some that pass within a run, and the usual one, which does not.
                spec.dedup_window_ms = [0, random.within(20, 3_000), 300_000][random.index(3)];
            }
        }
    }

    /// Queues that give up, and where their dead letters go.
    fn keep_dead(&mut self, random: &mut Random, may_drop: bool, has_exchanges: bool) {
        for spec in &mut self.queues {
            match spec.name.as_str() {
                "short" => {
                    spec.failure_policy = FailurePolicy::Dlq;
                    spec.overflow = Overflow::RejectDlx;
                    self.targets.push(grave_of(spec));
                }
                "ring" if may_drop => {
                    spec.failure_policy = FailurePolicy::Dlq;
                    spec.dead_letter_routing_key = Some("ring.dead".to_owned());
                    self.targets.push(lossy("ring.dead"));
                }
                "brief" => {
                    spec.failure_policy = FailurePolicy::Infinite;
                    self.targets.push(grave_of(spec));
                }
                _ => {}
            }
        }
        let policies = [
            (3, FailurePolicy::Dlq),
            (1, FailurePolicy::Drop),
            (1, FailurePolicy::Infinite),
        ];
        let work = QueueSpec {
            durable: random.is_lucky(800),
            failure_policy: random.weighted(&policies).unwrap_or_default(),
            max_deliveries: random.within(1, 3) as u32,
            ..QueueSpec::new("work")
        };
        self.targets.push(grave_of(&work));
        let poor = QueueSpec {
            durable: random.is_lucky(700),
            max_deliveries: 2,
            ..QueueSpec::new("poor")
        };
        self.graves.push(grave_of(&poor));
        if has_exchanges {
            // All copies of a dead letter arrive at once.
            self.queues.push(QueueSpec {
                dead_letter_exchange: Some(DEAD_EXCHANGE.to_owned()),
                max_deliveries: 2,
                ..QueueSpec::new("spread")
            });
            self.targets.extend([lossy("dead.a"), lossy("dead.b")]);
        }
        let first = QueueSpec {
            dead_letter_routing_key: Some("second".to_owned()),
            max_deliveries: 1,
            ..QueueSpec::new("first")
        };
        let second = QueueSpec {
            max_deliveries: 2,
            ..QueueSpec::new("second")
        };
        self.targets.push(grave_of(&second));
        self.targets.push(second);
        self.queues.extend([work, poor, first]);
    }
}

/// The queue that takes the dead letters of another.
fn grave_of(source: &QueueSpec) -> QueueSpec {
    QueueSpec {
        durable: source.durable,
        ..lossy(&format!("{}.dlq", source.name))
    }
}

/// Where the dead letters of a queue come first, if it has any.
pub(super) fn first_grave(spec: &QueueSpec) -> Option<String> {
    let own = || format!("{}.dlq", spec.name);
    let is_kept = !spec.is_stream()
        && spec.failure_policy != FailurePolicy::Drop
        && spec.dead_letter_exchange.is_none();
    is_kept.then(|| spec.dead_letter_routing_key.clone().unwrap_or_else(own))
}

/// A queue that drops what it cannot keep and never gives up on a consumer.
pub(super) fn lossy(name: &str) -> QueueSpec {
    QueueSpec {
        failure_policy: FailurePolicy::Drop,
        max_deliveries: 0,
        ..QueueSpec::new(name)
    }
}
