//! Who may hold messages, and for how long: locks, and queues with a single active consumer.

use std::collections::BTreeMap;

use qq_core::broker::Now;
use qq_core::store::SeenKey;
use qq_core::vocab::{ConnId, LockSpec, Notice, Outcome, QueueId};

use super::queue::{Peer, Queue, Seen};
use super::{Consumer, News, PortKind, Reference, down_ms, up_ms};

/// Within so many milliseconds what is due is taken back.
const SLACK_MS: u64 = 2;

/// The first of the times that is set.
fn lock_ms(lock: LockSpec, queue: &Queue) -> Option<u64> {
    let queue_ms = queue.spec.lock_timeout_ms;
    lock.asked_ms.or(queue_ms).or(lock.fallback_ms)
}

impl Consumer {
    /// A delivery that should be back in its queue, and since when.
    pub(super) fn overdue(&self, now_ms: u64) -> Option<(u64, u64)> {
        let is_over = |(_, due_ms): &(&u64, &u64)| **due_ms + SLACK_MS < now_ms;
        let found = self.due_ms.iter().find(is_over);
        found.map(|(delivery, due_ms)| (*delivery, *due_ms))
    }
}

impl Reference {
    /// A consumer has a delivery from now on.
    pub(super) fn begin_lock(&mut self, now: Now, peer: Peer, delivery: u64) {
        if let Some(PortKind::Consumer(consumer)) = self.ports.get_mut(&peer)
            && let Some(queue) = self.queues.get(&consumer.queue)
            && let Some(lock_ms) = lock_ms(consumer.lock, queue)
        {
            consumer.due_ms.insert(delivery, up_ms(now) + lock_ms);
        }
    }

    /// A consumer is still at work.
    pub(super) fn extend(&mut self, now: Now, peer: Peer, range: (u64, u64), asked: Option<u64>) {
        if let Some(PortKind::Consumer(consumer)) = self.ports.get_mut(&peer)
            && let Some(queue) = self.queues.get(&consumer.queue)
            && let Some(usual_ms) = lock_ms(consumer.lock, queue)
        {
            let until_ms = up_ms(now) + asked.unwrap_or(usual_ms);
            for (delivery, _) in consumer.held.range(range.0..=range.1) {
                consumer.due_ms.insert(*delivery, until_ms);
            }
        }
    }

    /// The broker took back what consumers held for too long.
    pub(super) fn take_back(&mut self, now: Now, notices: &[(ConnId, Notice)]) {
        for (conn, notice) in notices {
            if let Notice::LockLost { port, first, last } = notice {
                for delivery in first.0..=last.0 {
                    self.lose(now, (*conn, *port), delivery);
                }
                if let Some(PortKind::Consumer(consumer)) = self.ports.get(&(*conn, *port))
                    && let Some(key) = consumer.key.clone()
                {
                    self.news.push(News::Lost(*conn, key, first.0, last.0));
                }
            }
        }
    }

    fn lose(&mut self, now: Now, peer: Peer, delivery: u64) {
        let due_ms = match self.ports.get(&peer) {
            Some(PortKind::Consumer(consumer)) => consumer.due_ms.get(&delivery).copied(),
            _ => None,
        };
        if due_ms.is_none_or(|due_ms| due_ms > down_ms(now)) {
            let text = format!("{peer:?} loses delivery {delivery}, which is due at {due_ms:?}");
            return self.broken(text);
        }
        self.settle_held(now, peer, (delivery, delivery), &Outcome::Lost);
    }

    /// A consumer opened: where one alone is served, it is that or stands by.
    pub(super) fn stand_by(&mut self, peer: Peer) {
        if let Some(PortKind::Consumer(consumer)) = self.ports.get(&peer)
            && let Some(queue) = self.queues.get_mut(&consumer.queue)
            && queue.spec.single_active_consumer
            && !consumer.is_browsing
        {
            queue.active.get_or_insert(peer);
        }
    }

    /// A consumer is gone: of the others the one that came first follows.
    pub(super) fn hand_over(&mut self, gone: Peer, name: &str) {
        self.closed.insert(gone);
        let takes = |port: &PortKind| match port {
            PortKind::Consumer(other) if other.queue == name && !other.is_browsing => {
                Some(other.serial)
            }
            _ => None,
        };
        let others = self.ports.iter();
        let others = others.filter_map(|(peer, port)| Some((takes(port)?, *peer)));
        let next = others.min().map(|(_, peer)| peer);
        if let Some(queue) = self.queues.get_mut(name)
            && queue.active == Some(gone)
        {
            queue.active = next;
        }
    }

    pub(super) fn on_activity(&mut self, peer: Peer, is_active: bool) {
        match self.ports.get_mut(&peer) {
            Some(PortKind::Consumer(consumer)) => consumer.told_active = Some(is_active),
            _ if self.closed.contains(&peer) => {}
            _ => self.broken(format!("{peer:?} is gone and hears whether it is active")),
        }
    }

    /// Each consumer of a queue that serves one alone knows whether it is that, and no other hears of it.
    pub(super) fn check_activity(&mut self) {
        let mut wrong = Vec::new();
        for (peer, port) in &self.ports {
            let PortKind::Consumer(consumer) = port else {
                continue;
            };
            let Some(queue) = self.queues.get(&consumer.queue) else {
                continue;
            };
            let is_concerned = queue.spec.single_active_consumer && !consumer.is_browsing;
            let expected = is_concerned.then(|| queue.active == Some(*peer));
            if consumer.told_active != expected {
                let told = consumer.told_active;
                wrong.push(format!(
                    "{peer:?} was told that it is active: {told:?}, and not {expected:?}"
                ));
            }
        }
        wrong.into_iter().for_each(|text| self.broken(text));
    }
}

impl Queue {
    /// After a restart it knows the keys that the store kept; of equal ones the window that ends first counts.
    pub(super) fn remember(&mut self, id: QueueId, keys: &[SeenKey], now: Now) {
        let mut ends: BTreeMap<&[u8], i64> = BTreeMap::new();
        let alive = keys.iter().filter(|key| key.until_ms > now.wall_ms);
        for key in alive.filter(|key| key.queue == id) {
            let end = ends.entry(&key.key).or_insert(key.until_ms);
            *end = key.until_ms.min(*end);
        }
        for (key, until_ms) in ends {
            let left_ms = (until_ms - now.wall_ms).unsigned_abs();
            // The wall clock may have been set back.
            let left_ms = left_ms.min(self.spec.dedup_window_ms);
            let seen = Seen {
                until_ms: up_ms(now) + left_ms,
                number: 0,
                is_durable: false,
            };
            self.seen.insert(key.to_vec().into(), seen);
        }
    }
}
