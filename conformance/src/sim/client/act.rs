//! What a client does of its own accord.

use bytes::Bytes;
use qq_core::route::Datum;
use qq_proto_amqp::connection::OutgoingDelivery;
use qq_proto_amqp::performative::{AmqpError, DeliveryState, Modified};
use qq_proto_amqp::types::{DeliveryTag, Symbol, Value};

use super::attach::pick_key;
use super::txn::{number_of, within};
use super::{Client, Kind, Link, Live, Mode, Scene};
use crate::history::Outcome;
use crate::sim::letter::{Letter, Properties};
use crate::sim::plan::{Fault, Plan};
use crate::sim::random::Random;
use crate::sim::setup::{KEYED, LEASED, TEAM};

/// Queues that take messages with a time to live: no limit of theirs depends on what is still there.
const TTL_QUEUES: &[&str] = &["plain", "volatile", "brief", "work", "poor"];

/// Keys by which queues know messages.
const DEDUP_IDS: u64 = 12;

/// Credit that a receiver gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum Credit {
    Some(u32),
    Drain(u32),
}

impl Client {
    /// The open links of one direction, as places in the list.
    fn places(&self, is_sender: bool) -> Vec<usize> {
        let links = self
            .live
            .iter()
            .flat_map(|live| live.links.iter().enumerate());
        links
            .filter(|(_, link)| link.is_up && matches!(link.kind, Kind::Sender(_)) == is_sender)
            .map(|(at, _)| at)
            .collect()
    }

    /// Sends some messages on one of its links, as far as credit goes.
    pub(in crate::sim) fn publish(
        &mut self,
        scene: &mut Scene<'_>,
        plan: &Plan,
        random: &mut Random,
    ) {
        let places = self.places(true);
        let Some(live) = self.live.as_mut().filter(|_| !places.is_empty()) else {
            return;
        };
        let txn = pick_txn(live, plan, random);
        let link = &mut live.links[places[random.index(places.len())]];
        let Kind::Sender(sender) = &mut link.kind else {
            return;
        };
        // Bodies leave memory only behind a long backlog.
        let burst = random.within(1, if plan.has(Fault::Paging) { 60 } else { 12 });
        for _ in 0..burst.min(u64::from(live.machine.credit(link.id))) {
            let letter = new_letter(*scene.next_number, &link.queue, plan, random);
            *scene.next_number += 1;
            *scene.operations += 1;
            let (token, payload) = (sender.next_token, letter.encode());
            let is_settled =
                sender.is_settled || (plan.has(Fault::Presettled) && random.is_lucky(100));
            let out = OutgoingDelivery {
                tag: DeliveryTag::new(&token.to_be_bytes()).unwrap_or_default(),
                token,
                settled: is_settled,
                message_format: 0,
                head: &[],
                payload: &payload,
                batchable: false,
            };
            let is_kept = letter.is_durable && link.is_queue_durable;
            let (now, process) = (scene.now, &link.process);
            if sender.is_poster || link.queue == TEAM {
                scene.recorder.post(process, &letter);
            } else {
                scene
                    .recorder
                    .send(now, process, &link.queue, &letter, is_kept, txn.is_none());
            }
            sender.next_token += 1;
            let sent = match &txn {
                None => live.machine.send(link.id, out),
                Some(id) => live.machine.send_within(link.id, out, id),
            };
            if sent.is_err() {
                let text = format!("{process}: credit without the right to send");
                return scene.broken.push(text);
            }
            if is_settled {
                scene.recorder.unknown(now, process, letter.number);
            } else {
                sender
                    .unanswered
                    .insert(token, (letter.number, txn.clone()));
            }
        }
    }

