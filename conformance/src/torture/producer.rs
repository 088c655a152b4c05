//! A producer that keeps many messages on their way and takes down what became of each.

use super::client::{Client, Lost, encode};
use super::record::{MessageId, Recorder, What, hash_of};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a producer does.
#[derive(Debug, Clone)]
pub struct ProducerPlan {
    /// Its number: part of every message's id. Unique in a run.
    pub id: u32,
    /// Where to.
    pub queue: Arc<str>,
    /// Octets of each body, at least 16.
    pub size: usize,
    /// Messages on their way at once.
    pub window: usize,
    /// The first counter.
    pub first_n: u64,
    /// So many messages; `None` until told to stop.
    pub count: Option<u64>,
    /// Whether messages must survive.
    pub is_durable: bool,
    /// Stops after the first refusal.
    pub is_stopped_by_refusal: bool,
    /// Whether each message goes into the history; off for backlogs of millions.
    pub is_recorded: bool,
}

impl ProducerPlan {
    /// Durable messages of 100 octets, 256 on their way, until told to stop.
    pub fn new(id: u32, queue: &str) -> Self {
        Self {
            id,
            queue: queue.into(),
            size: 100,
            window: 256,
            first_n: 0,
            count: None,
            is_durable: true,
            is_stopped_by_refusal: false,
            is_recorded: true,
        }
    }
}

/// How a producer came to its end.
#[derive(Debug, Clone, Default)]
pub struct Produced {
    /// Messages sent.
    pub sent: u64,
    /// Of them accepted.
    pub accepted: u64,
    /// Of them refused or released.
    pub refused: u64,
    /// Of them without an answer.
    pub unanswered: u64,
    /// The longest time from the write of a message to its answer.
    pub slowest: Duration,
    /// The connection's end, when it was not ours.
    pub lost: Option<Lost>,
    /// Port of its end of the connection.
    pub local_port: u16,
    /// Condition of the last refusal.
    pub condition: String,
}

/// A producer at work.
struct Producer<'a> {
    plan: &'a ProducerPlan,
    client: Client,
    recorder: &'a mut Recorder,
    accepted: &'a AtomicU64,
    result: Produced,
    next_n: u64,
    /// Link credit left.
    credit: u32,
    /// By delivery id; ids do not wrap in a run.
    in_flight: BTreeMap<u32, (MessageId, Instant)>,
}

/// Produces until the plan is fulfilled, `stop` is set, or the connection goes. Counts what is
/// accepted in `accepted` while it works.
pub fn produce(
    port: u16,
    plan: &ProducerPlan,
    stop: &AtomicBool,
    accepted: &AtomicU64,
    recorder: &mut Recorder,
) -> Produced {
    recorder.is_on = plan.is_recorded;
    let container = format!("producer-{}-{}", plan.id, plan.first_n);
    let opened = Client::open(port, &container)
        .and_then(|mut c| c.attach_sender(0, &container, &plan.queue).map(|()| c));
    let client = match opened {
        Ok(client) => client,
        Err(lost) => {
            return Produced {
                lost: Some(lost),
                ..Produced::default()
            };
        }
    };
    let result = Produced {
        local_port: client.local_port(),
        ..Produced::default()
    };
    let mut producer = Producer {
        plan,
        client,
        recorder,
        accepted,
        result,
        next_n: plan.first_n,
        credit: 0,
        in_flight: BTreeMap::new(),
    };
    let ended = producer.run(stop);
    let Producer {
        client,
        mut result,
        in_flight,
        ..
    } = producer;
    result.unanswered = in_flight.len() as u64;
    for (m, _) in in_flight.values() {
        recorder.note(What::Unknown(*m));
    }
    match ended {
        Ok(()) => result.lost = client.close().err().map(Lost::Cut),
        Err(lost) => result.lost = Some(lost),
    }
    recorder.note(What::Gone);
    result
}

impl Producer<'_> {
    fn run(&mut self, stop: &AtomicBool) -> Result<(), Lost> {
        let end_n = self.plan.count.map(|count| self.plan.first_n + count);
        loop {
            let is_refused = self.plan.is_stopped_by_refusal && self.result.refused > 0;
            let is_over = stop.load(Ordering::Relaxed)
                || end_n.is_some_and(|e| self.next_n >= e)
                || is_refused;
            if is_over && self.in_flight.is_empty() {
                return Ok(());
            }
            if !is_over {
                self.send_some(end_n)?;
            }
            self.client.flush()?;
            let mut wait = Duration::from_millis(50);
            while let Some(frame) = self.client.next_frame(wait)? {
                self.on_frame(&frame)?;
                wait = Duration::ZERO;
            }
        }
    }

    fn send_some(&mut self, end_n: Option<u64>) -> Result<(), Lost> {
        let now_ns = self.recorder.now_ns();
        let now = Instant::now();
        while self.credit > 0
            && self.client.has_window()
            && self.in_flight.len() < self.plan.window
            && end_n.is_none_or(|e| self.next_n < e)
        {
            let m = MessageId::new(self.plan.id, self.next_n);
            self.next_n += 1;
            self.credit -= 1;
            let body = m.body(self.plan.size);
            let send = What::Send {
                queue: Arc::clone(&self.plan.queue),
                m,
                hash: hash_of(&body),
                is_durable: self.plan.is_durable,
            };
            self.recorder.note_at(now_ns, send);
            let payload = encode(&body, self.plan.is_durable, 0);
            let id = self.client.transfer(0, false, &payload);
            self.in_flight.insert(id, (m, now));
            self.result.sent += 1;
        }
        Ok(())
    }

    fn on_frame(&mut self, frame: &crate::wire::Frame) -> Result<(), Lost> {
        match frame.name() {
            "flow" if frame.number("handle") == Some(0) => {
                let count = frame.number("delivery-count").unwrap_or(0) as u32;
                let credit = frame.number("link-credit").unwrap_or(0) as u32;
                self.credit = count.wrapping_add(credit).wrapping_sub(self.client.sent);
            }
            "disposition" if frame.flag("role") => {
                let first = frame.number("first").unwrap_or(0) as u32;
                let last = frame.number("last").map_or(first, |l| l as u32);
                self.on_outcome(first, last, frame);
            }
            "detach" | "end" => return Err(Lost::Cut(format!("{frame:?}"))),
            _ => {}
        }
        Ok(())
    }

    fn on_outcome(&mut self, first: u32, last: u32, frame: &crate::wire::Frame) {
        let now_ns = self.recorder.now_ns();
        for id in first..=last {
            let Some((m, since)) = self.in_flight.remove(&id) else {
                continue;
            };
            self.result.slowest = self.result.slowest.max(since.elapsed());
            if frame.state() == "accepted" {
                self.result.accepted += 1;
                self.accepted.fetch_add(1, Ordering::Relaxed);
                self.recorder.note_at(now_ns, What::Sent(m));
            } else {
                self.result.refused += 1;
                let error = frame.field("state").field(0);
                self.result.condition = error.field(0).words().unwrap_or(frame.state()).into();
                let why = self.result.condition.clone();
                self.recorder.note_at(now_ns, What::Refused(m, why));
            }
        }
    }
}
