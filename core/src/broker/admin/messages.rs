//! Single messages: publish, look, move.

use std::sync::Arc;

use super::super::publish::Taken;
use super::super::routing::Route;
use super::super::{Broker, Now, quoted};
use super::jobs::Work;
use super::{Asker, Done};
use crate::admin::{PEEK_MAX, PublishTo, Reply};
use crate::filter::MessageView;
use crate::queue::Clock;
use crate::route::Routed;
use crate::vocab::{Message, Reason, Refusal, RuleId, Verdict};

impl Broker {
    pub(super) fn manage_publish(
        &mut self,
        now: Now,
        to: PublishTo,
        message: Arc<Message>,
    ) -> Result<Done, Refusal> {
        let at = now.clock();
        let queue = |name: &str| self.queue_names.get(name).copied();
        let (found, name, key) = match to {
            PublishTo::Queue(name) => (queue(&name), name, None),
            PublishTo::Exchange { name, key } => (None, name, Some(key)),
            PublishTo::Name { name, key } => (queue(&name), name, Some(key)),
        };
        let taken = match (found, key) {
            (Some(slot), _) => {
                if self.queues[slot].owner.is_some() {
                    let text = format!(
                        "the queue {} belongs to one connection alone",
                        quoted(&name)
                    );
                    let reason = Reason::Locked;
                    return Err(Refusal { reason, text });
                }
                self.vet(Route::One(slot), RuleId::NONE, &message)
                    .and_then(|()| self.put(now, at, Route::One(slot), message))
            }
            (None, Some(key)) => self.publish_by_exchange(now, at, &name, &key, message)?,
            (None, None) => return Err(super::missing("queue", &name)),
        };
        match taken {
            Ok(Taken::Durable) => Ok(Done::Changed(Reply::Published { is_routed: true })),
            // A duplicate is safe when all that came before it is.
            Ok(Taken::Duplicate) => Ok(Done::Changed(Reply::Published { is_routed: true })),
            Ok(Taken::Volatile) => Ok(Done::Read(Reply::Published { is_routed: true })),
            Err(Verdict::Full(queue)) => Err(Refusal {
                reason: Reason::LimitExceeded,
                text: format!(
                    "the queue {} is full; {} took nothing",
                    quoted(&queue),
                    quoted(&name)
                ),
            }),
            Err(Verdict::Unfit(unfit)) => Err(Refusal {
                reason: Reason::Undecodable,
                text: unfit.to_string(),
            }),
            Err(Verdict::Rejected(reason)) => Err(Refusal {
                reason,
                text: format!(
                    "the {} is full; {} took nothing",
                    match reason {
                        Reason::DiskFull => "disk of the broker",
                        _ => "broker",
                    },
                    quoted(&name)
                ),
            }),
            Err(Verdict::Accepted | Verdict::Duplicate | Verdict::Unroutable) => {
                self.tally.unroutable += 1;
                Ok(Done::Read(Reply::Published { is_routed: false }))
            }
        }
    }

    fn publish_by_exchange(
        &mut self,
        now: Now,
        at: Clock,
        name: &str,
        key: &str,
        message: Arc<Message>,
    ) -> Result<Result<Taken, Verdict>, Refusal> {
        let Some(id) = self.exchanges.find(name) else {
            return Err(super::missing("queue or exchange", name));
        };
        let mut queues = std::mem::take(&mut self.route);
        let headers = MessageView::new(&message, now.wall_ms);
        let routed = self
            .exchanges
            .route(id, key.as_bytes(), &headers, &mut queues);
        self.route = queues;
        Ok(match routed {
            Routed::Queues => self
                .vet(Route::Many, RuleId::NONE, &message)
                .and_then(|()| self.put(now, at, Route::Many, message)),
            Routed::Unroutable | Routed::Gone => Err(Verdict::Unroutable),
        })
    }

    pub(super) fn manage_peek(
        &mut self,
        now: Now,
        asker: Asker,
        queue: &str,
        from: u64,
        limit: usize,
        with_held: bool,
    ) -> Result<Done, Refusal> {
        let slot = self.slot_to_change(asker, queue)?;
        let limit = limit.min(PEEK_MAX) as u64;
        let work = Work::Peek {
            with_held,
            found: Vec::new(),
        };
        self.start_job(now, asker, slot, from, limit, work)
    }

    pub(super) fn manage_message(
        &mut self,
        now: Now,
        asker: Asker,
        queue: &str,
        position: u64,
    ) -> Result<Done, Refusal> {
        let slot = self.slot_to_change(asker, queue)?;
        let entry = self.queues[slot].backlog.copy(position);
        let Some(entry) = entry else {
            let next = self.queues[slot].backlog.next_seq();
            let why = if position < next {
                "it has left the queue"
            } else {
                "there has not been any yet"
            };
            return Err(Refusal {
                reason: Reason::NotFound,
                text: format!(
                    "the queue {} has no message at position {position}: {why}",
                    quoted(queue)
                ),
            });
        };
        let why = self.why_message_waits(now.clock(), slot, position, &entry);
        self.start_job(now, asker, slot, position, 1, Work::Show { why })
    }

    pub(super) fn manage_move(
        &mut self,
        now: Now,
        asker: Asker,
        queue: &str,
        to: Option<&str>,
        only_from: Option<String>,
        limit: u64,
    ) -> Result<Done, Refusal> {
        let slot = self.slot_to_change(asker, queue)?;
        let to = match to {
            Some(to) => {
                let to_slot = self.slot_to_change(asker, to)?;
                if to_slot == slot {
                    let text = format!("{} is where the messages are", quoted(to));
                    let reason = Reason::Invalid;
                    return Err(Refusal { reason, text });
                }
                Some((to_slot, self.queues[to_slot].id))
            }
            None => None,
        };
        let work = Work::Move { to, only_from };
        self.start_job(now, asker, slot, 0, limit, work)
    }
}
