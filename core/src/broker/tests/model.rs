//! Random walks against a model of a queue that is a plain list: every delivery must be the one that the list says.
//!
//! The model finds the next message by scanning from the front and knows no cursor, no sets and no chunks. All
//! consumers are on one connection, so the order of its notices is the order of the deliveries. Seeds are printed on
//! failure; the same seed walks the same way.
//!
//! The same walks are made by a broker that keeps hardly any bodies, with a store that answers at once or late and in
//! any order, with restarts in between: the list is the same.

use super::harness::*;
use super::random::Random;
use crate::broker::{Backoff, BrokerConfig, Paging, QueueSpec};
use crate::vocab::{ConsumerSpec, Delay, Delivered, Envelope, Notice, Outcome, Port, Wishes};

#[derive(Debug)]
struct Listed {
    text: String,
    number: u64,
    is_durable: bool,
    expires_at_ms: Option<u64>,
    count: u32,
    was_taken: bool,
    /// Who has it, and under which delivery.
    holder: Option<(Port, u64)>,
    /// When the holder loses it.
    lock_ends_ms: u64,
    /// Nobody gets it before.
    due_ms: u64,
    /// What its sender asked for.
    asked_due_ms: u64,
    excluded: Vec<Port>,
}

#[derive(Debug)]
struct Reader {
    port: Port,
    link: &'static str,
    is_settled: bool,
    /// Only looks: what it comes to next.
    browses_from: Option<u64>,
    sent: u64,
    limit: u64,
}

/// How the store takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bodies {
    /// All bodies stay in memory.
    Stay,
    /// They leave and come back at once.
    Prompt,
    /// They come back late and in any order.
    Late,
}

struct Walk {
    bodies: Bodies,
    /// So many of eight messages are durable.
    durable_of_8: u64,
    /// How long a reader may hold a message.
    lock_ms: Option<u64>,
    /// Some messages are to be delivered later.
    has_delays: bool,
    /// How long a message waits after a failed attempt, at first and at most.
    backoff_ms: Option<(u64, u64)>,
    rig: Rig,
    random: Random,
    list: Vec<Listed>,
    readers: Vec<Reader>,
    clock_ms: u64,
    published: u64,
    next_port: u32,
    deliveries: u64,
}

impl Walk {
    fn new(seed: u64, bodies: Bodies) -> Self {
        let lock_ms = (seed % 2 == 1).then_some(40);
        // What is away comes later than its turn, so that a plain list cannot tell the order.
        let has_time = bodies == Bodies::Stay;
        let has_delays = has_time && seed % 4 >= 2;
        let backoff_ms = (has_time && seed.is_multiple_of(3)).then_some((7, 50));
        let mut rig = Rig::new(walk_config(seed, bodies, lock_ms, backoff_ms));
        rig.is_prompt = bodies != Bodies::Late;
        rig.produce(A, P, named("q"));
        let mut random = Random(seed);
        Self {
            bodies,
            durable_of_8: [4, 7, 8][random.index(3)],
            lock_ms,
            has_delays,
            backoff_ms,
            rig,
            random,
            list: Vec::new(),
            readers: Vec::new(),
            clock_ms: 0,
            published: 0,
            next_port: 0,
            deliveries: 0,
        }
    }

    fn step(&mut self) {
        match self
            .random
            .below(if self.bodies == Bodies::Late { 24 } else { 16 })
        {
            16.. => self.fetch(),
            15 if self.random.below(16) == 0 => self.restart(),
            14 if self.random.below(16) == 0 => {
                self.rig.broker.purge_queue("q").expect("q exists");
                self.rig.flush();
                self.list.retain(|message| message.holder.is_some());
            }
            0..=3 => self.publish(),
            4..=7 if !self.readers.is_empty() => self.permit(),
            11 if self.lock_ms.is_some()
                && !self.readers.is_empty()
                && self.random.below(4) == 0 =>
            {
                self.extend();
            }
            8..=11 if !self.readers.is_empty() => self.settle(),
            12 if !self.readers.is_empty() => self.close(),
            13 => {
                let ms = self.random.below(30);
                self.rig.sleep_ms(ms);
                self.clock_ms += ms;
            }
            _ if self.readers.len() < 5 => self.open(),
            _ => {}
        }
        self.rig.tick();
        self.expire();
        self.check_deliveries();
        self.check_rest();
    }