    /// Ends some deliveries of one of its links, in order or at random.
    pub(in crate::sim) fn settle(
        &mut self,
        scene: &mut Scene<'_>,
        plan: &Plan,
        random: &mut Random,
    ) {
        let mut places = self.places(false);
        let Some(live) = self.live.as_mut() else {
            return;
        };
        let txn = pick_txn(live, plan, random);
        places.retain(|at| match &live.links[*at].kind {
            Kind::Receiver(receiver) => !receiver.held.is_empty(),
            Kind::Sender(_) => false,
        });
        if places.is_empty() {
            return;
        }
        let link = &mut live.links[places[random.index(places.len())]];
        let Kind::Receiver(receiver) = &mut link.kind else {
            return;
        };
        let count = random.within(1, receiver.held.len() as u64) as usize;
        let from = random.index(receiver.held.len() - count + 1);
        let (state, outcome) = pick_outcome(plan, random);
        // A range, or some of it.
        let per_mille = if random.is_lucky(300) { 500 } else { 1_000 };
        let chosen = receiver.held.drain(from..from + count);
        let (ended, kept): (Vec<_>, Vec<_>) = chosen.partition(|_| random.is_lucky(per_mille));
        receiver.held.splice(from..from, kept);
        if let Some(id) = txn.filter(|_| receiver.mode != Mode::Browse) {
            let is_forgotten = random.is_lucky(500);
            let (link, conn) = (link.id, live.conn);
            for unsettled in ended {
                *scene.operations += 1;
                let key = (conn, number_of(&id));
                scene
                    .recorder
                    .retire(key, unsettled.d, outcome, is_forgotten);
                let state = within(&id, state.clone());
                // Fails only when the connection is on its way out.
                let _ = live.machine.settle(unsettled.id, state, is_forgotten);
                if !is_forgotten {
                    live.note_retired(&id, link, unsettled);
                }
            }
            return;
        }
        for unsettled in ended {
            *scene.operations += 1;
            let is_two_step = receiver.mode == Mode::Second;
            scene.recorder.settle(scene.now, unsettled.d, outcome);
            // Fails only when the connection is on its way out.
            let _ = live
                .machine
                .settle(unsettled.id, state.clone(), !is_two_step);
            if is_two_step {
                receiver.stated.push(unsettled);
            }
        }
    }

    /// Says that it is still at work on some of what it holds.
    pub(in crate::sim) fn extend(&mut self, scene: &mut Scene<'_>, random: &mut Random) {
        let places = self.places(false);
        let Some(live) = self.live.as_mut() else {
            return;
        };
        for at in places {
            let link = &mut live.links[at];
            let Kind::Receiver(receiver) = &mut link.kind else {
                continue;
            };
            if link.queue != LEASED {
                continue;
            }
            for unsettled in &receiver.held {
                if random.is_lucky(400) {
                    *scene.operations += 1;
                    let state = DeliveryState::Received {
                        section_number: 0,
                        section_offset: 0,
                    };
                    // Fails only when the connection is on its way out.
                    let _ = live.machine.settle(unsettled.id, state, false);
                }
            }
        }
    }

    /// Accepts whatever it holds, and keeps credit up.
    pub(in crate::sim) fn accept_all(&mut self, scene: &mut Scene<'_>) {
        let Some(live) = self.live.as_mut() else {
            return;
        };
        for link in &mut live.links {
            let Kind::Receiver(receiver) = &mut link.kind else {
                continue;
            };
            for unsettled in receiver.held.drain(..) {
                scene
                    .recorder
                    .settle(scene.now, unsettled.d, Outcome::Accepted);
                // Fails only when the connection is on its way out.
                let _ = live
                    .machine
                    .settle(unsettled.id, DeliveryState::Accepted, true);
            }
            if link.is_up && receiver.limit < receiver.received + 20 {
                receiver.limit = receiver.received + 50;
                let _ = live.machine.grant(link.id, 50);
            }
        }
    }

