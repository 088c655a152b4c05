//! A client of the binary protocol: publishes to queues that AMQP clients use as well, consumes from them, and checks
//! what it can: its prefetch is honoured, every answer was asked for, what it holds can be settled.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use qq_core::vocab::ConnId;
use qq_proto_binary::connection::{Config, Connection, Event, RequestId, Side};
use qq_proto_binary::message::{
    AckRequest, ConsumeRequest, Message, NackRequest, PublishRequest, UnsubscribeRequest,
};
use qq_proto_binary::request::Request;

use super::{Scene, act};
use crate::history::Outcome;
use crate::sim::letter::{Arrived, Letter, hash_of};
use crate::sim::plan::{Fault, Plan};
use crate::sim::random::Random;
use crate::sim::recorder::VOID;
use crate::sim::setup::{QWERQ_QUEUES, TEAM};

/// A publish without an answer.
#[derive(Debug)]
struct Published {
    process: String,
    queue: String,
    number: u64,
}

#[derive(Debug)]
struct Consumer {
    /// The process in the history.
    process: String,
    /// The queue as the history knows it: a group has its own.
    source: String,
    prefetch: u32,
    /// Numbers in the history by the connection's numbers.
    held: BTreeMap<u64, u64>,
}

/// A consumer: its queue and group.
type Whose = (String, String);

/// See the module.
pub(super) struct Qwerq {
    pub(super) conn: ConnId,
    machine: Connection,
    input: BytesMut,
    pub(super) is_open: bool,
    published: BTreeMap<RequestId, Published>,
    consumers: BTreeMap<Whose, Consumer>,
    /// Consumers that were asked for at any time.
    opening: BTreeMap<RequestId, Whose>,
    /// Consumers whose end is not answered: what still comes is theirs, and not that of a new one.
    leaving: BTreeMap<RequestId, Whose>,
    /// What is to be settled, whose it was, and whether that is to be confirmed.
    settling: BTreeMap<RequestId, (Whose, Vec<u64>)>,
    name: String,
    made: u64,
    /// The broker ended a consumer: what crossed that is about nothing.
    was_closed: bool,
}

impl Qwerq {
    pub(super) fn new(now: u64, conn: ConnId, number: usize) -> Self {
        let config = Config::default();
        Self {
            conn,
            machine: Connection::new(Side::Client, config, Duration::from_nanos(now)),
            input: BytesMut::new(),
            is_open: false,
            published: BTreeMap::new(),
            consumers: BTreeMap::new(),
            opening: BTreeMap::new(),
            leaving: BTreeMap::new(),
            settling: BTreeMap::new(),
            name: format!("q{number}.{}", conn.0),
            made: 0,
            was_closed: false,
        }
    }

    pub(super) fn handle_input(&mut self, scene: &mut Scene<'_>, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        let mut input = std::mem::take(&mut self.input);
        let now = Duration::from_nanos(scene.now);
        self.machine.handle_input(now, &mut input);
        self.input = input;
        self.drain_events(scene);
    }

    pub(super) fn handle_timeout(&mut self, scene: &mut Scene<'_>) {
        self.machine.handle_timeout(Duration::from_nanos(scene.now));
        self.drain_events(scene);
    }

    pub(super) fn poll_transmit(&mut self, now: u64, out: &mut VecDeque<Bytes>) {
        let now = Duration::from_nanos(now);
        while self.machine.poll_transmit(now, out, 64 * 1024) > 0 {}
    }

    pub(super) fn poll_timeout(&self) -> Option<u64> {
        let at = self.machine.poll_timeout()?;
        Some(at.as_nanos() as u64)
    }

    pub(super) fn is_done(&self) -> bool {
        self.machine.is_done()
    }

    pub(super) fn unanswered(&self) -> usize {
        self.published.len()
    }

    pub(super) fn unconfirmed(&self) -> usize {
        self.settling.len()
    }

    pub(super) fn processes(&self) -> Vec<String> {
        let consumers = self.consumers.values();
        consumers.map(|consumer| consumer.process.clone()).collect()
    }

    pub(super) fn close(&mut self, scene: &mut Scene<'_>) {
        self.machine.close();
        self.drain_events(scene);
    }

    /// The connection is over, in whatever way.
    pub(super) fn lose(&mut self, scene: &mut Scene<'_>) {
        self.machine.handle_eof(Duration::from_nanos(scene.now));
        self.drain_events(scene);
        for published in self.published.values() {
            let recorder = &mut scene.recorder;
            recorder.unknown(scene.now, &published.process, published.number);
        }
        for consumer in self.consumers.values() {
            scene.recorder.gone(scene.now, &consumer.process);
        }
    }

    fn drain_events(&mut self, scene: &mut Scene<'_>) {
        while let Some(event) = self.machine.poll_event() {
            self.on_event(scene, event);
        }
    }

