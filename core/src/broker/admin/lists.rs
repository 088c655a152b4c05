//! Lists in pages, and the node in numbers.

use std::sync::Arc;

use super::super::{Broker, Queue};
use crate::admin::{Alarm, BindingFilter, ExchangeRow, NodeStats, Page, QueueDetail, QueueRow};
use crate::broker::quoted;
use crate::route::BindingSpec;

/// Slots that one page looks at.
const LOOKS_MAX: usize = 500;

impl Queue {
    pub(super) fn row(&self) -> QueueRow {
        let waiting = self.backlog.waiting();
        QueueRow {
            spec: Arc::clone(&self.spec),
            depth: waiting as u64,
            in_flight: (self.backlog.len() - waiting) as u64,
            bytes: self.backlog.waiting_bytes() as u64,
            paged: self.backlog.away() as u64,
            consumers: self.consumers.len() as u64,
            producers: self.producers.len() as u64,
            is_damaged: self.is_damaged,
            is_temporary: self.lifetime.is_some()
                || self.spec.exclusive
                || self.spec.auto_delete
                || self.spec.name.starts_with('_'),
            oldest_at_ms: self
                .backlog
                .live_from(0)
                .and_then(|seq| self.ages.since(seq)),
            latency: self.latency.histogram(),
            totals: self.totals,
        }
    }
}

impl Broker {
    pub(super) fn queue_page(&self, from: u64) -> Page<QueueRow> {
        page(from, self.queues.capacity(), |slot| {
            self.queues.get(slot).map(Queue::row)
        })
    }

    pub(super) fn queue_detail(&self, slot: usize) -> QueueDetail {
        let queue = &self.queues[slot];
        let own = format!("{}.dlq", queue.spec.name);
        QueueDetail {
            row: queue.row(),
            dead_letter_queue: self.queue_names.contains_key(own.as_str()).then_some(own),
            first_position: queue
                .backlog
                .live_from(0)
                .unwrap_or(queue.backlog.next_seq()),
            next_position: queue.backlog.next_seq(),
            has_schema: queue
                .rule
                .as_ref()
                .is_some_and(|rule| rule.request.is_some()),
        }
    }

    pub(super) fn exchange_page(&self, from: u64) -> Page<ExchangeRow> {
        page(from, self.exchanges.slots_end(), |slot| {
            self.exchanges.row_at(slot)
        })
    }

    pub(super) fn exchange_row(&self, name: &str) -> Option<ExchangeRow> {
        self.exchanges.row_at(self.exchanges.slot_of(name)?)
    }

    pub(super) fn binding_page(&self, from: u64, filter: &BindingFilter) -> Page<Arc<BindingSpec>> {
        if filter.exchange.is_none()
            && let Some(queue) = &filter.queue
        {
            let Some(slot) = self.queue_names.get(queue.as_str()) else {
                return Page {
                    items: Vec::new(),
                    next: None,
                };
            };
            let ids = self.exchanges.bindings_after(self.queues[*slot].id, from);
            return self.bindings_page_of(ids, filter);
        }
        if let Some(exchange) = &filter.exchange {
            let ids = self.exchanges.bindings_out_of(exchange, from);
            return self.bindings_page_of(ids, filter);
        }
        page(from, self.exchanges.bindings_end(), |slot| {
            let spec = self.exchanges.binding_at(slot)?;
            filter.is_wanted(spec).then(|| Arc::clone(spec))
        })
    }

    /// A page of the bindings with these numbers, which are in order.
    fn bindings_page_of(
        &self,
        ids: impl Iterator<Item = u32>,
        filter: &BindingFilter,
    ) -> Page<Arc<BindingSpec>> {
        let mut items = Vec::new();
        for (looks, id) in ids.enumerate() {
            if looks == LOOKS_MAX {
                let next = Some(u64::from(id));
                return Page { items, next };
            }
            let found = self.exchanges.binding_at(id as usize);
            items.extend(found.filter(|spec| filter.is_wanted(spec)).cloned());
        }
        Page { items, next: None }
    }

    fn permits(&self) -> u64 {
        let open = self.consumers.iter();
        open.map(|(_, consumer)| consumer.limit.saturating_sub(consumer.sent))
            .fold(0, u64::saturating_add)
    }

    pub(crate) fn node_stats(&self) -> NodeStats {
        let mut totals = self.tally.gone;
        let (mut messages, mut paged, mut fetches) = (0, 0, 0);
        let mut alarms = Vec::new();
        for (_, queue) in &self.queues {
            totals.add(&queue.totals);
            messages += queue.backlog.len() as u64;
            paged += queue.backlog.away() as u64;
            fetches += (queue.backlog.asked() + queue.reads.len()) as u64;
            if queue.is_damaged && alarms.len() < LOOKS_MAX {
                let name = quoted(&queue.spec.name);
                alarms.push(Alarm {
                    name: "damaged",
                    text: format!("messages of the queue {name} could not be read"),
                });
            }
        }
        if self.is_memory_short {
            let text = format!("{} bytes are queued in memory", self.bytes);
            alarms.push(Alarm {
                name: "memory",
                text,
            });
        }
        if self.is_disk_short {
            let text = "the disk gets full; durable messages are refused".to_owned();
            alarms.push(Alarm { name: "disk", text });
        }
        NodeStats {
            queues: self.queues.len() as u64,
            exchanges: self.exchanges.len() as u64,
            bindings: self.exchanges.bindings_len() as u64,
            connections: self.conns.len() as u64,
            producers: self.producers.len() as u64,
            consumers: self.consumers.len() as u64,
            messages,
            in_flight: self.unsettled as u64,
            paged,
            fetches,
            queued_bytes: self.bytes as u64,
            memory_max_bytes: self.config.limits.memory_max_bytes as u64,
            alarms,
            is_draining: self.is_draining,
            totals,
            rejected: self.tally.rejected,
            unroutable: self.tally.unroutable,
            batches: self.gate.batches(),
            batched_ops: self.gate.sealed_ops(),
            sessions: self.conns.sessions(),
            permits: self.permits(),
            refusals: self.tally.refusals,
        }
    }
}

/// What some slots of a slab of `end` have to show, from `from` on.
pub(super) fn page<T>(from: u64, end: usize, show: impl Fn(usize) -> Option<T>) -> Page<T> {
    let from = usize::try_from(from).unwrap_or(end).min(end);
    let upto = end.min(from.saturating_add(LOOKS_MAX));
    Page {
        items: (from..upto).filter_map(show).collect(),
        next: (upto < end).then_some(upto as u64),
    }
}
