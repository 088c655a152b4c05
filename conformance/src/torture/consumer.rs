//! A consumer that settles what it gets and takes down every step, and the drain at the end of a
//! run.

use super::client::{Client, Lost, PATIENCE, decode};
use super::record::{MessageId, Recorder, What, hash_of};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a consumer does.
#[derive(Debug, Clone)]
pub struct ConsumerPlan {
    /// Its number, unique in a run: part of every delivery's name.
    pub id: u32,
    /// Where from.
    pub queue: Arc<str>,
    /// Link credit, renewed when half is used.
    pub credit: u32,
    /// Whether settlements are confirmed by the broker (receiver settles second).
    pub is_second: bool,
    /// Every so many deliveries one is released; 0 for none.
    pub release_every: u64,
    /// Waits so long before each settlement.
    pub pause: Duration,
    /// Whether each delivery goes into the history; else only the numbers of whole messages are
    /// kept.
    pub is_recorded: bool,
}

impl ConsumerPlan {
    /// Accepts all, credit 200, settles first.
    pub fn new(id: u32, queue: &str) -> Self {
        Self {
            id,
            queue: queue.into(),
            credit: 200,
            is_second: false,
            release_every: 0,
            pause: Duration::ZERO,
            is_recorded: true,
        }
    }
}

/// How a consumer came to its end.
#[derive(Debug, Clone, Default)]
pub struct Consumed {
    /// Deliveries.
    pub received: u64,
    /// What came whole, for consumers that are not recorded.
    pub numbers: Vec<u64>,
    /// The connection's end, when it was not ours.
    pub lost: Option<Lost>,
}

struct Consumer<'a> {
    plan: &'a ConsumerPlan,
    client: Client,
    recorder: &'a mut Recorder,
    received: &'a AtomicU64,
    result: Consumed,
    /// Deliveries counted by the link.
    link_count: u32,
    /// What of the last grant is left.
    credit_left: u32,
    partial: Vec<u8>,
    /// Waiting to be settled: delivery id, delivery's name.
    held: Vec<(u32, u64)>,
    /// Settled, not confirmed.
    unconfirmed: BTreeMap<u32, u64>,
    /// Whether the broker said that the queue is empty.
    is_drained: bool,
}

/// Consumes until `stop` is set or the connection goes. Counts deliveries in `received`.
pub fn consume(
    port: u16,
    plan: &ConsumerPlan,
    stop: &AtomicBool,
    received: &AtomicU64,
    recorder: &mut Recorder,
) -> Consumed {
    recorder.is_on = plan.is_recorded;
    let (lost, mut result) = match Consumer::attach(port, plan, received, recorder) {
        Err(lost) => (Some(lost), Consumed::default()),
        Ok(mut consumer) => {
            let ended = consumer.run(stop);
            let result = consumer.result;
            match ended {
                Ok(()) => (consumer.client.close().err().map(Lost::Cut), result),
                Err(lost) => (Some(lost), result),
            }
        }
    };
    result.lost = lost;
    recorder.note(What::Gone);
    result
}

/// Consumes what is left: until the broker says twice, `quiet` apart, that the queue is empty.
/// Returns the number of messages.
pub fn drain(
    port: u16,
    plan: &ConsumerPlan,
    quiet: Duration,
    recorder: &mut Recorder,
) -> Result<u64, Lost> {
    let received = AtomicU64::new(0);
    let mut consumer = Consumer::attach(port, plan, &received, recorder)?;
    let mut empty_since: Option<Instant> = None;
    let mut last_seen = Instant::now();
    loop {
        let before = consumer.result.received;
        consumer.drain_once()?;
        if consumer.result.received > before {
            empty_since = None;
            last_seen = Instant::now();
        } else if empty_since.get_or_insert_with(Instant::now).elapsed() >= quiet {
            break;
        } else {
            std::thread::sleep(quiet.min(Duration::from_millis(50)));
        }
        if last_seen.elapsed() > quiet + PATIENCE {
            return Err(Lost::Cut("the queue does not come to an end".into()));
        }
    }
    let count = consumer.result.received;
    consumer.client.close().map_err(Lost::Cut)?;
    recorder.note(What::Drained(Arc::clone(&plan.queue)));
    recorder.note(What::Gone);
    Ok(count)
}

impl<'a> Consumer<'a> {
    fn attach(
        port: u16,
        plan: &'a ConsumerPlan,
        received: &'a AtomicU64,
        recorder: &'a mut Recorder,
    ) -> Result<Self, Lost> {
        let name = format!("consumer-{}", plan.id);
        let mut client = Client::open(port, &name)?;
        client.attach_receiver(0, &name, &plan.queue, plan.is_second)?;
        Ok(Self {
            plan,
            client,
            recorder,
            received,
            result: Consumed::default(),
            link_count: 0,
            credit_left: 0,
            partial: vec![],
            held: vec![],
            unconfirmed: BTreeMap::new(),
            is_drained: false,
        })
    }

