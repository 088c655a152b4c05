//! What the broker says, judged.

use std::collections::BTreeMap;

use qq_core::broker::Now;
use qq_core::vocab::{ConnId, Delivered, Notice, Port, QueueId, Reason, Verdict};

use super::burial::origin_of;
use super::queue::{Entry, Peer, Queue, is_wanted};
use super::{Consumer, Mirror, News, PortKind, Reference, down_ms, is_safe};

impl Consumer {
    /// Deliveries that any permit in force in this round allows.
    fn most(&self) -> u64 {
        self.older.iter().copied().fold(self.limit, u64::max)
    }
}

impl Reference {
    pub(super) fn judge(&mut self, now: Now, mirror: &Mirror, notices: Vec<(ConnId, Notice)>) {
        // Browsing consumers see the queue before anything is taken.
        for (conn, notice) in &notices {
            if let Notice::Deliver { port, delivered } = notice {
                self.browse(now, mirror, (*conn, *port), delivered);
            }
        }
        self.leaving = notices
            .iter()
            .filter_map(|(conn, notice)| self.leaves(*conn, notice))
            .collect();
        // The last turn of what each consumer was given in this round.
        let mut given: BTreeMap<Peer, (u8, u64)> = BTreeMap::new();
        for (conn, notice) in notices {
            self.notice(now, mirror, conn, notice, &mut given);
        }
        let mut broken = Vec::new();
        let (now_ms, may_page) = (down_ms(now), self.may_page);
        let is_in_turn = |entry: &Entry| entry.is_in_turn(now_ms, may_page);
        for (peer, turn) in given {
            let Some(PortKind::Consumer(consumer)) = self.ports.get(&peer) else {
                continue;
            };
            let wants = &consumer.wants;
            let queue = self.queues.get(&consumer.queue);
            let first = queue.filter(|queue| queue.serves(peer)).and_then(|queue| {
                let (seq, entry) = queue.first_for(peer, wants, is_in_turn)?;
                Some((queue.turn_of(wants, seq, entry), entry))
            });
            // It may have had to wait when this consumer's turn came, or waits for its body beside the queue.
            let was_behind = first.is_some_and(|(_, entry)| {
                let key = entry.message.envelope.group_id.clone();
                key.is_some_and(|key| {
                    may_page || self.freed.contains(&(consumer.queue.clone(), key))
                })
            });
            if let Some((skipped, entry)) = first
                && !was_behind
                && skipped < turn
                && !self.loose.contains(&consumer.queue)
            {
                broken.push(format!(
                    "{peer:?} is given position {} of {} before {} (message {})",
                    turn.1, consumer.queue, skipped.1, entry.number
                ));
            }
        }
        for peer in std::mem::take(&mut self.drained) {
            let Some(PortKind::Consumer(consumer)) = self.ports.get(&peer) else {
                continue;
            };
            if let Some(queue) = self.queues.get(&consumer.queue)
                && !self.loose.contains(&consumer.queue)
                && queue.serves(peer)
                && mirror.is_idle()
                && let Some((seq, entry)) = queue.first_for(peer, &consumer.wants, is_in_turn)
                && is_safe(mirror, queue.id, seq, entry)
            {
                broken.push(format!(
                    "{peer:?} hears of a drain before position {seq} is delivered"
                ));
            }
        }
        for text in broken {
            self.broken(text);
        }
    }

    /// The place of a message that leaves its queue as it is delivered. Who gets the next one of its key may hear of
    /// that first.
    fn leaves(&self, conn: ConnId, notice: &Notice) -> Option<(String, u64)> {
        let Notice::Deliver { port, delivered } = notice else {
            return None;
        };
        match self.ports.get(&(conn, *port))? {
            PortKind::Consumer(consumer) if consumer.is_settled && !consumer.is_browsing => {
                Some((consumer.queue.clone(), delivered.seq.0))
            }
            _ => None,
        }
    }

