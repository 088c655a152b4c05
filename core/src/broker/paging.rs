//! Bodies that the store keeps for the broker: which leave memory, which are fetched ahead of need, and what follows
//! when the store cannot give one back.

use std::sync::Arc;

use super::{Action, Broker, Now, Paging, quoted};
use crate::queue::{Clock, Missing, READ_SHARE, Read, STREAM_SHARE, Share, Span};
use crate::store::Fetch;
use crate::vocab::{Message, Port, QueueId, Reason, Refusal, Seq};

/// Queues that are looked at in one flush while too much is in memory.
const SWEEP_MAX: usize = 8;

impl Paging {
    /// What one queue may have in memory.
    fn share(&self, bytes: usize) -> Share {
        let part = if bytes > self.cache_bytes { 8 } else { 1 };
        Share {
            len: self.window_len / part,
            bytes: self.window_bytes / part,
        }
    }
}

impl Broker {
    /// Brings what a queue has in memory into line with where its consumers are.
    pub(super) fn page(&mut self, at: Clock, slot: usize) {
        let Some(paging) = self.config.paging else {
            return;
        };
        let Some(queue) = self.queues.get_mut(slot).filter(|queue| queue.can_page()) else {
            return;
        };
        let share = paging.share(self.bytes);
        if queue.is_stream() {
            self.bytes -= queue.backlog.keep_tail(share, self.gate.persisted(), at);
            return;
        }
        self.bytes -= queue.backlog.page_out(share, self.gate.persisted(), at);
        self.bytes -= queue.backlog.send_aside_away(share, self.gate.persisted());
        if queue.takers == 0 || queue.is_damaged || queue.backlog.away() == 0 {
            return;
        }
        self.fetch_due(slot, share);
        let queue = &mut self.queues[slot];
        let queue_id = queue.id;
        for span in queue.backlog.page_in(share, at) {
            self.actions.push_back(fetch(queue_id, span));
        }
    }

    /// Looks at some queues that nothing happened to, while there are more bodies in memory than there should be.
    pub(super) fn sweep(&mut self, at: Clock) {
        let Some(paging) = self.config.paging else {
            return;
        };
        let mut left = SWEEP_MAX.min(self.queues.len());
        while left > 0 && self.bytes > paging.cache_bytes {
            left -= 1;
            let from = self.sweep_from;
            let next = (from..self.queues.capacity()).find(|slot| self.queues.contains(*slot));
            self.sweep_from = next.map_or(0, |slot| slot + 1);
            if let Some(slot) = next {
                self.page(at, slot);
            }
        }
    }

    /// Asks for the bodies that a consumer beside the cursor comes to. Who comes to a place that others asked for waits
    /// with them.
    pub(super) fn read(&mut self, slot: usize, consumer: usize, seq: u64) {
        let reader = &mut self.consumers[consumer];
        if reader.reader.is_waiting {
            return;
        }
        reader.reader.is_waiting = true;
        let whose = (consumer, reader.serial);
        let queue = &mut self.queues[slot];
        if let Some(read) = queue.reads.iter_mut().find(|read| read.span.first == seq) {
            return read.consumers.push(whose);
        }
        let share = match queue.is_stream() {
            true => STREAM_SHARE,
            false => READ_SHARE,
        };
        let span = queue.backlog.span_to_read(seq, share);
        queue.reads.push(Read {
            span,
            consumers: smallvec::smallvec![whose],
        });
        self.actions.push_back(fetch(queue.id, span));
    }

    /// Asks for what follows what a reader of a stream has ahead, once that is no more than half of a request.
    pub(super) fn read_ahead(&mut self, slot: usize, consumer: usize) {
        let queue = &self.queues[slot];
        let reader = &self.consumers[consumer].reader;
        if reader.is_waiting || reader.ahead.len() > STREAM_SHARE.len / 2 {
            return;
        }
        if let Some((last, _)) = reader.ahead.back()
            && let Some(next) = queue.backlog.live_from(last + 1)
            && queue.backlog.away_len(next).is_some()
        {
            self.read(slot, consumer, next);
        }
    }