    fn run(&mut self, stop: &AtomicBool) -> Result<(), Lost> {
        loop {
            if stop.load(Ordering::Relaxed) {
                return self.finish();
            }
            if self.credit_left <= self.plan.credit / 2 {
                self.grant(self.plan.credit, false);
            }
            self.client.flush()?;
            self.read(Duration::from_millis(50))?;
            self.settle_held()?;
        }
    }

    /// Takes the credit back, settles what comes meanwhile, waits for the confirmations.
    fn finish(&mut self) -> Result<(), Lost> {
        self.drain_once()?;
        let until = Instant::now() + PATIENCE;
        while !self.unconfirmed.is_empty() {
            self.read(Duration::from_millis(50))?;
            if Instant::now() > until {
                return Err(Lost::Cut("settlements are not confirmed".into()));
            }
        }
        Ok(())
    }

    fn grant(&mut self, credit: u32, is_drain: bool) {
        self.credit_left = credit;
        self.client.credit(0, self.link_count, credit, is_drain);
    }

    /// Takes what the queue has, at most one grant, until the broker says that this was all.
    fn drain_once(&mut self) -> Result<(), Lost> {
        self.is_drained = false;
        self.grant(self.plan.credit, true);
        self.client.flush()?;
        let until = Instant::now() + PATIENCE;
        while !self.is_drained && self.credit_left > 0 {
            self.read(Duration::from_millis(50))?;
            self.settle_held()?;
            if Instant::now() > until {
                return Err(Lost::Cut(format!(
                    "a drain is not answered: {} came, {} of the credit is left",
                    self.result.received, self.credit_left
                )));
            }
        }
        Ok(())
    }

    fn read(&mut self, wait: Duration) -> Result<(), Lost> {
        let mut wait = wait;
        while let Some(frame) = self.client.next_frame(wait)? {
            wait = Duration::ZERO;
            match frame.name() {
                "transfer" => self.on_transfer(&frame)?,
                "flow" if frame.number("handle").is_some() => {
                    let count = frame.number("delivery-count").unwrap_or(0) as u32;
                    if frame.number("link-credit") == Some(0) && frame.flag("drain") {
                        self.link_count = count;
                        self.credit_left = 0;
                        self.is_drained = true;
                    }
                }
                "disposition" if !frame.flag("role") && frame.flag("settled") => {
                    let first = frame.number("first").unwrap_or(0) as u32;
                    let last = frame.number("last").map_or(first, |l| l as u32);
                    for id in first..=last {
                        if let Some(delivery) = self.unconfirmed.remove(&id) {
                            self.recorder.note(What::Settled(delivery));
                        }
                    }
                }
                "detach" | "end" => return Err(Lost::Cut(format!("{frame:?}"))),
                _ => {}
            }
        }
        Ok(())
    }

    fn on_transfer(&mut self, frame: &crate::wire::Frame) -> Result<(), Lost> {
        self.partial.extend(&frame.payload);
        if frame.flag("more") {
            return Ok(());
        }
        let payload = std::mem::take(&mut self.partial);
        let id = frame.number("delivery-id").unwrap_or(0) as u32;
        let (count, body) =
            decode(&payload).ok_or_else(|| Lost::Cut("a message of another shape".into()))?;
        self.link_count = self.link_count.wrapping_add(1);
        self.credit_left = self.credit_left.saturating_sub(1);
        self.result.received += 1;
        self.received.fetch_add(1, Ordering::Relaxed);
        let delivery = u64::from(self.plan.id) << 32 | u64::from(id);
        // A body that names no message is told as message 0 of nobody: never sent.
        let m = MessageId::of_body(&body).unwrap_or(MessageId(u64::MAX));
        if !self.plan.is_recorded && m.body(body.len()) == body {
            self.result.numbers.push(m.0);
        }
        self.recorder.note(What::Received {
            queue: Arc::clone(&self.plan.queue),
            m,
            hash: hash_of(&body),
            delivery,
            count,
        });
        self.held.push((id, delivery));
        Ok(())
    }

    fn settle_held(&mut self) -> Result<(), Lost> {
        if self.held.is_empty() {
            return Ok(());
        }
        if !self.plan.pause.is_zero() {
            std::thread::sleep(self.plan.pause);
        }
        let now_ns = self.recorder.now_ns();
        let is_settled = !self.plan.is_second;
        let every = self.plan.release_every;
        let mut run: Option<(u32, u32)> = None;
        for (id, delivery) in std::mem::take(&mut self.held) {
            let is_released = every > 0 && u64::from(id) % every == every - 1;
            let outcome = if is_released { "released" } else { "accepted" };
            self.recorder
                .note_at(now_ns, What::Settle(delivery, outcome));
            if !is_settled {
                self.unconfirmed.insert(id, delivery);
            }
            if is_released {
                self.client.settle(id, id, is_settled, "released");
                continue;
            }
            run = match run {
                Some((first, last)) if last.wrapping_add(1) == id => Some((first, id)),
                Some((first, last)) => {
                    self.client.settle(first, last, is_settled, "accepted");
                    Some((id, id))
                }
                None => Some((id, id)),
            };
        }
        if let Some((first, last)) = run {
            self.client.settle(first, last, is_settled, "accepted");
        }
        self.client.flush()
    }
}