    fn publish(&mut self) {
        let mut commands = Vec::new();
        // Mostly a few, now and then more than a chunk.
        let count = if self.random.below(12) == 0 {
            300
        } else {
            1 + self.random.below(6)
        };
        for _ in 0..count {
            let ttl_ms = (self.random.below(4) == 0).then(|| 1 + self.random.below(60));
            let durable = self.random.below(8) < self.durable_of_8;
            let number = self.published;
            let text = self.published.to_string();
            self.published += 1;
            let delay_ms = if self.has_delays && self.random.below(4) == 0 {
                self.random.below(80)
            } else {
                0
            };
            let delay = (delay_ms > 0).then_some(Delay::For(delay_ms));
            let envelope = Envelope {
                ttl_ms,
                durable,
                wishes: Wishes {
                    delay,
                    dedup_id: None,
                }
                .some(),
                ..Envelope::default()
            };
            let asked_due_ms = self.clock_ms + delay_ms;
            commands.push(self.rig.next_publish(A, P, message(&text, envelope)));
            self.list.push(Listed {
                text,
                number,
                is_durable: durable,
                expires_at_ms: ttl_ms.map(|ttl_ms| self.clock_ms + ttl_ms),
                count: 0,
                was_taken: false,
                holder: None,
                lock_ends_ms: 0,
                // Never early, and at most a millisecond late.
                due_ms: asked_due_ms + u64::from(delay_ms > 0),
                asked_due_ms,
                excluded: Vec::new(),
            });
        }
        self.rig.commands(A, commands);
    }

    /// Opens a consumer; when its link is in use, that is stolen.
    fn open(&mut self) {
        let port = Port(self.next_port);
        self.next_port += 1;
        let link = ["a", "b", "c", "d", "e", "f"][self.random.index(6)];
        let is_settled = self.random.below(5) == 0;
        let browse = self.random.below(6) == 0;
        if let Some(old) = self.readers.iter().position(|reader| reader.link == link) {
            let old = self.readers.remove(old);
            self.put_back(old.port, 0, u64::MAX, &Outcome::Lost);
        }
        let spec = ConsumerSpec {
            key: key(link),
            settled: is_settled,
            browse,
            ..consumer(named("q"))
        };
        self.rig.consume(B, port, spec);
        self.readers.push(Reader {
            port,
            link,
            is_settled,
            browses_from: browse.then_some(0),
            sent: 0,
            limit: 0,
        });
    }

    fn permit(&mut self) {
        let reader = self.random.index(self.readers.len());
        let range = if self.random.below(8) == 0 { 400 } else { 8 };
        let limit = (self.readers[reader].sent + self.random.below(range)).saturating_sub(2);
        self.readers[reader].limit = limit;
        let port = self.readers[reader].port;
        self.rig.permit(B, port, limit);
    }

    fn settle(&mut self) {
        let reader = self.random.index(self.readers.len());
        let Reader { port, sent, .. } = self.readers[reader];
        let width = if self.random.below(4) == 0 { 400 } else { 3 };
        let first = sent.saturating_sub(self.random.below(width + 2));
        let last = first + self.random.below(width);
        let outcome = match self.random.below(8) {
            0..=2 => Outcome::Accepted,
            3 => Outcome::Rejected { reason: None },
            4 => Outcome::Released,
            5 => failed(),
            6 => not_here(),
            _ => Outcome::Lost,
        };
        self.put_back(port, first, last, &outcome);
        self.rig.settle(B, port, first, last, outcome);
    }

    fn extend(&mut self) {
        let reader = self.random.index(self.readers.len());
        let Reader { port, sent, .. } = self.readers[reader];
        let (first, last) = (sent.saturating_sub(3), sent.saturating_sub(2));
        let lock_ms = (self.random.below(2) == 0).then(|| 1 + self.random.below(90));
        for message in &mut self.list {
            if let Some((holder, id)) = message.holder
                && holder == port
                && (first..=last).contains(&id)
            {
                message.lock_ends_ms = self.clock_ms + lock_ms.or(self.lock_ms).unwrap_or(0);
            }
        }
        self.rig.command(B, extend(port, first, last, lock_ms));
    }

    fn close(&mut self) {
        let reader = self.random.index(self.readers.len());
        let port = self.readers.remove(reader).port;
        let lost = self.random.below(2) == 0;
        self.put_back(
            port,
            0,
            u64::MAX,
            if lost {
                &Outcome::Lost
            } else {
                &Outcome::Released
            },
        );
        self.rig.close(B, port, lost);
    }