    fn notice(
        &mut self,
        now: Now,
        mirror: &Mirror,
        conn: ConnId,
        notice: Notice,
        given: &mut BTreeMap<Peer, (u8, u64)>,
    ) {
        match notice {
            Notice::ProducerOpened { port, .. } => self.opened((conn, port), true),
            Notice::ConsumerOpened { port, opened } => {
                self.opened((conn, port), true);
                let start = self.beginnings.remove(&(conn, port));
                let told = opened.next.map(|next| next.0);
                if told != start {
                    let peer = (conn, port);
                    self.broken(format!("{peer:?} begins at {told:?}, not at {start:?}"));
                }
            }
            Notice::Refused { port, .. } => self.opened((conn, port), false),
            Notice::Confirm {
                port,
                first,
                last,
                verdict,
            } => {
                for ticket in first.0..=last.0 {
                    self.confirmed(mirror, (conn, port), ticket, &verdict);
                }
            }
            Notice::Deliver { port, delivered } => {
                self.delivered(now, mirror, (conn, port), &delivered, given);
            }
            Notice::Drained { port, sent } => self.on_drained((conn, port), sent),
            Notice::Settled { port, first, last } => {
                self.settled(mirror, (conn, port), first.0, last.0);
            }
            Notice::Closed { port, .. } => {
                if !self.closing.remove(&(conn, port)) {
                    self.broken(format!("{:?} is closed without a reason", (conn, port)));
                }
            }
            Notice::Discharged { txn, fault } => {
                let fault = fault.map(|fault| fault.text);
                self.on_discharged(mirror, (conn, txn), fault);
            }
            Notice::Activity { port, is_active } => self.on_activity((conn, port), is_active),
            // It was looked at first.
            Notice::LockLost { .. } => {}
            // Questions of faces, which change nothing that is followed here.
            Notice::Answered { .. }
            | Notice::Managed { .. }
            | Notice::Report { .. }
            | Notice::Ruled { .. }
            | Notice::Pressure { .. } => {}
        }
    }

    fn opened(&mut self, peer: Peer, is_open: bool) {
        if self.opening.remove(&peer) != Some(is_open) {
            let word = if is_open { "opened" } else { "refused" };
            self.broken(format!("{peer:?} is {word} and should not be"));
        }
    }

    fn confirmed(&mut self, mirror: &Mirror, peer: Peer, ticket: u64, verdict: &Verdict) {
        let Some(PortKind::Producer(producer)) = self.ports.get_mut(&peer) else {
            // Its port was closed after the message was taken; the face drops the answer.
            return;
        };
        let Some(published) = producer.unanswered.remove(&ticket) else {
            return self.broken(format!(
                "ticket {ticket} of {peer:?} is answered and was not asked"
            ));
        };
        let number = published.number;
        match verdict {
            Verdict::Accepted if published.is_refused => {
                self.broken(format!(
                    "message {number} is accepted though its queue was full"
                ));
            }
            Verdict::Accepted if published.needs_store && !mirror.was_safe(number) => {
                self.broken(format!("message {number} is accepted before it is safe"));
            }
            Verdict::Accepted if published.is_duplicate => {
                self.broken(format!("message {number} is accepted twice"));
            }
            Verdict::Duplicate if published.is_duplicate => {
                if let Some(first) = published.repeats.filter(|first| !mirror.was_safe(*first)) {
                    let text = format!("message {number} repeats {first}, which is not safe");
                    self.broken(text);
                }
            }
            Verdict::Accepted if published.is_unroutable => {
                self.broken(format!("message {number} is accepted and belongs nowhere"));
            }
            Verdict::Unroutable if published.is_unroutable => {}
            Verdict::Accepted
            | Verdict::Full(_)
            | Verdict::Rejected(Reason::LimitExceeded | Reason::DiskFull) => {}
            other => self.broken(format!("message {number} is answered with {other:?}")),
        }
    }

    fn browse(&mut self, now: Now, mirror: &Mirror, peer: Peer, delivered: &Delivered) {
        let Some(PortKind::Consumer(consumer)) = self.ports.get_mut(&peer) else {
            return;
        };
        if !consumer.is_browsing {
            return;
        }
        let seq = delivered.seq.0;
        let name = consumer.queue.clone();
        let is_placed = self
            .queues
            .get(&name)
            .is_some_and(|queue| queue.entries.contains_key(&seq));
        if !is_placed && delivered.message.envelope.deaths.is_some() {
            self.arrive(now, &name, seq, &delivered.message);
        }
        let Some(PortKind::Consumer(consumer)) = self.ports.get_mut(&peer) else {
            return;
        };
        let Some(queue) = self.queues.get(&consumer.queue) else {
            return;
        };
        let is_skipped = |seq: &&u64| {
            let entry = queue.entries.get(*seq);
            // What was not due when it was passed is not looked at again.
            entry.is_some_and(|entry| entry.due_ms.is_none() && is_wanted(&consumer.wants, entry))
        };
        let skipped = queue
            .waiting
            .range(consumer.browse_from..seq)
            .find(is_skipped);
        let entry = queue
            .entries
            .get(&seq)
            .filter(|_| queue.waiting.contains(&seq));
        let mut wrong = None;
        if consumer.sent >= consumer.most() {
            wrong = Some("beyond its permit");
        } else if seq < consumer.browse_from || skipped.is_some() {
            wrong = Some("out of order");
        }
        match entry {
            None => wrong = Some("and it does not wait there"),
            Some(entry) if !is_safe(mirror, queue.id, seq, entry) => {
                wrong = Some("before it is safe");
            }
            Some(entry) if entry.message != delivered.message => wrong = Some("changed"),
            Some(entry) if !is_wanted(&consumer.wants, entry) => wrong = Some("unasked"),
            Some(entry) if entry.expires_ms.is_some_and(|at| at <= down_ms(now)) => {
                wrong = Some("after its time");
            }
            Some(_) => {}
        }
        if consumer.reader.is_some() && consumer.is_settled {
            consumer.is_noted = true;
        } else if consumer.reader.is_some() {
            consumer.held.insert(delivered.delivery.0, seq);
        }
        consumer.sent += 1;
        consumer.browse_from = seq + 1;
        if let Some(wrong) = wrong {
            let text = format!(
                "{peer:?} is shown position {seq} of {} {wrong}",
                consumer.queue
            );
            self.broken(text);
        }
    }

