//! Producers and consumers in threads of their own, started and stopped together.

use super::Outcome;
use super::consumer::{Consumed, ConsumerPlan, consume, drain};
use super::producer::{Produced, ProducerPlan, produce};
use super::record::{Event, Recorder};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Clients at work.
#[derive(Debug)]
pub struct Load {
    epoch: Instant,
    stop_producers: Arc<AtomicBool>,
    stop_consumers: Arc<AtomicBool>,
    accepted: Arc<AtomicU64>,
    received: Arc<AtomicU64>,
    producers: Vec<JoinHandle<(Produced, Vec<Event>)>>,
    consumers: Vec<JoinHandle<(Consumed, Vec<Event>)>>,
}

/// What clients did and saw.
#[derive(Debug, Default)]
pub struct Seen {
    /// One per producer.
    pub produced: Vec<Produced>,
    /// One per consumer.
    pub consumed: Vec<Consumed>,
    /// Events of all, one list per client.
    pub events: Vec<Vec<Event>>,
}

impl Seen {
    /// Accepted messages.
    pub fn accepted(&self) -> u64 {
        self.produced.iter().map(|p| p.accepted).sum()
    }

    /// Refused messages.
    pub fn refused(&self) -> u64 {
        self.produced.iter().map(|p| p.refused).sum()
    }

    /// Messages without an answer.
    pub fn unanswered(&self) -> u64 {
        self.produced.iter().map(|p| p.unanswered).sum()
    }

    /// Deliveries.
    pub fn received(&self) -> u64 {
        self.consumed.iter().map(|c| c.received).sum()
    }

    /// The longest time to an answer.
    pub fn slowest(&self) -> Duration {
        let all = self.produced.iter().map(|p| p.slowest);
        all.max().unwrap_or_default()
    }
}

impl Load {
    /// Starts the clients.
    pub fn start(
        port: u16,
        epoch: Instant,
        producers: &[ProducerPlan],
        consumers: &[ConsumerPlan],
    ) -> Self {
        let mut load = Self {
            epoch,
            stop_producers: Arc::default(),
            stop_consumers: Arc::default(),
            accepted: Arc::default(),
            received: Arc::default(),
            producers: vec![],
            consumers: vec![],
        };
        for plan in producers {
            load.add_producer(port, plan.clone());
        }
        for plan in consumers {
            load.add_consumer(port, plan.clone());
        }
        load
    }

    /// One producer more.
    pub fn add_producer(&mut self, port: u16, plan: ProducerPlan) {
        let stop = Arc::clone(&self.stop_producers);
        let accepted = Arc::clone(&self.accepted);
        let who = format!("p{}.{}", plan.id, plan.first_n);
        let mut recorder = Recorder::new(self.epoch, &who);
        self.producers.push(std::thread::spawn(move || {
            let result = produce(port, &plan, &stop, &accepted, &mut recorder);
            (result, recorder.events)
        }));
    }

    /// One consumer more.
    pub fn add_consumer(&mut self, port: u16, plan: ConsumerPlan) {
        let stop = Arc::clone(&self.stop_consumers);
        let received = Arc::clone(&self.received);
        let mut recorder = Recorder::new(self.epoch, &format!("c{}", plan.id));
        self.consumers.push(std::thread::spawn(move || {
            let result = consume(port, &plan, &stop, &received, &mut recorder);
            (result, recorder.events)
        }));
    }

    /// Messages accepted so far.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Deliveries so far.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Waits until so many messages are accepted.
    pub fn wait_accepted(&self, count: u64, patience: Duration) -> Outcome<()> {
        let until = Instant::now() + patience;
        while self.accepted() < count {
            if Instant::now() > until {
                return Err(format!("{} of {count} messages accepted", self.accepted()));
            }
            if self.producers.iter().all(JoinHandle::is_finished) {
                let so_far = self.accepted();
                return Err(format!("all producers ended, {so_far} messages accepted"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Whether every producer has ended.
    pub fn is_produced(&self) -> bool {
        self.producers.iter().all(JoinHandle::is_finished)
    }

    /// Lets producers get their answers, then consumers settle what they have, and ends all.
    pub fn stop(self) -> Seen {
        self.stop_producers.store(true, Ordering::Relaxed);
        self.join()
    }

    /// Waits for clients that come to an end by themselves: counted, or cut off. Consumers are
    /// stopped once all producers have ended.
    pub fn join(self) -> Seen {
        let mut seen = Seen::default();
        for thread in self.producers {
            let (result, events) = thread.join().expect("a producer does not panic");
            seen.produced.push(result);
            seen.events.push(events);
        }
        self.stop_consumers.store(true, Ordering::Relaxed);
        for thread in self.consumers {
            let (result, events) = thread.join().expect("a consumer does not panic");
            seen.consumed.push(result);
            seen.events.push(events);
        }
        seen
    }
}

/// Empties queues; adds what was seen to `events` and returns the number of messages.
pub fn drain_all(
    port: u16,
    epoch: Instant,
    first_id: u32,
    queues: &[&str],
    events: &mut Vec<Vec<Event>>,
) -> Outcome<u64> {
    let mut count = 0;
    for (id, queue) in (first_id..).zip(queues) {
        let plan = ConsumerPlan {
            credit: 1_000,
            ..ConsumerPlan::new(id, queue)
        };
        let mut recorder = Recorder::new(epoch, &format!("c{id}"));
        count += drain(port, &plan, Duration::from_millis(300), &mut recorder)?;
        events.push(recorder.events);
    }
    Ok(count)
}
