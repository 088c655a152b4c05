//! The AMQP 1.0 face: glues [`Connection`] to the broker's vocabulary.
//!
//! Upward, deliveries become publishes, attaches become producers and consumers, dispositions become settlements.
//! Downward, notices become attaches, transfers, dispositions and flows. Two windows live here: publishers get credit
//! back only when their messages are answered, and the broker gets permits in slices as output drains, so that
//! neither side can fill the memory of the node.

mod attach;
mod consume;
mod death;
mod deliver;
mod manage;
mod outcome;
mod ports;
mod produce;
mod publish;
mod refusal;
mod report;
mod stream;
mod txn;
mod wishes;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use qq_proto_amqp::connection::{Config, Connection, Event, LinkId, SaslCode, Side};
use qq_proto_amqp::performative::{Attach, Role, TargetKind};
use qq_proto_amqp::types::Symbol;

use super::{Authenticate, Face, Login, LoginAnswer, LoginStep, PeerInfo};
use crate::broker::{Now, QueueSpec};
use crate::planted::{Bug, is_planted};
use crate::vocab::{Command, DeliveryId, Note, Notice, Outcome, Port, Reason, Refusal};
use deliver::Head;
use ports::{PortState, Ports};

pub(super) use publish::message_of;
pub use txn::TxnLimits;

/// How faces of one listener behave.
pub struct AmqpConfig {
    /// The protocol machine's bounds and announcements.
    pub connection: Config,
    /// Messages that a publisher may have without an answer, per link.
    pub credit_max: u32,
    /// Deliveries that the broker may hand over ahead of the socket, per link.
    pub permit_slice: u32,
    /// Publishes without an answer per connection, above which reading stops.
    pub unanswered_max: usize,
    /// Their bytes.
    pub unanswered_bytes_max: usize,
    /// How many transactions and for how long.
    pub txns: TxnLimits,
    /// Senders that ask for the receiver settle mode second get it. Otherwise they get the first, which all understand;
    /// some ask for the second and never take its last step.
    pub senders_second: bool,
    /// What queues are like that are declared through `$management`, where the request does not say.
    pub queue_defaults: QueueSpec,
    /// Who may come in.
    pub authenticate: Authenticate,
}

/// One AMQP 1.0 peer.
pub struct AmqpFace {
    conn: Connection,
    config: Arc<AmqpConfig>,
    peer: PeerInfo,
    container: Bytes,
    /// Who logged in.
    user: Option<String>,
    commands: Vec<Command>,
    ports: Ports,
    head: Head,
    txns: txn::Txns,
    manage: manage::Management,
    /// Consumers whose permit, and links whose answers, wait for output to drain.
    thirsty: Vec<Port>,
    unanswered: usize,
    unanswered_bytes: usize,
    /// Open sessions.
    sessions: u32,
    is_pressed: bool,
    is_authenticated: bool,
    /// Mechanism of a login that takes several steps, and who decides about the next.
    login_step: Option<(Symbol, LoginStep)>,
    /// When the peer is to hear that its login was denied.
    denial_due: Option<Duration>,
    /// The peer went without a close: what it held counts as failed.
    is_lost: bool,
}

impl AmqpFace {
    /// A face for a peer that just connected.
    #[must_use]
    pub fn new(now: Now, peer: PeerInfo, config: Arc<AmqpConfig>) -> Self {
        Self {
            conn: Connection::new(Side::Server, config.connection.clone(), now.mono),
            config,
            peer,
            container: Bytes::new(),
            user: None,
            commands: Vec::new(),
            ports: Ports::default(),
            head: Head::default(),
            txns: txn::Txns::default(),
            manage: manage::Management::default(),
            thirsty: Vec::new(),
            unanswered: 0,
            unanswered_bytes: 0,
            sessions: 0,
            is_pressed: false,
            is_authenticated: false,
            login_step: None,
            denial_due: None,
            is_lost: false,
        }
    }