    /// Gives one of its links credit.
    pub(in crate::sim) fn credit(
        &mut self,
        scene: &mut Scene<'_>,
        plan: &Plan,
        random: &mut Random,
    ) {
        let places = self.places(false);
        let Some(live) = self.live.as_mut().filter(|_| !places.is_empty()) else {
            return;
        };
        let some = random.within(1, 15) as u32;
        let credit = if plan.has(Fault::Credit) {
            let choices = [
                (4, Credit::Some(some)),
                (1, Credit::Some(0)),
                (1, Credit::Some(u32::MAX)),
                (2, Credit::Drain(some)),
                (1, Credit::Drain(0)),
            ];
            random.weighted(&choices).unwrap_or(Credit::Some(some))
        } else {
            Credit::Some(some)
        };
        let link = &mut live.links[places[random.index(places.len())]];
        *scene.operations += 1;
        // A drain lets the broker deliver in the middle of its inbox. Whether a queue with a limit had room then cannot
        // be told from outside.
        let may_drain = !["short", "ring", "ranked.ring"].contains(&link.queue.as_str());
        let (amount, is_drain) = match credit {
            Credit::Some(amount) => (amount, false),
            Credit::Drain(amount) => (amount, may_drain),
        };
        let (id, Kind::Receiver(receiver)) = (link.id, &mut link.kind) else {
            return;
        };
        // What was allowed before may be under way. A delivery of several frames counts from its first one on, which
        // is not seen here.
        let begun = receiver.received + u64::from(plan.has(Fault::Tiny));
        receiver.limit = receiver.limit.max(begun.saturating_add(u64::from(amount)));
        receiver.is_murky |= receiver.is_draining;
        receiver.is_draining = is_drain;
        // Fails only when the connection is on its way out.
        let _ = if is_drain {
            live.machine.grant_drain(id, amount)
        } else {
            live.machine.grant(id, amount)
        };
    }

    /// Detaches one of its links, in either way.
    pub(in crate::sim) fn detach(&mut self, scene: &mut Scene<'_>, random: &mut Random) {
        let Some(live) = self.live.as_mut().filter(|live| !live.links.is_empty()) else {
            return;
        };
        *scene.operations += 1;
        let at = random.index(live.links.len());
        let link: &Link = &live.links[at];
        if link.is_up {
            // Fails only when the connection is on its way out.
            let _ = live.machine.detach(link.id, random.is_lucky(500), None);
        }
        self.drain_events(scene);
    }

    /// Ends one of its sessions, or begins another.
    pub(in crate::sim) fn end_session(&mut self, scene: &mut Scene<'_>, random: &mut Random) {
        let Some(live) = self.live.as_mut().filter(|live| live.is_open) else {
            return;
        };
        *scene.operations += 1;
        // Both fail only when the connection is on its way out.
        if live.sessions.is_empty() || (live.sessions.len() < 3 && random.is_lucky(500)) {
            let _ = live.machine.begin();
        } else {
            let session = live.sessions[random.index(live.sessions.len())];
            live.sessions.retain(|known| *known != session);
            let _ = live.machine.end(session, None);
        }
        self.drain_events(scene);
    }

    /// Closes the connection in order.
    pub(in crate::sim) fn close(&mut self, scene: &mut Scene<'_>) {
        if let Some(qwerq) = &mut self.qwerq {
            *scene.operations += 1;
            return qwerq.close(scene);
        }
        if let Some(live) = self.live.as_mut() {
            *scene.operations += 1;
            live.machine.close(None);
        }
        self.drain_events(scene);
    }
}

/// A transaction for what a client is about to do.
fn pick_txn(live: &Live, plan: &Plan, random: &mut Random) -> Option<Bytes> {
    let may_have = plan.has(Fault::Transactions) && random.is_lucky(500);
    let control = live.control.as_ref().filter(|_| may_have)?;
    control.pick(random)
}

/// A letter for a queue or exchange.
pub(super) fn new_letter(number: u64, queue: &str, plan: &Plan, random: &mut Random) -> Letter {
    let letter = Letter {
        number,
        is_durable: random.is_lucky(600),
        ttl_ms: pick_ttl(plan, queue, random),
        size: pick_size(plan, random),
        priority: None,
        delay_ms: pick_delay(plan, queue, random),
        dedup_id: pick_dedup_id(plan, random),
        group_id: pick_group_id(queue, random),
        subject: None,
        properties: Properties::new(),
    };
    address_letter(letter, plan, random)
}