    /// Whether an answer is about a message that was published; it is noted then, and `why` it was refused.
    fn is_of_publish(
        &mut self,
        scene: &mut Scene<'_>,
        request: RequestId,
        why: Option<&str>,
    ) -> bool {
        let Some(published) = self.published.remove(&request) else {
            return false;
        };
        let Published {
            process,
            queue,
            number,
        } = &published;
        scene.recorder.sent(scene.now, process, queue, *number, why);
        true
    }

    fn on_event(&mut self, scene: &mut Scene<'_>, event: Event) {
        match event {
            Event::Opened => self.is_open = true,
            Event::Delivered(message) => self.on_delivered(scene, &message),
            Event::Replied { request, .. } => {
                if self.is_of_publish(scene, request, None) {
                    return;
                }
                if let Some((_, settled)) = self.settling.remove(&request) {
                    for d in settled {
                        scene.recorder.settled(scene.now, d);
                    }
                } else {
                    self.leaving.remove(&request);
                }
            }
            Event::Refused { request, error } => {
                let request = request.unwrap_or(RequestId(u32::MAX));
                self.leaving.remove(&request);
                if self.is_of_publish(scene, request, Some(&error.message)) {
                    return;
                }
                if error.message.contains("are damaged on disk") {
                    // It takes no consumers until its operator sees to it. The reference knows whether that is true.
                    self.was_closed = true;
                    if let Some(whose) = self.opening.remove(&request) {
                        self.consumers.remove(&whose);
                    }
                } else if self.settling.remove(&request).is_some() && self.was_closed {
                    // It was about what the broker had taken back with the consumer.
                } else if !self.was_closed {
                    let text = format!("{}: {} ({})", self.name, error.message, error.code);
                    scene.broken.push(text);
                }
            }
            Event::ConsumerClosed(closed) => {
                self.was_closed = true;
                let whose = (closed.queue, closed.group);
                if let Some(consumer) = self.consumers.remove(&whose) {
                    scene.recorder.gone(scene.now, &consumer.process);
                }
            }
            // What is left concerns servers and streams; the end is told by `lose`.
            _ => {}
        }
    }

    fn on_delivered(&mut self, scene: &mut Scene<'_>, message: &Message) {
        *scene.operations += 1;
        let whose = (message.queue.clone(), message.group.clone());
        // One that crossed the end of its consumer goes back by itself.
        let Some(consumer) = self.consumers.get_mut(&whose) else {
            return;
        };
        let number = message
            .payload
            .get(..8)
            .and_then(|number| number.try_into().ok());
        let Some(number) = number.map(u64::from_be_bytes) else {
            let text = format!("{} received what is no message of ours", self.name);
            return scene.broken.push(text);
        };
        let arrived = Arrived {
            number,
            hash: hash_of(&message.payload),
            header: qq_proto_amqp::section::Header {
                delivery_count: message.attempt.saturating_sub(1),
                ..Default::default()
            },
            origin: None,
            offset: None,
        };
        let d = scene
            .recorder
            .receive(scene.now, &consumer.process, &consumer.source, &arrived);
        consumer.held.insert(message.delivery_id, d);
        if consumer.held.len() > consumer.prefetch as usize {
            let text = format!(
                "{} holds {} deliveries, and its prefetch is {}",
                consumer.process,
                consumer.held.len(),
                consumer.prefetch
            );
            scene.broken.push(text);
        }
    }

    /// Something of its own accord.
    pub(super) fn act(&mut self, scene: &mut Scene<'_>, plan: &Plan, random: &mut Random) {
        if !self.is_open {
            return;
        }
        match random.below(20) {
            0 | 1 => self.consume(scene, plan, random),
            2 => self.unsubscribe(scene, random),
            3..=10 => self.publish(scene, plan, random),
            _ => self.settle(scene, plan, random),
        }
    }

    fn pick_queue(plan: &Plan, random: &mut Random) -> (String, bool) {
        let is_ours = |name: &str| QWERQ_QUEUES.contains(&name);
        let queues: Vec<_> = plan
            .queues
            .iter()
            .filter(|spec| is_ours(&spec.name))
            .collect();
        let spec = queues[random.index(queues.len())];
        (spec.name.clone(), spec.durable)
    }

    fn publish(&mut self, scene: &mut Scene<'_>, plan: &Plan, random: &mut Random) {
        let (queue, is_queue_durable) = Self::pick_queue(plan, random);
        let process = format!("{}.{queue}", self.name);
        for _ in 0..random.within(1, 12) {
            let letter = act::new_letter(*scene.next_number, &queue, plan, random);
            let request = Request::Publish(Box::new(request_of(&queue, &letter)));
            // Fails only when the connection is on its way out.
            let Ok(id) = self.machine.request(&request, false) else {
                return;
            };
            *scene.next_number += 1;
            *scene.operations += 1;
            let (now, recorder) = (scene.now, &mut scene.recorder);
            if queue == TEAM {
                recorder.post(&process, &letter);
            } else {
                let is_kept = letter.is_durable && is_queue_durable;
                recorder.send(now, &process, &queue, &letter, is_kept, true);
            }
            let published = Published {
                process: process.clone(),
                queue: queue.clone(),
                number: letter.number,
            };
            self.published.insert(id, published);
        }
    }

