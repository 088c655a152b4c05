//! Work on many messages of one queue: purge, look, move. It goes from position to position up to where the queue ended
//! when it began, a slice in each turn of the broker, and fetches bodies that only the store has.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::super::paging::{damaged, fetch};
use super::super::{Broker, Now};
use super::{Asker, Done};
use crate::admin::{Peeked, Reply, Why};
use crate::queue::{Clock, Entry, NEVER_MS, READ_SHARE, Span, Why as Aside};
use crate::vocab::{Delay, Message, QueueId, Reason, Refusal, RuleId, Seq};

/// Messages that one turn touches for one job.
const SLICE_LEN: usize = 1_000;
/// Bytes of payload that one look hands out.
const PEEK_BYTES_MAX: usize = 8 << 20;
/// Jobs at a time.
const JOBS_MAX: usize = 256;
/// Changes in the open batch above which jobs wait, and for how long: the store is behind.
const OPEN_OPS_MAX: usize = 65_536;
const PAUSE: Duration = Duration::from_millis(10);

/// What is done with the messages.
#[derive(Debug)]
pub(in crate::broker) enum Work {
    /// They are removed.
    Purge,
    /// They are shown.
    Peek {
        /// Those that consumers have as well.
        with_held: bool,
        /// So far.
        found: Vec<Peeked>,
    },
    /// One is shown, whoever has it.
    Show {
        /// Why it is where it is.
        why: Vec<Why>,
    },
    /// They go to another queue.
    Move {
        /// That queue; none: where each died last.
        to: Option<(usize, QueueId)>,
        /// Only those that died there last.
        only_from: Option<String>,
    },
}

#[derive(Debug)]
struct Job {
    asker: Asker,
    queue: (usize, QueueId),
    work: Work,
    /// The next position to look at.
    from: u64,
    /// Where the queue ended.
    upto: u64,
    /// Messages that may still be touched.
    left: u64,
    done: u64,
    /// Bytes of payload shown.
    bytes: usize,
    /// Bodies that are being fetched.
    asked: Option<Span>,
    /// Bodies that came.
    bodies: VecDeque<(u64, Arc<Message>)>,
    /// Why the first message stayed where it was that the other queue's schema does not let in.
    unfit: Option<Refusal>,
}

/// All jobs.
#[derive(Debug, Default)]
pub(in crate::broker) struct Jobs {
    jobs: BTreeMap<u64, Job>,
    next: u64,
    /// When the next slice is due.
    due: Option<Duration>,
}

impl Jobs {
    /// When [`Broker::run_jobs`] is to be called.
    pub(in crate::broker) fn poll_timeout(&self) -> Option<Duration> {
        self.due
    }
}

/// How a step ended.
enum Step {
    /// On to the next position.
    Next,
    /// All done, or as much as can be.
    End,
    /// A body is on its way.
    Wait,
}

impl Broker {
    pub(super) fn start_job(
        &mut self,
        now: Now,
        asker: Asker,
        slot: usize,
        from: u64,
        limit: u64,
        work: Work,
    ) -> Result<Done, Refusal> {
        if self.jobs.jobs.len() >= JOBS_MAX {
            return Err(Refusal {
                reason: Reason::LimitExceeded,
                text: "too many such requests are being served; try again".to_owned(),
            });
        }
        let queue = &self.queues[slot];
        let job = Job {
            asker,
            queue: (slot, queue.id),
            work,
            from,
            upto: queue.backlog.next_seq(),
            left: limit,
            done: 0,
            bytes: 0,
            asked: None,
            bodies: VecDeque::new(),
            unfit: None,
        };
        let id = self.jobs.next;
        self.jobs.next += 1;
        self.jobs.jobs.insert(id, job);
        self.run_job(now, id);
        Ok(Done::Later)
    }