    fn drain_events(&mut self, now: Now) {
        while let Some(event) = self.conn.poll_event() {
            self.on_event(now, event);
        }
    }

    fn on_event(&mut self, now: Now, event: Event) {
        match event {
            Event::Delivery {
                link,
                delivery,
                settled,
                message_format,
                payload,
                state,
                ..
            } => {
                let delivery = (!settled).then_some(delivery);
                self.on_delivery(now, link, delivery, state, message_format, payload);
            }
            Event::Outcome {
                link,
                token,
                state,
                settled,
            } => self.on_outcome(now, link, token, state.as_ref(), settled),
            Event::IncomingSettled { link, delivery } => self.on_finished(link, delivery),
            Event::Flow { link, drain, .. } => self.on_flow(link, drain),
            Event::Attached { link, attach, .. } => self.on_attached(link, attach),
            Event::LinkClosed { link, closed, .. } => self.on_link_closed(link, closed),
            Event::SaslInit {
                mechanism,
                response,
                ..
            } => self.on_login(now, mechanism, &response),
            Event::SaslResponse { response } => {
                if let Some((mechanism, _)) = &self.login_step {
                    self.on_login(now, mechanism.clone(), &response);
                }
            }
            Event::Opened => self.on_opened(),
            Event::Closed { error } => {
                self.denial_due = None;
                log::debug!(
                    "{}: closed: {:?}",
                    self.peer.address,
                    error.map(|error| error.condition)
                );
            }
            Event::SessionBegun(_) => self.note_sessions(self.sessions.saturating_add(1)),
            Event::SessionEnded { .. } => self.note_sessions(self.sessions.saturating_sub(1)),
            Event::LinkAccepted { .. }
            | Event::LinkState { .. }
            | Event::SaslChallenge { .. }
            | Event::SaslDone { .. } => {}
        }
    }

    fn note_sessions(&mut self, open: u32) {
        self.sessions = open;
        self.commands.push(Command::Note(Note::Sessions(open)));
    }

    /// Asks who decides, which is the configuration's hook at first and then whoever that names.
    fn on_login(&mut self, now: Now, mechanism: Symbol, response: &[u8]) {
        let login = Login {
            now,
            peer: &self.peer,
            mechanism: mechanism.as_str(),
            response,
        };
        let answer = match self.login_step.take() {
            Some((_, step)) => (step.0)(&login),
            None => (self.config.authenticate)(&login),
        };
        if matches!(answer, LoginAnswer::Accepted) && mechanism.as_str() == "PLAIN" {
            let user = response.split(|byte| *byte == 0).nth(1).unwrap_or_default();
            self.user = Some(String::from_utf8_lossy(user).into_owned());
        }
        match answer {
            LoginAnswer::Accepted => self.conn.sasl_outcome(SaslCode::Ok),
            LoginAnswer::AcceptedWith { additional_data } => {
                if let Err(error) = self.conn.sasl_accept(additional_data) {
                    log::error!("{}: the answer to a login: {error}", self.peer.address);
                    self.conn.sasl_outcome(SaslCode::SysPerm);
                }
            }
            LoginAnswer::Challenge { challenge, next } => {
                // Too large when the peer's own part of it is: its nonce comes back in the challenge.
                if let Err(error) = self.conn.sasl_challenge(challenge) {
                    log::debug!("{}: a challenge: {error}", self.peer.address);
                    return self.deny_login();
                }
                self.login_step = Some((mechanism, next));
            }
            LoginAnswer::Denied { delay } if delay.is_zero() => self.deny_login(),
            LoginAnswer::Denied { delay } => {
                self.denial_due = Some(now.mono.saturating_add(delay));
            }
        }
    }

    fn deny_login(&mut self) {
        log::debug!("{}: login denied", self.peer.address);
        self.denial_due = None;
        self.conn.sasl_outcome(SaslCode::Auth);
    }