/// Gives a letter what queues, exchanges and filters look at.
fn address_letter(mut letter: Letter, plan: &Plan, random: &mut Random) -> Letter {
    if plan.has(Fault::Priorities) && random.is_lucky(800) {
        letter.priority = Some(random.below(12) as u8);
    }
    let kinds = [Fault::Exchanges, Fault::Filters, Fault::Subscriptions];
    if !kinds.into_iter().any(|kind| plan.has(kind)) {
        return letter;
    }
    letter.subject = random.is_lucky(800).then(|| pick_key(random));
    if random.is_lucky(700) {
        let color = Datum::Text(["red", "blue"][random.index(2)].to_owned());
        letter.properties.insert("color".to_owned(), color);
    }
    for name in ["size", "x-number"] {
        if random.is_lucky(500) {
            let number = Datum::Int(random.below(4) as i64);
            letter.properties.insert(name.to_owned(), number);
        }
    }
    letter
}

fn pick_size(plan: &Plan, random: &mut Random) -> usize {
    let choices: &[(u64, (u64, u64))] = if plan.has(Fault::Tiny) {
        &[(6, (8, 200)), (2, (300, 2_000))]
    } else {
        &[(8, (8, 300)), (1, (3_000, 20_000))]
    };
    let (low, high) = random.weighted(choices).unwrap_or((8, 200));
    random.within(low, high) as usize
}

fn pick_ttl(plan: &Plan, queue: &str, random: &mut Random) -> Option<u32> {
    let may_have = plan.has(Fault::Expiry) && TTL_QUEUES.contains(&queue);
    (may_have && random.is_lucky(300)).then(|| random.below(3_000) as u32)
}

fn pick_delay(plan: &Plan, queue: &str, random: &mut Random) -> Option<u64> {
    let may_have = plan.has(Fault::Delays) && TTL_QUEUES.contains(&queue);
    (may_have && random.is_lucky(250)).then(|| random.below(1_500))
}

fn pick_dedup_id(plan: &Plan, random: &mut Random) -> Option<String> {
    let may_have = plan.has(Fault::Duplicates) && random.is_lucky(400);
    may_have.then(|| format!("d{}", random.below(DEDUP_IDS)))
}

fn pick_group_id(queue: &str, random: &mut Random) -> Option<String> {
    (queue == KEYED && random.is_lucky(800)).then(|| format!("k{}", random.below(4)))
}

fn pick_outcome(plan: &Plan, random: &mut Random) -> (DeliveryState, Outcome) {
    let choices: &[(u64, u8)] = if plan.has(Fault::Outcomes) {
        &[(8, 0), (2, 1), (2, 2), (2, 3), (1, 4), (1, 5), (1, 6)]
    } else {
        &[(1, 0)]
    };
    let modified = |failed, here, annotations| {
        DeliveryState::Modified(Box::new(Modified {
            delivery_failed: failed,
            undeliverable_here: here,
            message_annotations: annotations,
        }))
    };
    match random.weighted(choices).unwrap_or(0) {
        0 => (DeliveryState::Accepted, Outcome::Accepted),
        1 => (DeliveryState::Released, Outcome::Released),
        2 => (modified(true, false, None), Outcome::Failed),
        3 => {
            let error = AmqpError {
                condition: Symbol::from_static("sim:poison"),
                description: None,
                info: None,
            };
            let state = DeliveryState::Rejected(Some(Box::new(error)));
            (state, Outcome::Rejected)
        }
        4 => (modified(false, true, None), Outcome::Released),
        5 => (modified(true, true, None), Outcome::Failed),
        _ => {
            let key = Value::Symbol(Symbol::from_static("x-opt-tries"));
            let annotations = vec![(key, Value::Ulong(random.below(100)))];
            (modified(true, false, Some(annotations)), Outcome::Failed)
        }
    }
}