    /// What the end of attempts does to the list.
    fn put_back(&mut self, port: Port, first: u64, last: u64, outcome: &Outcome) {
        let (clock_ms, backoff_ms) = (self.clock_ms, self.backoff_ms);
        self.list.retain_mut(|message| {
            let is_meant = message
                .holder
                .is_some_and(|(holder, id)| holder == port && (first..=last).contains(&id));
            if !is_meant {
                return true;
            }
            message.holder = None;
            match outcome {
                Outcome::Accepted | Outcome::Rejected { .. } => return false,
                Outcome::Lost | Outcome::Modified { failed: true, .. } => {
                    message.fail(clock_ms, backoff_ms);
                }
                Outcome::Modified {
                    undeliverable_here: true,
                    ..
                } => message.excluded.push(port),
                Outcome::Released | Outcome::Modified { .. } => {}
            }
            true
        });
    }

    fn expire(&mut self) {
        let clock_ms = self.clock_ms;
        if self.lock_ms.is_some() {
            let held = |message: &&mut Listed| message.holder.is_some();
            for message in self.list.iter_mut().filter(held) {
                if message.lock_ends_ms <= clock_ms {
                    message.holder = None;
                    message.fail(clock_ms, self.backoff_ms);
                }
            }
        }
        self.list.retain(|message| {
            message.holder.is_some() || message.expires_at_ms.is_none_or(|at_ms| at_ms > clock_ms)
        });
    }

    /// The first message of the list that a reader may get.
    fn next_for(&self, reader: &Reader) -> Option<usize> {
        self.list.iter().position(|message| {
            message.holder.is_none()
                && message.due_ms <= self.clock_ms
                && match reader.browses_from {
                    Some(from) => message.number >= from,
                    None => !message.excluded.contains(&reader.port),
                }
        })
    }

    /// The store answers one of its requests.
    fn fetch(&mut self) {
        if !self.rig.fetches.is_empty() {
            let index = self.random.index(self.rig.fetches.len());
            self.rig.fetch_one(index);
        }
    }

    /// The process ends and starts anew: what is not stored is gone, nobody holds anything.
    fn restart(&mut self) {
        let config = walk_config(self.random.0, self.bodies, self.lock_ms, self.backoff_ms);
        self.rig = self.rig.restarted(config);
        self.rig.is_prompt = self.bodies != Bodies::Late;
        self.rig.produce(A, P, named("q"));
        self.readers.clear();
        self.list.retain_mut(|message| {
            message.holder = None;
            message.excluded.clear();
            // Waits between attempts end; what the sender asked for does not.
            message.due_ms = message.asked_due_ms;
            // That somebody had it is known from the count alone.
            message.was_taken = message.count > 0;
            message.is_durable
        });
    }

    fn check_deliveries(&mut self) {
        self.rig.told(A);
        for notice in self.rig.told(B) {
            if let Notice::Deliver { port, delivered } = notice {
                self.check_delivery(port, &delivered);
            }
        }
        for reader in self
            .readers
            .iter()
            .filter(|reader| reader.sent < reader.limit)
        {
            // Only the store may be what it waits for.
            assert!(
                self.next_for(reader).is_none() || !self.rig.fetches.is_empty(),
                "{reader:?} has a permit and gets nothing"
            );
        }
    }

    fn check_delivery(&mut self, port: Port, delivered: &Delivered) {
        self.deliveries += 1;
        let reader = self
            .readers
            .iter()
            .position(|reader| reader.port == port)
            .expect("deliveries go to open ports");
        let found = self
            .next_for(&self.readers[reader])
            .expect("the list has a message for the port");
        let reader = &mut self.readers[reader];
        let listed = &mut self.list[found];
        let got = (
            text(delivered),
            delivered.delivery.0,
            delivered.delivery_count,
            delivered.first_acquirer,
        );
        assert_eq!(
            got,
            (
                listed.text.clone(),
                reader.sent,
                listed.count,
                !listed.was_taken
            )
        );
        reader.sent += 1;
        assert!(
            reader.sent <= reader.limit,
            "{reader:?} got more than its permit"
        );
        if reader.browses_from.is_some() {
            reader.browses_from = Some(listed.number + 1);
            return;
        }
        listed.was_taken = true;
        listed.holder = Some((port, reader.sent - 1));
        listed.lock_ends_ms = self.clock_ms + self.lock_ms.unwrap_or(0);
        if reader.is_settled {
            self.list.remove(found);
        }
    }

