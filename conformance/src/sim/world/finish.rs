//! The peaceful part of a run: faults end, everybody is answered, the queues are emptied, nothing is left.

use super::World;
use crate::sim::client::Mode;
use crate::sim::pipe::MS;
use crate::sim::random::Random;

/// Within this time everything that was asked must be answered, milliseconds.
const ANSWER_MS: u64 = 10_000;
/// Rounds of the drainer without any progress, after which a queue does not drain.
const IDLE_ROUNDS_MAX: u32 = 100;

impl World {
    pub(super) fn finish(&mut self) {
        self.heal();
        self.run_for(ANSWER_MS * MS);
        self.check_answers();
        self.close_clients();
        self.drain();
        self.check_baseline();
    }

    fn heal(&mut self) {
        self.is_healed = true;
        self.disk.heal();
        self.disk.crash_at = None;
        self.ledger.heal();
        self.set_quota(None);
        if self.disk.is_busy() {
            // It need not wait for the end of its stall.
            self.wake(self.now, super::Wake::Disk(self.process));
        }
        if self.reference.has_damage() {
            // Its operator starts it again, on a disk that reads.
            self.crash();
        }
        self.start_node();
        let now = self.now;
        let mut silent = Vec::new();
        for (conn, stream) in &mut self.streams {
            stream.pipe.heal(now);
            if stream.pipe.is_silent() {
                silent.push((*conn, stream.client));
            }
        }
        for conn in self.streams.keys().copied().collect::<Vec<_>>() {
            self.wake(now, super::Wake::ToBroker(conn));
            self.wake(now, super::Wake::ToClient(conn));
        }
        for (conn, client) in silent {
            if self.clients[client]
                .conn()
                .is_some_and(|found| found.0 == conn)
            {
                self.reset_client(client);
            }
            self.disconnect_node(qq_core::vocab::ConnId(conn));
        }
    }

    fn check_answers(&mut self) {
        if !self.broken.is_empty() {
            return;
        }
        let open: usize = self.clients.iter().map(super::Client::unanswered).sum();
        let stated: usize = self.clients.iter().map(super::Client::unconfirmed).sum();
        let inside = self.reference.unanswered();
        if open + stated + inside > 0 {
            self.broken.push(format!(
                "{ANSWER_MS} ms after everything was healed, {open} messages have no answer, {inside} of them none from \
                 the broker, and {stated} settlements or drains no confirmation"
            ));
        }
    }

    fn close_clients(&mut self) {
        for number in 0..self.clients.len() {
            self.with_client(number, |client, scene, _| client.close(scene));
        }
        self.run_for(5_000 * MS);
        for number in 0..self.clients.len() {
            if self.clients[number].conn().is_some() && self.broken.is_empty() {
                self.broken
                    .push(format!("client {number} cannot close its connection"));
            }
        }
    }

    /// Messages that are to be taken.
    fn messages(&self) -> usize {
        let all = self
            .node
            .as_ref()
            .map_or(0, |node| node.broker().counters().messages);
        all - self.reference.in_streams().min(all)
    }

    /// Whether the drainer has everything that is in streams.
    fn has_read_all(&self, drainer: usize) -> bool {
        let conn = self.clients[drainer].conn();
        conn.is_some_and(|conn| self.reference.has_read_all(conn))
    }

    /// Nobody takes what is in streams: they go as a whole.
    fn delete_streams(&mut self) {
        let now = self.broker_now();
        let streams = self.plan.queues.iter().filter(|spec| spec.is_stream());
        for name in streams.map(|spec| spec.name.clone()).collect::<Vec<_>>() {
            let deleted = self
                .node
                .as_mut()
                .map(|node| node.administer(now, |broker| broker.delete_queue(now, &name)));
            if let Some(Ok(_)) = deleted {
                self.inputs.push(super::Input::Deleted(name));
            }
            self.after_node();
        }
        self.run_for(1_000 * MS);
    }

    /// One client takes what is left in the queues.
    fn drain(&mut self) {
        let drainer = self.clients.len() - 1;
        let mut random = Random::fork(self.plan.seed, 7, 0);
        self.connect(drainer, &mut random);
        self.run_for(2_000 * MS);
        let mut queues = self.plan.declared();
        queues.extend(self.plan.graves.clone());
        for spec in &queues {
            self.administer_declare(spec);
        }
        queues.extend(self.reference.made_now());
        for spec in queues.clone() {
            self.with_client(drainer, |client, scene, plan| {
                let mode = Some(Mode::First);
                client.attach_receiver(scene, plan, &mut random, &spec, mode);
            });
        }
        let (mut idle, mut last) = (0, usize::MAX);
        while (self.messages() > 0 || !self.has_read_all(drainer)) && self.broken.is_empty() {
            self.with_client(drainer, |client, scene, _| client.accept_all(scene));
            self.run_for(100 * MS);
            let left = self.messages() + usize::from(!self.has_read_all(drainer));
            idle = if left < last { 0 } else { idle + 1 };
            last = left;
            if idle > IDLE_ROUNDS_MAX {
                self.broken.push(format!("{left} messages do not drain"));
            }
        }
        // Nothing more may come.
        self.run_for(2_000 * MS);
        self.broken.extend(self.reference.lost_burials());
        if self.broken.is_empty() {
            // What a stream dropped to keep its limits was not read by everybody.
            let is_whole = |spec: &&qq_core::broker::QueueSpec| {
                !spec.is_stream() || spec.max_length.is_none() && spec.max_bytes.is_none()
            };
            for spec in queues.iter().filter(is_whole) {
                self.recorder.drained(self.now, &spec.name);
            }
            for name in self.reference.made.clone() {
                self.recorder.drained(self.now, &name);
            }
            // A queue of one connection alone went with it, and all that was in it.
            self.recorder.admin(self.now, "delete", "own");
            self.recorder.drained(self.now, "own");
        }
        self.with_client(drainer, |client, scene, _| client.close(scene));
        self.run_for(5_000 * MS);
        if self.broken.is_empty() {
            self.broken.extend(self.reference.misplaced(&self.mirror));
        }
        self.delete_streams();
    }

    fn administer_declare(&mut self, spec: &qq_core::broker::QueueSpec) {
        let now = self.broker_now();
        let declared = self
            .node
            .as_mut()
            .map(|node| node.administer(now, |broker| broker.declare_queue(spec.clone(), None)));
        if let Some(Ok(id)) = declared {
            let input = super::Input::Declared(Box::new(spec.clone()), id, None);
            self.inputs.push(input);
        }
        self.after_node();
    }

    /// Nothing is left of anybody.
    fn check_baseline(&mut self) {
        let Some(node) = self.node.as_ref().filter(|_| self.broken.is_empty()) else {
            return;
        };
        let counters = node.broker().counters();
        let left = [
            ("connections", counters.connections),
            ("links", counters.ports()),
            ("messages", counters.messages),
            ("bytes", counters.bytes),
            ("unsettled deliveries", counters.unsettled),
            ("streams", self.streams.len()),
        ];
        for (what, count) in left.into_iter().filter(|(_, count)| *count > 0) {
            self.broken
                .push(format!("at the end {count} {what} are left"));
        }
        if !node.broker().is_drained() {
            self.broken
                .push("at the end something waits for the store".to_owned());
        }
        let kept = self.mirror.safe.queues.values();
        let stored: usize = kept.map(|queue| queue.messages.len()).sum();
        if stored > 0 {
            self.broken
                .push(format!("at the end the store holds {stored} messages"));
        }
    }
}
