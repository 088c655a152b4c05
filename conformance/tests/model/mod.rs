//! Two small brokers that write valid histories: a queue with ordering keys, retries, a dead-letter queue and crashes,
//! and a log with two readers.

use std::collections::BTreeMap;

use qq_conformance::history::{Event, Outcome, What};
use qq_conformance::seed::Seed;

/// Attempts before a message is dead.
const ATTEMPTS: u64 = 4;
const MESSAGES: u64 = 120;

#[derive(Clone)]
struct Message {
    m: String,
    k: String,
    n: u64,
}

/// See the module.
pub(crate) struct Model {
    rng: Seed,
    t: u64,
    events: Vec<Event>,
    ready: Vec<Message>,
    dead: Vec<Message>,
    /// By delivery number: who holds what.
    held: BTreeMap<u64, (String, Message)>,
    failures: BTreeMap<String, u64>,
    deliveries: u64,
    generation: u64,
}

impl Model {
    fn new(seed: u64) -> Self {
        Self {
            rng: Seed::new(seed),
            t: 0,
            events: Vec::new(),
            ready: Vec::new(),
            dead: Vec::new(),
            held: BTreeMap::new(),
            failures: BTreeMap::new(),
            deliveries: 0,
            generation: 0,
        }
    }

    fn tell(&mut self, p: &str, what: What) {
        self.t += 1 + self.rng.below(1_000);
        self.events.push(Event {
            t: self.t,
            p: p.to_owned(),
            what,
        });
    }

    fn rules(&mut self, q: &str, max: Option<u64>, dlq: Option<&str>, is_log: bool) {
        let what = What::Queue {
            q: q.to_owned(),
            max,
            dlq: dlq.map(str::to_owned),
            is_log,
            dedup: is_log,
            lock: max.is_some(),
        };
        self.tell("admin", what);
    }

    /// A run of the queue.
    pub(crate) fn queue(seed: u64) -> Vec<Event> {
        let mut model = Self::new(seed);
        model.rules("q", Some(ATTEMPTS), Some("q.dlq"), false);
        model.rules("q.dlq", None, None, false);
        let mut counters: BTreeMap<(String, String), u64> = BTreeMap::new();
        let mut sent = 0;
        while sent < MESSAGES || !model.ready.is_empty() || !model.held.is_empty() {
            let drawn = model.rng.below(100);
            if sent < MESSAGES && drawn < 40 {
                model.send(sent, &mut counters);
                sent += 1;
            } else if drawn < 75 {
                model.deliver();
            } else if drawn < 97 {
                model.settle();
            } else {
                model.crash();
            }
        }
        model.tell("admin", What::Drain { q: "q".into() });
        for message in std::mem::take(&mut model.dead) {
            let d = model.receive("dl", "q.dlq", &message, None, None);
            let o = Outcome::Accepted;
            model.tell("dl", What::SettleInv { d: d.clone(), o });
            model.tell("dl", What::SettleOk { d });
        }
        model.tell("admin", What::Drain { q: "q.dlq".into() });
        model.events
    }

    fn send(&mut self, number: u64, counters: &mut BTreeMap<(String, String), u64>) {
        let k = if self.rng.below(2) == 0 { "A" } else { "B" }.to_owned();
        let p = format!("p{}", self.rng.below(2));
        let counter = counters.entry((p.clone(), k.clone())).or_default();
        let message = Message {
            m: format!("m{number}"),
            k,
            n: *counter,
        };
        *counter += 1;
        let m = message.m.clone();
        let what = What::SendInv {
            q: "q".into(),
            m: m.clone(),
            k: Some(message.k.clone()),
            n: Some(message.n),
            h: format!("h{m}"),
            dur: true,
        };
        self.tell(&p, what);
        match self.rng.below(100) {
            0..5 => self.tell(
                &p,
                What::SendFail {
                    m,
                    why: "full".into(),
                },
            ),
            5..12 => {
                self.tell(&p, What::SendInfo { m });
                if self.rng.below(2) == 0 {
                    self.ready.push(message);
                }
            }
            _ => {
                self.ready.push(message);
                self.tell(&p, What::SendOk { m, off: None });
            }
        }
    }