    fn check_rest(&self) {
        let counters = self.rig.broker.counters();
        let held = self
            .list
            .iter()
            .filter(|message| message.holder.is_some())
            .count();
        let bytes: usize = match self.bodies {
            Bodies::Stay => self
                .list
                .iter()
                .map(|message| message.text.len() + 160)
                .sum(),
            Bodies::Prompt | Bodies::Late => self.rig.broker.counted_bytes(),
        };
        assert_eq!(
            (
                counters.messages,
                counters.unsettled,
                counters.bytes,
                counters.consumers
            ),
            (self.list.len(), held, bytes, self.readers.len())
        );
        assert_eq!(counters.bodies + counters.paged, counters.messages);
        let is_free = |message: &&Listed| message.holder.is_some() || !message.is_durable;
        let bound = self.list.iter().filter(is_free).count();
        if self.bodies != Bodies::Stay && self.rig.broker.returned_len("q") == 0 {
            let window = 2 * PAGING.window_len + bound;
            assert!(counters.bodies <= window + 1, "{counters:?} {window}");
        }
    }

    /// In the end everything that is left comes out in order, and nothing stays.
    fn finish(mut self) -> u64 {
        self.rig.is_prompt = true;
        self.rig.flush();
        self.check_deliveries();
        while !self.readers.is_empty() {
            self.close();
            self.check_deliveries();
        }
        let last_ms = self.list.iter().map(|message| message.due_ms).max();
        let wait_ms = last_ms.unwrap_or(0).saturating_sub(self.clock_ms);
        self.rig.sleep_ms(wait_ms);
        self.clock_ms += wait_ms;
        self.rig.tick();
        self.expire();
        self.next_port += 1;
        let port = Port(self.next_port);
        self.rig.consume(
            B,
            port,
            ConsumerSpec {
                settled: true,
                ..consumer(named("q"))
            },
        );
        self.rig.permit(B, port, u64::MAX);
        let rest = self.rig.texts(B, port);
        let expected: Vec<_> = self
            .list
            .iter()
            .map(|message| message.text.clone())
            .collect();
        assert_eq!(rest, expected);
        let counters = self.rig.broker.counters();
        assert_eq!(
            (counters.messages, counters.bytes, counters.unsettled),
            (0, 0, 0)
        );
        self.deliveries
    }
}

const PAGING: Paging = Paging {
    window_len: 16,
    window_bytes: 1_000,
    cache_bytes: 1 << 30,
};

impl Listed {
    fn fail(&mut self, clock_ms: u64, backoff_ms: Option<(u64, u64)>) {
        self.count += 1;
        if let Some((min_ms, max_ms)) = backoff_ms {
            let wait_ms = (1..self.count).fold(min_ms, |wait_ms, _| (wait_ms * 3).min(max_ms));
            self.due_ms = clock_ms + wait_ms + 1;
        }
    }
}

fn walk_config(
    seed: u64,
    bodies: Bodies,
    lock_timeout_ms: Option<u64>,
    backoff_ms: Option<(u64, u64)>,
) -> BrokerConfig {
    let queue = QueueSpec {
        retry_backoff: backoff_ms.map(|(min_ms, max_ms)| Backoff {
            min_ms,
            max_ms,
            factor: 3,
        }),
        lock_timeout_ms,
        ..lossy("q")
    };
    BrokerConfig {
        hash_seed: seed,
        paging: (bodies != Bodies::Stay).then_some(PAGING),
        ..config([queue])
    }
}

#[test]
fn a_queue_delivers_what_a_plain_list_would() {
    walk(Bodies::Stay);
}

#[test]
fn a_queue_whose_bodies_leave_delivers_the_same() {
    walk(Bodies::Prompt);
}

#[test]
fn a_queue_whose_bodies_come_back_late_delivers_the_same() {
    walk(Bodies::Late);
}

fn walk(bodies: Bodies) {
    let (mut deliveries, mut paged) = (0, 0);
    for seed in 0..40 {
        println!("seed {seed}");
        let mut walk = Walk::new(seed, bodies);
        for _ in 0..400 {
            walk.step();
            paged = paged.max(walk.rig.broker.counters().paged);
        }
        deliveries += walk.finish();
    }
    println!("{deliveries} deliveries were checked");
    assert!(
        deliveries > 12_000,
        "{deliveries} deliveries are too few to mean anything"
    );
    println!("{paged} messages were away at a time");
    assert_eq!(bodies == Bodies::Stay, paged == 0);
    assert!(
        bodies == Bodies::Stay || paged > 500,
        "{paged} are too few to be packed"
    );
}