    /// Bodies came. What nobody asked for any more is dropped.
    pub(super) fn on_fetched(
        &mut self,
        now: Now,
        fetch: &Fetch,
        messages: Vec<(Seq, Arc<Message>)>,
    ) {
        let Some(&slot) = self.queue_slots.get(&fetch.queue) else {
            return;
        };
        let span = span(fetch);
        let queue = &mut self.queues[slot];
        let missing = if queue.backlog.forget_asked(span) {
            let (cost, missing) = queue.backlog.install(span, messages);
            self.bytes += cost;
            missing
        } else if queue.backlog.is_asked_aside(span) {
            self.install_due(now.clock(), slot, span, messages)
        } else if queue.reads.iter().any(|read| read.span == span) {
            self.hand_to_readers(slot, span, &messages)
        } else {
            let is_for_doomed = self.is_for_doomed(slot, span);
            if !is_for_doomed && !self.has_job_for(fetch.queue, span) {
                return;
            }
            let missing = self.queues[slot].backlog.first_unread(span, &messages);
            match &missing {
                Some(_) => {}
                None if is_for_doomed => self.bury_doomed(now.clock(), slot, messages),
                None => self.feed_job(now, fetch.queue, span, messages),
            }
            missing
        };
        if let Some(Missing(seq)) = missing {
            let text = format!("there is no sound message at position {seq}");
            return self.damage(now, slot, &text);
        }
        self.mark_dirty(slot);
    }

    fn take_read(&mut self, slot: usize, span: Span) -> Option<Read> {
        let reads = &mut self.queues[slot].reads;
        let found = reads.iter().position(|read| read.span == span)?;
        Some(reads.remove(found))
    }

    /// Gives bodies to the browsing consumers that asked and are still there.
    fn hand_to_readers(
        &mut self,
        slot: usize,
        span: Span,
        messages: &[(Seq, Arc<Message>)],
    ) -> Option<Missing> {
        let read = self.take_read(slot, span)?;
        let missing = self.queues[slot].backlog.first_unread(span, messages);
        for (consumer, serial) in read.consumers {
            let Some(found) = self
                .consumers
                .get_mut(consumer)
                .filter(|found| found.serial == serial)
            else {
                continue;
            };
            found.reader.is_waiting = false;
            if missing.is_some() {
                continue;
            }
            let last = found.reader.ahead.back().map(|(last, _)| *last);
            if last.is_some_and(|last| last >= span.first) {
                // It went back meanwhile.
                self.bytes -= found.reader.cost();
                found.reader.ahead.clear();
            }
            for (Seq(seq), message) in messages {
                if *seq >= found.browse_from && *seq < span.end() {
                    self.bytes += message.cost();
                    found.reader.ahead.push_back((*seq, Arc::clone(message)));
                }
            }
        }
        missing
    }

    /// Bodies did not come.
    pub(super) fn on_fetch_failed(&mut self, now: Now, fetch: &Fetch, text: &str) {
        let Some(&slot) = self.queue_slots.get(&fetch.queue) else {
            return;
        };
        let span = span(fetch);
        let backlog = &mut self.queues[slot].backlog;
        if backlog.is_asked_aside(span) {
            backlog.forget_asked_aside();
        } else if !backlog.forget_asked(span)
            && self.take_read(slot, span).is_none()
            && !self.is_for_doomed(slot, span)
            && !self.has_job_for(fetch.queue, span)
        {
            return;
        }
        self.damage(now, slot, text);
    }

    /// Closes a queue to its consumers: what comes next in it cannot be read, and nothing may be skipped in silence.
    fn damage(&mut self, now: Now, slot: usize, text: &str) {
        let queue = &mut self.queues[slot];
        if std::mem::replace(&mut queue.is_damaged, true) {
            return;
        }
        log::error!(
            "the queue {} is damaged and takes no consumers until it is repaired (qqd --check-store) or deleted: {text}",
            quoted(&queue.spec.name)
        );
        queue.doomed.clear();
        queue.doomed_span = None;
        let id = queue.id;
        let refusal = damaged(&queue.spec.name);
        let ports: Vec<(usize, Port)> = queue
            .consumers
            .iter()
            .map(|consumer| {
                (
                    self.consumers[*consumer].conn,
                    self.consumers[*consumer].port,
                )
            })
            .collect();
        for (conn, port) in ports {
            self.evict(now.clock(), conn, port, refusal.clone());
        }
        self.wake_jobs(id);
    }
}

/// Why a damaged queue takes no consumers.
pub(super) fn damaged(name: &str) -> Refusal {
    Refusal {
        reason: Reason::Internal,
        text: format!(
            "messages of the queue {} are damaged on disk; stop the broker and run qqd --check-store",
            quoted(name)
        ),
    }
}

/// Asks the store for the bodies of a span.
pub(super) fn fetch(queue: QueueId, span: Span) -> Action {
    Action::Fetch(Fetch {
        queue,
        first: Seq(span.first),
        count: span.count,
    })
}

fn span(fetch: &Fetch) -> Span {
    Span {
        first: fetch.first.0,
        count: fetch.count,
    }
}