    fn delivered(
        &mut self,
        now: Now,
        mirror: &Mirror,
        peer: Peer,
        delivered: &Delivered,
        given: &mut BTreeMap<Peer, (u8, u64)>,
    ) {
        let seq = delivered.seq.0;
        let Some(PortKind::Consumer(consumer)) = self.ports.get_mut(&peer) else {
            return self.broken(format!("{peer:?} is closed and given position {seq}"));
        };
        if consumer.is_browsing {
            return;
        }
        let number = delivered.delivery.0;
        let mut wrong = miscounted(consumer, number);
        consumer.sent += 1;
        let name = consumer.queue.clone();
        let Some(id) = self.find_place(now, &name, delivered) else {
            let what = format!("position {seq} of {name}, which is gone");
            return self.broken(format!("{peer:?} is given {what}"));
        };
        if delivered.queue != id {
            wrong.push(format!("from queue {}, not {}", delivered.queue.0, id.0));
        }
        let (Some(queue), Some(PortKind::Consumer(consumer))) =
            (self.queues.get_mut(&name), self.ports.get_mut(&peer))
        else {
            return;
        };
        let entry = queue.entries.get(&seq);
        let is_loose = self.loose.contains(&name);
        let is_leaving = |older: u64| self.leaving.contains(&(name.clone(), older));
        let out_of_turn = out_of_turn(queue, peer, seq, is_loose, is_leaving);
        wrong.extend(out_of_turn.map(str::to_owned));
        let turn = entry.map_or((0, seq), |entry| queue.turn_of(&consumer.wants, seq, entry));
        let Some(entry) = queue.entries.get_mut(&seq) else {
            return self.broken(format!(
                "{peer:?} is given position {seq} of {name}, which is empty"
            ));
        };
        if !is_wanted(&consumer.wants, entry) {
            wrong.push("which its filter does not let pass".to_owned());
        }
        wrong.extend(differences(now, mirror, peer, delivered, (id, entry)));
        if consumer.is_settled {
            // It is done with when it is sent, and may get lost on its way.
            let origin = origin_of(&entry.message, &name);
            self.news.push(News::Dropped(entry.number, origin));
            if let Some(key) = entry.message.envelope.group_id.clone() {
                self.freed.insert((name.clone(), key));
            }
            queue.remove(seq);
        } else {
            consumer.held.insert(delivered.delivery.0, seq);
            queue.acquire(seq, peer);
            self.begin_lock(now, peer, delivered.delivery.0);
        }
        let last = given.entry(peer).or_default();
        *last = turn.max(*last);
        if !wrong.is_empty() {
            let wrong = wrong.join(", ");
            self.broken(format!(
                "{peer:?} is given position {seq} of {name} {wrong}"
            ));
        }
    }

    /// The id of a queue from which something is delivered; what only the delivery tells is learnt from it.
    fn find_place(&mut self, now: Now, name: &str, delivered: &Delivered) -> Option<QueueId> {
        // A volatile message may come before the store hears of its queue.
        self.learn(name, delivered.queue);
        let queue = self.queues.get(name)?;
        let (id, seq) = (queue.id, delivered.seq.0);
        if !queue.entries.contains_key(&seq) && delivered.message.envelope.deaths.is_some() {
            // A volatile dead letter: nothing else said where it is.
            self.arrive(now, name, seq, &delivered.message);
        }
        Some(id)
    }