    /// One more slice of every job that does not wait for bodies.
    pub(in crate::broker) fn run_jobs(&mut self, now: Now) {
        if self.jobs.due.is_none_or(|due| due > now.mono) {
            return;
        }
        self.jobs.due = None;
        let ready = self.jobs.jobs.iter().filter(|(_, job)| job.asked.is_none());
        for id in ready.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.run_job(now, id);
        }
    }

    fn run_job(&mut self, now: Now, id: u64) {
        let Some(mut job) = self.jobs.jobs.remove(&id) else {
            return;
        };
        let is_busy = self.gate.open_len() >= OPEN_OPS_MAX;
        let slice = if is_busy { 0 } else { SLICE_LEN };
        for _ in 0..slice {
            match self.step(now.clock(), &mut job) {
                Step::Next => {}
                Step::End => return self.end_job(job),
                Step::Wait => {
                    self.jobs.jobs.insert(id, job);
                    return;
                }
            }
        }
        let at = if is_busy { now.mono + PAUSE } else { now.mono };
        let due = self.jobs.due.map_or(at, |due| due.min(at));
        self.jobs.due = Some(due);
        self.jobs.jobs.insert(id, job);
    }

    fn step(&mut self, at: Clock, job: &mut Job) -> Step {
        let (slot, id) = job.queue;
        if job.left == 0 || !self.is_queue(slot, id) || self.queues[slot].is_damaged {
            return Step::End;
        }
        let backlog = &self.queues[slot].backlog;
        let seq = match job.work {
            Work::Show { .. } => Some(job.from).filter(|seq| backlog.copy(*seq).is_some()),
            Work::Peek {
                with_held: true, ..
            } => backlog.live_from(job.from),
            _ => backlog.waiting_from(job.from),
        };
        let Some(seq) = seq.filter(|seq| *seq < job.upto) else {
            return Step::End;
        };
        if matches!(job.work, Work::Purge) {
            self.remove_entry(slot, seq);
            job.take(seq);
            return Step::Next;
        }
        let is_away = backlog.away_len(seq).is_some();
        let body = is_away.then(|| job.body(seq)).flatten();
        if is_away && body.is_none() {
            let span = backlog.span_to_read(seq, READ_SHARE);
            job.asked = Some(span);
            self.actions.push_back(fetch(id, span));
            return Step::Wait;
        }
        match job.work {
            Work::Move { .. } => self.step_move(at, job, seq, body),
            _ => self.step_show(at, job, seq, body),
        }
    }

    fn step_show(
        &mut self,
        at: Clock,
        job: &mut Job,
        seq: u64,
        body: Option<Arc<Message>>,
    ) -> Step {
        let queue = &self.queues[job.queue.0];
        let Some(mut entry) = queue.backlog.copy(seq) else {
            return Step::End;
        };
        if entry.is_expired(at) && !entry.is_acquired {
            job.from = seq + 1;
            return Step::Next;
        }
        let message = body.unwrap_or_else(|| entry.body());
        let peeked = Peeked {
            queue: Arc::clone(&queue.spec),
            position: seq,
            delivery_count: entry.delivery_count,
            is_held: entry.is_acquired,
            is_delayed: entry.why == Aside::Early,
            ttl_ms: (entry.expires_ms != NEVER_MS)
                .then(|| entry.expires_ms.saturating_sub(at.mono_ms)),
            annotations: entry.extra.take().and_then(|extra| extra.annotations),
            message,
        };
        job.bytes += peeked.message.payload.len();
        let is_full = job.bytes > PEEK_BYTES_MAX && job.done > 0;
        match &mut job.work {
            Work::Peek { found, .. } if !is_full => found.push(peeked),
            Work::Show { why } => {
                let why = std::mem::take(why);
                let message = Box::new(peeked);
                self.answer(job.asker, Reply::Message { message, why }, false);
                job.done = 1;
                return Step::End;
            }
            _ => return Step::End,
        }
        job.take(seq);
        Step::Next
    }

    fn step_move(
        &mut self,
        at: Clock,
        job: &mut Job,
        seq: u64,
        body: Option<Arc<Message>>,
    ) -> Step {
        let Work::Move { to, only_from } = &job.work else {
            return Step::End;
        };
        let slot = job.queue.0;
        let Some(mut entry) = self.queues[slot].backlog.copy(seq) else {
            return Step::End;
        };
        entry.message = entry.message.or(body);
        let message = entry.body();
        let died_in = message.envelope.deaths.as_ref();
        let died_in = died_in.and_then(|deaths| deaths.list.first());
        if let Some(only) = only_from
            && died_in.is_none_or(|death| death.queue != *only)
        {
            job.from = seq + 1;
            return Step::Next;
        }
        let target = match to {
            Some((to, id)) => self.is_queue(*to, *id).then_some(*to),
            None => died_in.and_then(|death| self.queue_names.get(death.queue.as_str()).copied()),
        };
        let Some(target) = target.filter(|target| *target != slot) else {
            if to.is_some() {
                return Step::End;
            }
            job.from = seq + 1;
            return Step::Next;
        };
        let mut targets = SmallVec::from_buf([target]);
        self.with_groups_of(&mut targets);
        // A group of the other queue may be where it is.
        targets.retain(|target| *target != slot);
        if let Err(unfit) = self.vet_anew(target, RuleId::NONE, &message) {
            job.unfit.get_or_insert(unfit);
            job.from = seq + 1;
            return Step::Next;
        }
        if targets.is_empty() || !self.takes_moved(&targets, &message) {
            return Step::End;
        }
        self.relocate(at, slot, seq, &targets, entry);
        job.take(seq);
        Step::Next
    }

    /// Whether queues have room for a message of another one.
    fn takes_moved(&self, targets: &[usize], message: &Message) -> bool {
        let keeps = |slot: &usize| self.queues[*slot].keeps(&message.envelope);
        let cost = message.cost().saturating_mul(targets.len());
        targets
            .iter()
            .all(|slot| self.queues[*slot].takes(message.payload.len()))
            && self.bytes.saturating_add(cost) <= self.config.limits.memory_max_bytes
            && !(self.is_disk_short && targets.iter().any(keeps))
    }

    /// Takes a message out of its queue and lays it into others, in one batch. What is left of its times goes along.
    fn relocate(&mut self, at: Clock, slot: usize, seq: u64, targets: &[usize], copy: Entry) {
        let due_ms = self.queues[slot].backlog.due_of(seq);
        if self.remove_entry(slot, seq).is_none() {
            return;
        }
        let body = copy.body();
        let mut envelope = body.envelope.clone();
        envelope.delivery_count = 0;
        envelope.ttl_ms = (copy.expires_ms != NEVER_MS)
            .then(|| copy.expires_ms.saturating_sub(at.mono_ms).max(1));
        if let Some(mut wishes) = envelope.wishes.take() {
            // The moment was rounded up when it came.
            let left_ms = due_ms.map(|due_ms| due_ms.saturating_sub(at.mono_ms + 1).max(1));
            wishes.delay = left_ms.filter(|_| wishes.delay.is_some()).map(Delay::For);
            envelope.wishes = wishes.some();
        }
        let message = Message {
            envelope,
            format: body.format,
            payload: body.payload.clone(),
        };
        self.lay(at, targets, &message.share(), &copy);
    }

    fn end_job(&mut self, job: Job) {
        let (slot, id) = job.queue;
        let is_there = self.is_queue(slot, id);
        if is_there && self.queues[slot].is_damaged && !matches!(job.work, Work::Purge) {
            let refusal = damaged(&self.queues[slot].spec.name);
            return self.answer(job.asker, Reply::Refused(refusal), false);
        }
        let gone = || {
            Reply::Refused(Refusal {
                reason: Reason::NotFound,
                text: "the queue or the message was deleted meanwhile".to_owned(),
            })
        };
        let left = if is_there {
            self.queues[slot].backlog.waiting() as u64
        } else {
            0
        };
        let (reply, is_change) = match job.work {
            Work::Purge => (Reply::Purged { messages: job.done }, true),
            Work::Move { .. } if job.done == 0 && job.left > 0 && self.is_stuck(&job) => {
                (Reply::Refused(no_room()), false)
            }
            Work::Move { .. } if job.done == 0 && job.unfit.is_some() => {
                (job.unfit.map_or_else(gone, Reply::Refused), false)
            }
            Work::Move { .. } => {
                let moved = job.done;
                (Reply::Moved { moved, left }, true)
            }
            Work::Peek { found, .. } if is_there => (Reply::Messages(found), false),
            // It was answered.
            Work::Show { .. } if job.done > 0 => return,
            Work::Peek { .. } | Work::Show { .. } => (gone(), false),
        };
        self.answer(job.asker, reply, is_change);
    }

    /// Whether a move ended before what it was to move.
    fn is_stuck(&self, job: &Job) -> bool {
        let (slot, id) = job.queue;
        self.is_queue(slot, id)
            && self.queues[slot]
                .backlog
                .waiting_from(job.from)
                .is_some_and(|seq| seq < job.upto)
    }

    /// Whether some job waits for these bodies.
    pub(in crate::broker) fn has_job_for(&self, queue: QueueId, span: Span) -> bool {
        let mut jobs = self.jobs.jobs.values();
        jobs.any(|job| job.queue.1 == queue && job.asked == Some(span))
    }

    /// Bodies came for a job, if one still waits for them.
    pub(in crate::broker) fn feed_job(
        &mut self,
        now: Now,
        queue: QueueId,
        span: Span,
        messages: Vec<(Seq, Arc<Message>)>,
    ) {
        let waits = |job: &Job| job.queue.1 == queue && job.asked == Some(span);
        let mut jobs = self.jobs.jobs.iter_mut();
        let Some((id, job)) = jobs.find(|(_, job)| waits(job)) else {
            return;
        };
        let id = *id;
        job.asked = None;
        let from = job.from;
        let wanted = messages.into_iter().filter(|(seq, _)| seq.0 >= from);
        job.bodies = wanted.map(|(seq, message)| (seq.0, message)).collect();
        self.run_job(now, id);
    }

    /// A queue is gone or cannot be read: its jobs wait for nothing any more.
    pub(in crate::broker) fn wake_jobs(&mut self, queue: QueueId) {
        for job in self.jobs.jobs.values_mut() {
            if job.queue.1 == queue && job.asked.take().is_some() {
                self.jobs.due = Some(Duration::ZERO);
            }
        }
    }
}

impl Job {
    /// One message is done with.
    fn take(&mut self, seq: u64) {
        self.from = seq + 1;
        self.left -= 1;
        self.done += 1;
    }

    /// The body of a position, if it came.
    fn body(&mut self, seq: u64) -> Option<Arc<Message>> {
        while let Some((at, message)) = self.bodies.pop_front_if(|(at, _)| *at <= seq) {
            if at == seq {
                return Some(message);
            }
        }
        None
    }
}

fn no_room() -> Refusal {
    Refusal {
        reason: Reason::LimitExceeded,
        text: "the other queue, the memory or the disk is full, or the other queue was deleted"
            .to_owned(),
    }
}
