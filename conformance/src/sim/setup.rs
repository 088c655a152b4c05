//! What is declared in a run: queues of all kinds, and exchanges.

use qq_core::broker::{Backoff, FailurePolicy, Overflow, QueueSpec};
use qq_core::route::{ExchangeKind, ExchangeSpec};

use super::plan::Fault;
use super::random::Random;

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
    pub(super) fn new(random: &mut Random, faults: &[Fault]) -> Self {
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
        all
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
    let is_kept = spec.failure_policy != FailurePolicy::Drop && spec.dead_letter_exchange.is_none();
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