    fn on_opened(&mut self) {
        if let Some(open) = self.conn.remote_open() {
            self.container = Bytes::copy_from_slice(open.container_id.as_bytes());
        }
        self.is_authenticated = true;
        self.describe();
        self.conn.open();
    }

    fn on_attached(&mut self, link: LinkId, attach: Box<Attach>) {
        match attach.role {
            Role::Sender if matches!(attach.target, Some(TargetKind::Coordinator(_))) => {
                self.open_coordinator(link, *attach);
            }
            Role::Sender if manage::is_meant(&attach) => self.open_manager(link, *attach),
            Role::Receiver if manage::is_meant(&attach) => self.open_replies(link, *attach),
            Role::Sender => self.open_producer(link, attach),
            Role::Receiver => self.open_consumer(link, attach),
        }
    }

    fn refuse_link(&mut self, link: LinkId, refusal: &Refusal) {
        log::debug!("{}: link refused: {}", self.peer.address, refusal.text);
        // Fails only when the connection is closing: nobody waits for the answer.
        let _ = self.conn.refuse_link(link, refusal::error_of(refusal));
    }

    fn on_link_closed(&mut self, link: LinkId, closed: bool) {
        let Some(port) = self.ports.entry_of(link).map(|entry| entry.port) else {
            return;
        };
        self.roll_back_all(port);
        let entry = self.forget_port(port);
        if let Some(entry) = entry.filter(|entry| !entry.state.is_of_broker()) {
            return self.end_management(entry.state);
        }
        self.commands.push(Command::Close {
            port,
            forget: closed,
            lost: self.is_lost,
        });
    }

    /// Takes a port out of the table and its unanswered publishes out of the window.
    fn forget_port(&mut self, port: Port) -> Option<ports::PortEntry> {
        let entry = self.ports.remove(port)?;
        if let PortState::Producer(producer) = &entry.state {
            for unanswered in producer
                .unanswered
                .iter()
                .filter(|unanswered| !unanswered.is_answered)
            {
                self.unanswered -= 1;
                self.unanswered_bytes -= unanswered.cost as usize;
            }
        }
        Some(entry)
    }

    fn on_notice(&mut self, notice: Notice) {
        match notice {
            Notice::Deliver { port, delivered } => self.on_deliver(port, delivered),
            Notice::Confirm {
                port,
                first,
                last,
                verdict,
            } => self.on_confirm(port, first, last, &verdict),
            Notice::Drained { port, .. } => self.on_drained(port),
            Notice::Discharged { txn, fault } => self.on_discharged(txn, fault.as_deref()),
            Notice::Settled { port, first, last } => self.on_settled(port, first, last),
            Notice::Activity { port, is_active } => self.on_activity(port, is_active),
            Notice::LockLost { port, first, last } => self.on_lock_lost(port, first, last),
            Notice::ProducerOpened { port, opened } => self.on_producer_opened(port, &opened),
            Notice::ConsumerOpened { port, opened } => self.on_consumer_opened(port, &opened),
            Notice::Refused { port, refusal } => {
                if let Some(entry) = self.forget_port(port) {
                    self.refuse_link(entry.link, &refusal);
                }
            }
            Notice::Closed { port, refusal } => {
                if let Some(entry) = self.forget_port(port) {
                    // Fails only when the peer's detach crossed this notice: then there is nothing left to say.
                    let _ = self
                        .conn
                        .detach(entry.link, true, Some(refusal::error_of(&refusal)));
                }
            }
            Notice::Ruled { port, rule } => self.on_ruled(port, rule),
            // Nothing was asked.
            Notice::Answered { .. } => {}
            Notice::Managed { ticket, reply } => self.on_managed(ticket, *reply),
            Notice::Report { ticket } => self.report(ticket),
            Notice::Pressure { on } => self.on_pressure(on),
        }
    }
}

impl Face for AmqpFace {
    fn handle_input(&mut self, now: Now, input: &mut BytesMut) {
        self.conn.handle_input(now.mono, input);
        self.drain_events(now);
    }