    fn receive(
        &mut self,
        p: &str,
        q: &str,
        message: &Message,
        c: Option<u64>,
        off: Option<u64>,
    ) -> String {
        self.deliveries += 1;
        let d = format!("d{}", self.deliveries);
        let has_key = q == "q";
        let what = What::Recv {
            q: q.to_owned(),
            m: message.m.clone(),
            h: format!("h{}", message.m),
            d: d.clone(),
            k: has_key.then(|| message.k.clone()),
            n: has_key.then_some(message.n),
            c,
            off,
        };
        self.tell(p, what);
        d
    }

    fn deliver(&mut self) {
        let is_free = |message: &Message| self.held.values().all(|(_, held)| held.k != message.k);
        let Some(at) = self.ready.iter().position(is_free) else {
            return;
        };
        let message = self.ready.remove(at);
        let p = format!("c{}.{}", 1 + self.rng.below(3), self.generation);
        let failures = self.failures.get(&message.m).copied().unwrap_or(0);
        self.receive(&p, "q", &message, Some(failures), None);
        self.held.insert(self.deliveries, (p, message));
    }

    fn settle(&mut self) {
        let numbers: Vec<u64> = self.held.keys().copied().collect();
        let Some(number) = self.rng.pick(&numbers).copied() else {
            return;
        };
        let Some((p, message)) = self.held.remove(&number) else {
            return;
        };
        let d = format!("d{number}");
        let o = match self.rng.below(100) {
            0..75 => Outcome::Accepted,
            75..85 => Outcome::Released,
            _ => Outcome::Failed,
        };
        self.tell(&p, What::SettleInv { d: d.clone(), o });
        if self.rng.below(100) < 80 {
            self.tell(&p, What::SettleOk { d });
        }
        match o {
            Outcome::Accepted => {}
            Outcome::Released => self.ready.insert(0, message),
            _ => self.fail(message),
        }
    }

    fn fail(&mut self, message: Message) {
        let failures = self.failures.entry(message.m.clone()).or_default();
        *failures += 1;
        if *failures >= ATTEMPTS {
            self.dead.push(message);
        } else {
            self.ready.insert(0, message);
        }
    }

    fn crash(&mut self) {
        let fault = |is_start| What::Fault {
            is_start,
            kind: "kill9".into(),
            node: "n1".into(),
        };
        self.tell("nemesis", fault(true));
        for client in 1..=3 {
            let p = format!("c{client}.{}", self.generation);
            self.tell(&p, What::Gone);
        }
        self.generation += 1;
        for (_, (_, message)) in std::mem::take(&mut self.held).into_iter().rev() {
            self.fail(message);
        }
        self.tell("nemesis", fault(false));
    }

    /// A run of the log.
    pub(crate) fn log(seed: u64) -> Vec<Event> {
        let mut model = Self::new(seed);
        model.rules("s", None, None, true);
        let mut log: Vec<Message> = Vec::new();
        let mut places = [0_usize; 2];
        for number in 0..80 {
            let message = Message {
                m: format!("m{number}"),
                k: String::new(),
                n: 0,
            };
            let m = message.m.clone();
            let what = What::SendInv {
                q: "s".into(),
                m: m.clone(),
                k: None,
                n: None,
                h: format!("h{m}"),
                dur: true,
            };
            model.tell("p", what);
            if model.rng.below(10) < 9 {
                let off = Some(log.len() as u64);
                model.tell("p", What::SendOk { m, off });
                log.push(message);
            } else {
                model.tell("p", What::SendInfo { m });
            }
            model.read(&log, &mut places, 70);
        }
        model.read(&log, &mut places, 100);
        model.tell("admin", What::Drain { q: "s".into() });
        model.events
    }

    fn read(&mut self, log: &[Message], places: &mut [usize; 2], percent: u64) {
        for (reader, place) in places.iter_mut().enumerate() {
            while *place < log.len() && self.rng.below(100) < percent {
                let p = format!("c{}", reader + 1);
                self.receive(&p, "s", &log[*place], None, Some(*place as u64));
                *place += 1;
            }
        }
    }
}
