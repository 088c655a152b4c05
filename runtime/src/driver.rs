//! The broker's task: events in, actions out, and the order of going down.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use qq_core::broker::{Action, Broker, Event, Now};
use qq_core::store::StoreEvent;
use qq_core::vocab::{ConnId, Reason, Refusal};

use crate::config::RuntimeError;
use crate::post::{Letter, Mail, Mailbox};
use crate::shared::Shared;
use crate::shutdown::Shutdown;
use crate::store::StorePort;
use crate::watch::Watch;

/// How long connections get to say their last words.
const CLOSE_GRACE: Duration = Duration::from_secs(2);

enum Phase {
    Serving,
    /// Nothing is accepted or newly delivered; unsettled deliveries may still be settled.
    Draining {
        until: Duration,
    },
    /// Every face was told to close.
    Closing {
        until: Duration,
    },
}

/// The broker and who it talks to.
pub struct Driver {
    broker: Broker,
    store: StorePort,
    watch: Watch,
    shared: Arc<Shared>,
    shutdown: Shutdown,
    drain_grace: Duration,
    letters: Vec<Letter>,
    mailboxes: HashMap<ConnId, Arc<Mailbox>>,
    phase: Phase,
    failure: Option<String>,
}

impl Driver {
    pub(crate) fn new(
        broker: Broker,
        store: StorePort,
        shared: Arc<Shared>,
        shutdown: Shutdown,
        drain_grace: Duration,
    ) -> Self {
        Self {
            broker,
            store,
            watch: Watch::default(),
            shared,
            shutdown,
            drain_grace,
            letters: Vec::new(),
            mailboxes: HashMap::new(),
            phase: Phase::Serving,
            failure: None,
        }
    }

    /// One turn; ready when every connection is closed. A broker that panics cannot be trusted with another event:
    /// the process ends, and the next one starts from the store.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        catch_unwind(AssertUnwindSafe(|| self.poll_turn(cx))).unwrap_or_else(|_| {
            log::error!(
                "the broker panicked; the process ends so that it can restart from its store"
            );
            log::logger().flush();
            std::process::abort()
        })
    }

    /// When [`Driver::poll`] wants to be called next, if nothing wakes it before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        let phase = match self.phase {
            Phase::Serving => None,
            Phase::Draining { until } | Phase::Closing { until } => Some(until),
        };
        [self.broker.poll_timeout(), self.store.poll_timeout(), phase]
            .into_iter()
            .flatten()
            .min()
    }

    /// Makes everything safe and tells how the run ended.
    ///
    /// # Errors
    /// When the broker gave up or the store could not be flushed.
    pub fn finish(self) -> Result<(), RuntimeError> {
        self.shared.operators.disconnect();
        let closed = self.store.close();
        match self.failure {
            Some(text) => Err(RuntimeError::Failed(text)),
            None => Ok(closed?),
        }
    }

    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now = self.shared.clock.now();
        let mut letters = std::mem::take(&mut self.letters);
        self.shared.inbox.poll_take(cx, &mut letters);
        for letter in letters.drain(..) {
            self.handle_letter(now, letter);
        }
        self.letters = letters;
        if self.broker.poll_timeout().is_some_and(|at| at <= now.mono) {
            self.broker.handle_timeout(now);
        }
        self.watch.handle_timeout(now.mono);
        self.run_broker(now);
        self.poll_phase(cx, now)
    }

    fn handle_letter(&mut self, now: Now, letter: Letter) {
        match letter {
            Letter::Event(event) => {
                if let Event::Store(StoreEvent::Persisted { upto }) = event {
                    self.watch.on_persisted(now.mono, upto);
                }
                self.broker.handle_event(now, event);
            }
            Letter::Join(conn, mailbox) => {
                self.mailboxes.insert(conn, mailbox);
                self.broker.handle_event(now, Event::Connected { conn });
            }
            Letter::Leave(conn) => {
                if self.mailboxes.remove(&conn).is_some() {
                    self.broker.handle_event(now, Event::Disconnected { conn });
                }
            }
        }
    }

    /// Until the broker has nothing to say and the store nothing to answer at once.
    fn run_broker(&mut self, now: Now) {
        loop {
            self.broker.flush(now);
            while let Some(action) = self.broker.poll_action() {
                self.execute(now, action);
            }
            let answers = self.store.answers(now.mono);
            if answers.is_empty() {
                return;
            }
            for answer in answers {
                self.broker.handle_event(now, Event::Store(answer));
            }
        }
    }

    fn execute(&mut self, now: Now, action: Action) {
        match action {
            Action::Persist(batch) => {
                // A store in place answers before anybody could wait.
                if self.store.has_thread() {
                    self.watch.on_persist(now.mono, batch.id);
                }
                self.store.ask(|jobs| jobs.batches.push(batch));
            }
            Action::Fetch(fetch) => self.store.ask(|jobs| jobs.fetches.push(fetch)),
            Action::Notify { conn, notices } => self.send(conn, Mail::Notices(notices)),
            Action::Reply { ticket, reply } => self.shared.operators.answer(ticket, *reply),
            Action::Disconnect { conn, refusal } => self.send(conn, Mail::Shutdown(refusal)),
            Action::Fail { text } => {
                if self.failure.is_none() {
                    log::error!("{text}; going down");
                    self.close(
                        now,
                        Refusal {
                            reason: Reason::Internal,
                            text: text.clone(),
                        },
                    );
                    self.failure = Some(text);
                    self.shutdown.trigger();
                }
            }
        }
    }

    /// A connection that is gone needs nothing.
    fn send(&self, conn: ConnId, mail: Mail) {
        if let Some(mailbox) = self.mailboxes.get(&conn) {
            mailbox.push(mail);
        }
    }

    fn close(&mut self, now: Now, refusal: Refusal) {
        self.shared.admission().shutdown(&refusal);
        self.phase = Phase::Closing {
            until: now.mono + CLOSE_GRACE,
        };
    }

    /// Goes through the phases of going down as their time comes. Ready when it is over.
    fn poll_phase(&mut self, cx: &mut Context<'_>, now: Now) -> Poll<()> {
        let level = self.shutdown.poll_level(cx);
        if matches!(self.phase, Phase::Serving) && level > 0 {
            log::info!("draining {} connections", self.shared.admission().open());
            self.broker.drain();
            self.phase = Phase::Draining {
                until: now.mono + self.drain_grace,
            };
        }
        if let Phase::Draining { until } = self.phase
            && (level > 1 || until <= now.mono || self.broker.is_drained())
        {
            let text = "the node is going down; connect again".into();
            self.close(
                now,
                Refusal {
                    reason: Reason::Shutdown,
                    text,
                },
            );
        }
        match self.phase {
            Phase::Closing { until }
                if until <= now.mono || self.shared.admission().open() == 0 =>
            {
                Poll::Ready(())
            }
            Phase::Serving | Phase::Draining { .. } | Phase::Closing { .. } => Poll::Pending,
        }
    }
}