    fn consume(&mut self, scene: &mut Scene<'_>, plan: &Plan, random: &mut Random) {
        let (queue, _) = Self::pick_queue(plan, random);
        let group = match queue == TEAM {
            true => format!("g{}", random.below(2)),
            false => String::new(),
        };
        let whose = (queue.clone(), group.clone());
        if self.consumers.contains_key(&whose) || self.leaving.values().any(|left| *left == whose) {
            return;
        }
        let prefetch = random.within(1, 15) as u32;
        let request = Request::Consume(ConsumeRequest {
            queue: queue.clone(),
            prefetch,
            group: (!group.is_empty()).then(|| group.clone()),
            ..ConsumeRequest::default()
        });
        // Fails only when the connection is on its way out.
        let Ok(id) = self.machine.request(&request, false) else {
            return;
        };
        *scene.operations += 1;
        self.made += 1;
        self.opening.insert(id, whose.clone());
        let consumer = Consumer {
            process: format!("{}.{}", self.name, self.made),
            source: match group.is_empty() {
                true => queue,
                false => format!("amq.group-{queue}.{group}"),
            },
            prefetch,
            held: BTreeMap::new(),
        };
        self.consumers.insert(whose, consumer);
    }

    fn pick_consumer(&self, random: &mut Random) -> Option<Whose> {
        let at = random.draw().checked_rem(self.consumers.len() as u64)?;
        self.consumers.keys().nth(at as usize).cloned()
    }

    fn unsubscribe(&mut self, scene: &mut Scene<'_>, random: &mut Random) {
        let Some(whose) = self.pick_consumer(random) else {
            return;
        };
        let request = Request::Unsubscribe(UnsubscribeRequest {
            queue: whose.0.clone(),
            group: (!whose.1.is_empty()).then(|| whose.1.clone()),
        });
        // Fails only when the connection is on its way out.
        if let Ok(id) = self.machine.request(&request, true)
            && let Some(consumer) = self.consumers.remove(&whose)
        {
            self.leaving.insert(id, whose);
            *scene.operations += 1;
            // What it holds goes back, and that is no attempt.
            for d in consumer.held.values() {
                scene.recorder.settle(scene.now, *d, Outcome::Released);
            }
            scene.recorder.gone(scene.now, &consumer.process);
        }
    }

    fn settle(&mut self, scene: &mut Scene<'_>, plan: &Plan, random: &mut Random) {
        let Some(whose) = self.pick_consumer(random) else {
            return;
        };
        let Some(consumer) = self.consumers.get_mut(&whose) else {
            return;
        };
        let ids: Vec<u64> = consumer.held.keys().copied().collect();
        if ids.is_empty() {
            return;
        }
        let from = random.index(ids.len());
        let first = ids[from];
        // Its consumer has all the numbers of the range, or it is one alone.
        let mut last = first;
        for id in &ids[from + 1..] {
            if *id != last + 1 || random.is_lucky(300) {
                break;
            }
            last = *id;
        }
        let choices: &[(u64, Outcome)] = match plan.has(Fault::Outcomes) {
            true => &[
                (6, Outcome::Accepted),
                (2, Outcome::Failed),
                (1, Outcome::Rejected),
            ],
            false => &[(1, Outcome::Accepted)],
        };
        let outcome = random.weighted(choices).unwrap_or(Outcome::Accepted);
        let request = match outcome {
            Outcome::Accepted => Request::Ack(AckRequest {
                delivery_id: first,
                delivery_id_last: last,
                ..AckRequest::default()
            }),
            _ => Request::Nack(NackRequest {
                requeue: outcome == Outcome::Failed,
                delivery_id: first,
                delivery_id_last: last,
                ..NackRequest::default()
            }),
        };
        let is_confirmed = random.is_lucky(400);
        // Fails only when the connection is on its way out.
        let Ok(id) = self.machine.request(&request, is_confirmed) else {
            return;
        };
        let mut settled = Vec::new();
        for delivery in first..=last {
            *scene.operations += 1;
            let d = consumer.held.remove(&delivery).unwrap_or(VOID);
            scene.recorder.settle(scene.now, d, outcome);
            settled.push(d);
        }
        if is_confirmed {
            self.settling.insert(id, (whose, settled));
        }
    }
}

fn request_of(queue: &str, letter: &Letter) -> PublishRequest {
    PublishRequest {
        queue: queue.to_owned(),
        payload: letter.body(),
        idempotency_key: letter.dedup_id.clone(),
        ordering_key: letter.group_id.clone().unwrap_or_default(),
        // No time at all is what 0 means in AMQP alone.
        ttl_ms: letter.ttl_ms.map_or(0, |ttl_ms| u64::from(ttl_ms).max(1)),
        delay_ms: letter.delay_ms.unwrap_or(0),
        priority: letter.priority.map(u32::from),
        transient: !letter.is_durable,
        ..PublishRequest::default()
    }
}