    fn on_drained(&mut self, peer: Peer, sent: u64) {
        let Some(PortKind::Consumer(consumer)) = self.ports.get_mut(&peer) else {
            return;
        };
        if consumer.older.pop_front().is_some() {
            return;
        }
        let mut wrong = None;
        if !consumer.is_draining || sent != consumer.sent {
            let told = consumer.sent;
            wrong = Some(format!(
                "{peer:?} hears of a drain after {sent}, with {told} delivered"
            ));
        }
        let has_permit = consumer.sent < consumer.limit;
        (consumer.is_draining, consumer.limit) = (false, consumer.limit.min(sent));
        if has_permit && !consumer.is_browsing {
            // What is left for it is known when all deliveries of the round are.
            self.drained.push(peer);
        }
        if let Some(wrong) = wrong {
            self.broken(wrong);
        }
    }

    fn settled(&mut self, mirror: &Mirror, peer: (ConnId, Port), first: u64, last: u64) {
        let next = self
            .confirming
            .get_mut(&peer)
            .and_then(|list| list.pop_front());
        let Some(next) = next.filter(|next| (next.first, next.last) == (first, last)) else {
            let text = format!("{peer:?} hears that {first} to {last} are settled, out of turn");
            return self.broken(text);
        };
        if let Some((queue, reader, place)) = &next.place
            && let Some(kept) = mirror.safe.queues.get(queue)
            && kept.offsets.get(reader).is_none_or(|kept| kept < place)
        {
            let kept = kept.offsets.get(reader).copied();
            self.broken(format!(
                "{peer:?} hears that it came to {place}, and the store has {kept:?}"
            ));
        }
        for (queue, seq, count) in next.ends {
            let kept = mirror.safe.kept(queue, seq);
            let is_safe = match count {
                None => kept.is_none(),
                // It may be gone since, but not have a smaller count.
                Some(count) => kept.is_none_or(|kept| kept.delivery_count >= count),
            };
            if !is_safe {
                let text = format!(
                    "{peer:?} hears that position {seq} of queue {} is settled before that is safe",
                    queue.0
                );
                self.broken(text);
            }
        }
    }
}

/// Why a consumer should not be given a message now; one may have been served before this round's commands were done.
fn out_of_turn(
    queue: &Queue,
    peer: Peer,
    seq: u64,
    is_loose: bool,
    is_leaving: impl Fn(u64) -> bool,
) -> Option<&'static str> {
    let entry = queue.entries.get(&seq);
    if !queue.serves(peer) && !is_loose {
        return Some("and stands by");
    }
    let is_behind =
        entry.is_some_and(|entry| queue.is_behind_any(seq, entry, |seq| !is_leaving(seq)));
    is_behind.then_some("before an older one of its key is done")
}

/// What is wrong with the number of a delivery.
fn miscounted(consumer: &Consumer, number: u64) -> Vec<String> {
    let mut wrong = Vec::new();
    if consumer.sent >= consumer.most() {
        wrong.push(format!("beyond its permit of {}", consumer.limit));
    }
    if number != consumer.sent {
        wrong.push(format!("as delivery {number}, not {}", consumer.sent));
    }
    wrong
}

/// In what a delivery differs from the entry that it should be.
fn differences(
    now: Now,
    mirror: &Mirror,
    peer: Peer,
    delivered: &Delivered,
    (id, entry): (QueueId, &Entry),
) -> Vec<String> {
    let mut wrong = Vec::new();
    if let Some(owner) = entry.owner {
        wrong.push(format!("which {owner:?} holds"));
    }
    if entry.excluded.contains(&peer) {
        wrong.push("which it wanted never again".to_owned());
    }
    if entry.message != delivered.message {
        wrong.push("which is another message".to_owned());
    }
    if entry.count != delivered.delivery_count {
        wrong.push(format!(
            "with count {}, not {}",
            delivered.delivery_count, entry.count
        ));
    }
    if entry.had_owner == delivered.first_acquirer {
        wrong.push(format!("as first acquirer: {}", delivered.first_acquirer));
    }
    if entry.annotations != delivered.annotations {
        wrong.push("with other annotations".to_owned());
    }
    if !is_safe(mirror, id, delivered.seq.0, entry) {
        wrong.push("before it is safe".to_owned());
    }
    if entry.due_ms.is_some_and(|due_ms| down_ms(now) < due_ms) {
        wrong.push(format!("before it is due at {:?} ms", entry.due_ms));
    }
    let left_ms = entry.expires_ms.map(|at| at.saturating_sub(down_ms(now)));
    if left_ms == Some(0) {
        wrong.push("after its time".to_owned());
    }
    if left_ms.is_some() != delivered.ttl_ms.is_some()
        || left_ms.unwrap_or(0).abs_diff(delivered.ttl_ms.unwrap_or(0)) > 1
    {
        wrong.push(format!(
            "with a life of {:?}, not {left_ms:?}",
            delivered.ttl_ms
        ));
    }
    wrong
}
