//! Why something waits: a message, a consumer, a producer. What operators are told when nothing moves.

use super::super::ports::Consumer;
use super::super::{Broker, quoted};
use crate::admin::Why;
use crate::queue::{Clock, Entry, Why as Aside};

/// Messages out of turn that are looked at to say why.
const LOOKS_MAX: usize = 256;

impl Broker {
    pub(super) fn why_producer_waits(&self, conn: usize) -> Vec<Why> {
        let mut waits = Vec::new();
        if self.conns.conn(conn).is_pressed && self.is_memory_short {
            let text = "the broker is short of memory and grants no credit";
            waits.push(Why::new("memory", text));
        }
        if self.conns.conn(conn).is_pressed && self.is_disk_short {
            let text = "the disk gets full and the broker grants no credit";
            waits.push(Why::new("disk", text));
        }
        waits
    }

    pub(super) fn why_consumer_waits(&self, slot: usize) -> Vec<Why> {
        let consumer = &self.consumers[slot];
        let queue = &self.queues[consumer.queue];
        let mut waits = Vec::new();
        if self.is_draining {
            waits.push(Why::new("draining", "the broker goes down"));
        }
        let waiting = queue.backlog.waiting();
        if waiting == 0 {
            waits.push(Why::new("no-message", "no message waits in the queue"));
        } else if !self.may_serve(slot) {
            let text = "another consumer is the single active one of the queue; this one stands by";
            waits.push(Why::new("standby", text));
        } else if !consumer.is_browsing && queue.backlog.aside_len() == waiting {
            waits.extend(self.why_all_wait(consumer.queue));
        } else if consumer.is_in_ring {
            waits.extend(self.why_served_waits(consumer));
        }
        if consumer.sent >= consumer.limit {
            let text = "the receiver has granted no credit that is left, or its output waits";
            waits.push(Why::new("no-credit", text));
        }
        waits
    }

    /// Why a consumer gets none of the messages that are in turn.
    fn why_served_waits(&self, consumer: &Consumer) -> Option<Why> {
        let queue = &self.queues[consumer.queue];
        if consumer.reader.is_waiting || queue.backlog.asked() > 0 {
            let text = "bodies of messages are being read from the store";
            return Some(Why::new("store", text));
        }
        if consumer.wanted.is_some() {
            let waiting = queue.backlog.waiting();
            let text =
                format!("none of {waiting} waiting messages that were looked at passes the filter");
            return Some(Why::new("filter", text));
        }
        if consumer.has_excluded {
            let text = "what waits was returned as undeliverable to this link";
            return Some(Why::new("excluded", text));
        }
        let text = "messages wait for the store or for their turn";
        (!consumer.is_browsing).then(|| Why::new("store", text))
    }

    /// Why all messages of a queue are passed over.
    fn why_all_wait(&self, slot: usize) -> Vec<Why> {
        let found = self.queues[slot].backlog.reasons_aside(LOOKS_MAX);
        let has = |wanted| found.contains(&wanted);
        let mut waits = Vec::new();
        if has(Aside::Early) {
            let text = "what waits is delayed and not due yet";
            waits.push(Why::new("delayed", text));
        }
        if has(Aside::Key) {
            let text = "what waits has ordering keys of which another message is out";
            waits.push(Why::new("key", text));
        }
        if has(Aside::Body) {
            let text = "bodies of messages are being read from the store";
            waits.push(Why::new("store", text));
        }
        waits
    }

    pub(super) fn why_message_waits(
        &self,
        at: Clock,
        slot: usize,
        position: u64,
        entry: &Entry,
    ) -> Vec<Why> {
        if entry.is_acquired {
            let holder = self.holder(slot, position);
            let text = holder.map(|link| format!("a consumer has it: link {link}"));
            return text
                .map(|text| Why::new("held", text))
                .into_iter()
                .collect();
        }
        match entry.why {
            Aside::InTurn => self.why_message_in_turn(slot, entry),
            Aside::Early => vec![self.why_early(at, slot, position, entry)],
            Aside::Key => vec![self.why_key(slot, entry)],
            Aside::Body => {
                let text = "its body is being read from the store";
                vec![Why::new("store", text)]
            }
        }
    }

    /// The link of the consumer that has a message, as operators name links.
    fn holder(&self, slot: usize, position: u64) -> Option<String> {
        self.queues[slot].consumers.iter().find_map(|consumer| {
            let consumer = &self.consumers[*consumer];
            let conn = self.conns.conn(consumer.conn).id.0;
            consumer
                .holds(position)
                .then(|| format!("{conn}-{}", consumer.port.0))
        })
    }

    fn why_early(&self, at: Clock, slot: usize, position: u64, entry: &Entry) -> Why {
        let what = match entry.attempts() {
            0 => "it is delayed",
            _ => "it waits for its next attempt",
        };
        let due_ms = self.queues[slot].backlog.due_of(position);
        let text = match due_ms.map(|due_ms| due_ms.saturating_sub(at.mono_ms)) {
            Some(left_ms) => format!("{what}, for another {left_ms} ms"),
            None => format!("{what}, for long"),
        };
        Why::new("delayed", text)
    }

    fn why_key(&self, slot: usize, entry: &Entry) -> Why {
        let Some(key) = entry.order_key() else {
            let text = "another message of its ordering key is out";
            return Why::new("key", text);
        };
        let shown = quoted(&String::from_utf8_lossy(key));
        let keys = self.queues[slot].order_keys.as_ref();
        let Some(current) = keys.and_then(|keys| keys.current(key)) else {
            return Why::new("key", format!("it waits for its ordering key {shown}"));
        };
        let where_it_is = match self.holder(slot, current) {
            Some(link) => format!("link {link} has"),
            None => "which goes first is".to_owned(),
        };
        let text = format!(
            "it waits for its ordering key {shown}, of which {where_it_is} the message at position {current}"
        );
        Why::new("key", text)
    }

    fn why_message_in_turn(&self, slot: usize, entry: &Entry) -> Vec<Why> {
        let queue = &self.queues[slot];
        let mut why = Vec::new();
        if entry.batch > self.gate.persisted() && !entry.is_away() {
            why.push(Why::new("store", "it is being written to disk"));
        }
        if queue.takers == 0 {
            why.push(Why::new(
                "no-consumer",
                "the queue has no consumer that takes",
            ));
        } else if queue.ring.is_empty() {
            why.push(Why::new("no-credit", "no consumer of the queue has credit"));
        } else if !queue.filtered.is_empty() {
            why.push(Why::new("filter", "filters of consumers may pass it by"));
        }
        let excluded = entry.extra.as_ref().map_or(0, |extra| extra.excluded.len());
        if excluded > 0 {
            let text = format!("{excluded} consumers returned it as undeliverable to them");
            why.push(Why::new("excluded", text));
        }
        if queue.is_damaged {
            why.push(Why::new(
                "damaged",
                "the queue could not be read and serves nobody",
            ));
        }
        if why.is_empty() {
            why.push(Why::new("turn", "it waits for its turn"));
        }
        why
    }
}