    fn handle_notices(&mut self, now: Now, notices: &mut Vec<Notice>) {
        for notice in notices.drain(..) {
            self.on_notice(notice);
        }
        self.drain_events(now);
    }

    fn handle_eof(&mut self, now: Now) {
        self.is_lost = true;
        self.conn.handle_eof(now.mono);
        self.drain_events(now);
    }

    fn handle_timeout(&mut self, now: Now) {
        // First, so that the machine knows the time when the denial starts its lingering.
        self.conn.handle_timeout(now.mono);
        if self.denial_due.is_some_and(|due| due <= now.mono) {
            self.deny_login();
        }
        self.expire_txns(now);
        self.drain_events(now);
    }

    fn handle_shutdown(&mut self, now: Now, refusal: &Refusal) {
        let error = match refusal.reason {
            Reason::Shutdown => {
                refusal::error(qq_proto_amqp::condition::CONNECTION_FORCED, &refusal.text)
            }
            _ => refusal::error_of(refusal),
        };
        self.conn.close(Some(error));
        self.drain_events(now);
    }

    fn poll_commands(&mut self, commands: &mut Vec<Command>) {
        commands.append(&mut self.commands);
    }

    fn poll_transmit(&mut self, now: Now, out: &mut VecDeque<Bytes>, budget: usize) -> usize {
        let written = self.conn.poll_transmit(now.mono, out, budget);
        if self.thirsty.is_empty() {
            return written;
        }
        for port in std::mem::take(&mut self.thirsty) {
            self.update_permit(port);
            self.pump_replies(port);
        }
        // What waited for room may go along: nobody asks again before something else happens.
        match written {
            0 => self.conn.poll_transmit(now.mono, out, budget),
            _ => written,
        }
    }

    fn poll_timeout(&self) -> Option<Duration> {
        [self.conn.poll_timeout(), self.denial_due, self.txns_due()]
            .into_iter()
            .flatten()
            .min()
    }

    fn wants_read(&self) -> bool {
        self.conn.wants_read()
            && self.unanswered < self.config.unanswered_max
            && self.unanswered_bytes < self.config.unanswered_bytes_max
    }

    fn is_authenticated(&self) -> bool {
        self.is_authenticated
    }

    fn is_done(&self) -> bool {
        self.conn.is_done()
    }
}

/// Appends that a delivery is still worked on, as part of the last one when it continues it: a peer may say so of all
/// that it holds, in a frame of 30 bytes.
fn push_extend(commands: &mut Vec<Command>, port: Port, token: u64) {
    if let Some(Command::Extend {
        port: last_port,
        last,
        lock_ms: None,
        ask: None,
        ..
    }) = commands.last_mut()
        && *last_port == port
        && last.0 + 1 == token
    {
        last.0 = token;
        return;
    }
    let delivery = DeliveryId(token);
    commands.push(Command::Extend {
        port,
        first: delivery,
        last: delivery,
        lock_ms: None,
        ask: None,
    });
}

/// Appends a settlement, as part of the last one when it continues it.
fn push_settle(
    commands: &mut Vec<Command>,
    port: Port,
    token: u64,
    outcome: Outcome,
    confirm: bool,
) {
    if let Some(Command::Settle {
        port: last_port,
        last,
        outcome: last_outcome,
        confirm: last_confirm,
        ..
    }) = commands.last_mut()
        && *last_port == port
        && (last.0 + 1 == token || is_planted(Bug::RangeTooWide) && last.0 + 2 == token)
        && *last_confirm == confirm
        && matches!(
            (&*last_outcome, &outcome),
            (Outcome::Accepted, Outcome::Accepted) | (Outcome::Released, Outcome::Released)
        )
    {
        last.0 = token;
        return;
    }
    let delivery = DeliveryId(token);
    commands.push(Command::Settle {
        port,
        first: delivery,
        last: delivery,
        outcome,
        confirm,
    });
}
