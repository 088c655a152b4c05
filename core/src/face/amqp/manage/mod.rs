//! The node `$management`: operators' requests over AMQP (docs/management.md).
//!
//! A peer sends requests on a link to the node and receives answers on a link from it, or through any queue that
//! `reply-to` names. The links end here; what is asked goes to the broker in the vocabulary that HTTP speaks as well.
//!
//! Nothing piles up: a request holds its credit until its answer is on its way, an answer waits for the credit of its
//! receiver and for room in the output, and goes with its link. A long answer is not kept waiting at all.

mod answer;
mod ask;
mod json;
mod list;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use qq_proto_amqp::condition;
use qq_proto_amqp::connection::{IncomingId, LinkId, LinkReply, OutgoingDelivery};
use qq_proto_amqp::performative::{
    Attach, DeliveryState, RcvSettleMode, SndSettleMode, Source, Target, TargetKind,
};
use qq_proto_amqp::types::{Str, Value};

use super::attach::refusal;
use super::deliver::tag_of;
use super::ports::PortState;
use super::{AmqpFace, publish, refusal as words};
use crate::admin::{PublishTo, Reply, Request};
use crate::broker::MANAGEMENT_NODE;
use crate::vocab::{Command, Port, Reason};
use answer::Answer;
use ask::{Asked, Kind, Letter, Unanswerable};
use list::{Listing, Step};

/// Requests of one link that may be without an answer.
const CREDIT: u32 = 16;
/// Links of one connection that send requests.
const MANAGERS_MAX: usize = 4;
/// Largest request.
const REQUEST_BYTES_MAX: u64 = 64 << 10;
/// Answers of one link that the peer has not settled, above which the next one waits.
const UNSETTLED_MAX: usize = 64;
/// Output of the connection above which answers wait.
const AHEAD_BYTES_MAX: usize = 1 << 20;
/// Bytes of answers that wait, of all links, above which long ones are not kept.
const WAITING_BYTES_MAX: usize = 1 << 20;
/// What is not long.
const SHORT_BYTES: usize = 4 << 10;

/// What a connection has asked and not been told.
#[derive(Debug, Default)]
pub(super) struct Management {
    next_ticket: u64,
    pending: BTreeMap<u64, Pending>,
    /// Links that send requests.
    managers: usize,
    /// Bytes of answers that wait for their receivers.
    waiting_bytes: usize,
}

/// A request without an answer.
#[derive(Debug)]
struct Pending {
    /// The link that it came by.
    manager: Port,
    reply_to: ReplyTo,
    correlation: Option<Value>,
    stage: Stage,
}

/// Where an answer goes.
#[derive(Clone, Debug)]
enum ReplyTo {
    /// A link from the node.
    Link(Port, String),
    /// A queue.
    Queue(String),
}

/// What the broker is at.
#[derive(Debug)]
enum Stage {
    /// The request itself.
    One(Kind),
    /// A look at the stream that the request is about.
    Look(Box<Request>),
    /// A page of a list.
    List(Box<Listing>),
    /// The answer, which goes into a queue.
    Tell,
}

/// A link from the node.
#[derive(Debug)]
pub(super) struct Replies {
    /// The peer's address of it.
    address: Option<String>,
    is_settled: bool,
    /// Largest message that the peer takes; 0 = any.
    message_size_max: u64,
    is_draining: bool,
    next_token: u64,
    unsettled: BTreeSet<u64>,
    /// Answers, and the links by which their requests came.
    waiting: VecDeque<(Bytes, Port)>,
}

/// Whether an address is the node's.
fn is_node(address: Option<&Value>) -> bool {
    matches!(address, Some(Value::Str(text)) if text.as_str() == MANAGEMENT_NODE)
}

/// Whether a link of the peer ends in the node.
pub(super) fn is_meant(attach: &Attach) -> bool {
    match attach.role {
        qq_proto_amqp::performative::Role::Sender => {
            matches!(&attach.target, Some(TargetKind::Target(target)) if is_node(target.address.as_ref()))
        }
        qq_proto_amqp::performative::Role::Receiver => {
            (attach.source.as_ref()).is_some_and(|source| is_node(source.address.as_ref()))
        }
    }
}

fn node_address() -> Option<Value> {
    Some(Value::Str(Str::from_static(MANAGEMENT_NODE)))
}

impl AmqpFace {
    /// A link to the node, on which requests come.
    pub(super) fn open_manager(&mut self, link: LinkId, attach: Attach) {
        if self.manage.managers >= MANAGERS_MAX {
            let text = format!(
                "a connection has at most {MANAGERS_MAX} senders to {MANAGEMENT_NODE}; use one"
            );
            return self.refuse_link(link, &refusal(Reason::LimitExceeded, &text));
        }
        self.manage.managers += 1;
        let target = Target {
            address: node_address(),
            ..Target::default()
        };
        let reply = LinkReply {
            source: attach.source,
            target: Some(TargetKind::Target(target)),
            snd_settle_mode: attach.snd_settle_mode,
            rcv_settle_mode: RcvSettleMode::First,
            max_message_size: Some(REQUEST_BYTES_MAX),
            ..LinkReply::default()
        };
        self.ports.insert(link, PortState::Manager { held: 0 });
        // Both fail only when the connection is closing: nobody waits for the answer.
        let _ = self.conn.accept_link(link, reply);
        let _ = self.conn.grant(link, CREDIT);
    }

    /// A link from the node, on which answers go.
    pub(super) fn open_replies(&mut self, link: LinkId, attach: Attach) {
        let address = match &attach.target {
            Some(TargetKind::Target(Target {
                address: Some(Value::Str(text)),
                ..
            })) => Some(text.as_str().to_owned()),
            _ => None,
        };
        let source = Source {
            address: node_address(),
            default_outcome: Some(DeliveryState::Released),
            ..Source::default()
        };
        let replies = Replies {
            address,
            is_settled: attach.snd_settle_mode == SndSettleMode::Settled,
            message_size_max: attach.max_message_size.unwrap_or(0),
            is_draining: false,
            next_token: 0,
            unsettled: BTreeSet::new(),
            waiting: VecDeque::new(),
        };
        let reply = LinkReply {
            source: Some(source),
            target: attach.target,
            snd_settle_mode: attach.snd_settle_mode,
            rcv_settle_mode: attach.rcv_settle_mode,
            initial_delivery_count: Some(0),
            ..LinkReply::default()
        };
        self.ports.insert(link, PortState::Replies(replies));
        // Fails only when the connection is closing: nobody waits for the answer.
        let _ = self.conn.accept_link(link, reply);
    }

    /// A message to the node. Its outcome says whether it will be answered, the answer says all else.
    pub(super) fn on_request(
        &mut self,
        link: LinkId,
        delivery: Option<IncomingId>,
        is_transactional: bool,
        payload: &Bytes,
    ) {
        let Some(entry) = self.ports.entry_of(link) else {
            return;
        };
        let port = entry.port;
        if let PortState::Manager { held } = &mut entry.state {
            *held += 1;
        }
        let asked = match is_transactional {
            true => Err(words::error(
                condition::NOT_IMPLEMENTED,
                "management takes no part in transactions",
            )),
            false => self.read_request(payload),
        };
        let (letter, reply_to) = match asked {
            Ok(asked) => asked,
            Err(error) => {
                self.settle_request(delivery, DeliveryState::Rejected(Some(Box::new(error))));
                return self.release(port);
            }
        };
        self.settle_request(delivery, DeliveryState::Accepted);
        let pending = |stage| Pending {
            manager: port,
            reply_to,
            correlation: letter.correlation,
            stage,
        };
        match letter.asked {
            Ok(Asked::One(kind, request)) => self.ask_broker(pending(Stage::One(kind)), *request),
            Ok(Asked::OfStream(look, request)) => {
                self.ask_broker(pending(Stage::Look(request)), *look);
            }
            Ok(Asked::List(listing)) => {
                let request = listing.request(0);
                self.ask_broker(pending(Stage::List(listing)), request);
            }
            Ok(Asked::Known(answer)) | Err(answer) => self.reply(pending(Stage::Tell), &answer),
        }
    }

    /// What a message asks, and the place for the answer.
    fn read_request(
        &mut self,
        payload: &Bytes,
    ) -> Result<(Letter, ReplyTo), qq_proto_amqp::performative::AmqpError> {
        let error_of = |unanswerable| match unanswerable {
            Unanswerable::Undecodable(error) => words::of_section(&error),
            Unanswerable::ReplyTo(text) => words::error(condition::INVALID_FIELD, &text),
        };
        let letter = ask::read(payload, &self.config.queue_defaults).map_err(error_of)?;
        let reply_to = match self.replies_at(&letter.reply_to) {
            Some(port) => ReplyTo::Link(port, letter.reply_to.clone()),
            None => ReplyTo::Queue(ask::queue_of(&letter.reply_to).map_err(error_of)?),
        };
        Ok((letter, reply_to))
    }

    /// The link from the node whose target has this address.
    fn replies_at(&mut self, address: &str) -> Option<Port> {
        let ports = self.ports.ports();
        ports.into_iter().find(|port| {
            let entry = self.ports.entry(*port);
            matches!(
                entry.map(|entry| &entry.state),
                Some(PortState::Replies(replies)) if replies.address.as_deref() == Some(address)
            )
        })
    }

    fn settle_request(&mut self, delivery: Option<IncomingId>, state: DeliveryState) {
        if let Some(delivery) = delivery {
            // Fails only when its session ended meanwhile.
            let _ = self.conn.settle(delivery, state, true);
        }
    }

    fn ask_broker(&mut self, pending: Pending, request: Request) {
        let ticket = self.manage.next_ticket;
        self.manage.next_ticket += 1;
        self.manage.pending.insert(ticket, pending);
        self.commands.push(Command::Manage {
            ticket,
            request: Box::new(request),
        });
    }

    /// The broker answered.
    pub(super) fn on_managed(&mut self, ticket: u64, reply: Reply) {
        let Some(mut pending) = self.manage.pending.remove(&ticket) else {
            return;
        };
        let answer = match &mut pending.stage {
            Stage::One(kind) => Answer::of_reply(reply, *kind),
            Stage::Look(request) => {
                let found = Answer::of_reply(reply, Kind::Stream);
                if found.status == 200 {
                    let request = std::mem::replace(&mut **request, Request::Stats);
                    pending.stage = Stage::One(Kind::Stream);
                    return self.ask_broker(pending, request);
                }
                found
            }
            Stage::List(listing) => match listing.take(reply) {
                Step::Done(answer) => answer,
                Step::More(from) => {
                    let request = listing.request(from);
                    return self.ask_broker(pending, request);
                }
            },
            Stage::Tell => {
                if let Reply::Refused(refusal) = reply {
                    log::debug!("{}: an answer is lost: {}", self.peer.address, refusal.text);
                }
                return self.release(pending.manager);
            }
        };
        self.reply(pending, &answer);
    }

    /// Sends an answer on its way.
    fn reply(&mut self, pending: Pending, answer: &Answer) {
        let manager = pending.manager;
        match &pending.reply_to {
            ReplyTo::Link(port, address) => {
                let encoded = answer.encode(address, pending.correlation.clone());
                self.reply_by_link(*port, manager, encoded, |status, text| {
                    let shorter = answer.clone().shortened(status, text);
                    shorter.encode(address, pending.correlation.clone())
                });
            }
            ReplyTo::Queue(name) => {
                let encoded = answer.encode(name, pending.correlation.clone());
                let Ok(message) = publish::message_of(0, encoded) else {
                    log::error!("an answer of {MANAGEMENT_NODE} is no message");
                    return self.release(manager);
                };
                let request = Request::Publish {
                    to: PublishTo::Queue(name.clone()),
                    message,
                };
                let stage = Stage::Tell;
                self.ask_broker(Pending { stage, ..pending }, request);
            }
        }
    }

    fn reply_by_link(
        &mut self,
        port: Port,
        manager: Port,
        mut encoded: Bytes,
        shortened: impl Fn(u16, &str) -> Bytes,
    ) {
        let waiting_bytes = self.manage.waiting_bytes;
        let Some(PortState::Replies(replies)) =
            self.ports.entry(port).map(|entry| &mut entry.state)
        else {
            // Its receiver left.
            return self.release(manager);
        };
        let is_too_large = |bytes: &Bytes| {
            replies.message_size_max > 0 && bytes.len() as u64 > replies.message_size_max
        };
        if is_too_large(&encoded) {
            let text = "the answer is larger than the max-message-size of its link; ask for less";
            encoded = shortened(413, text);
            if is_too_large(&encoded) {
                log::debug!("{}: an answer fits into no message", self.peer.address);
                return self.release(manager);
            }
        } else if encoded.len() > SHORT_BYTES && waiting_bytes + encoded.len() > WAITING_BYTES_MAX {
            let text = "answers wait for their receiver; grant credit, then ask again";
            encoded = shortened(429, text);
        }
        self.manage.waiting_bytes += encoded.len();
        replies.waiting.push_back((encoded, manager));
        self.pump_replies(port);
    }

    /// Sends answers as the peer's credit, its settlements and the output allow.
    pub(super) fn pump_replies(&mut self, port: Port) {
        while self.send_reply(port) {}
        let ahead = self.conn.unsent_bytes();
        let Some(entry) = self.ports.entry(port) else {
            return;
        };
        let link = entry.link;
        let PortState::Replies(replies) = &mut entry.state else {
            return;
        };
        let is_held_back = !replies.waiting.is_empty() && ahead >= AHEAD_BYTES_MAX;
        if is_held_back && self.conn.credit(link) > 0 {
            if !self.thirsty.contains(&port) {
                self.thirsty.push(port);
            }
        } else if replies.is_draining {
            replies.is_draining = false;
            // Fails only when the link is on its way out.
            let _ = self.conn.drained(link);
        }
    }

    /// Sends the next answer of a link, if it may go.
    fn send_reply(&mut self, port: Port) -> bool {
        let ahead = self.conn.unsent_bytes();
        let Some(entry) = self.ports.entry(port) else {
            return false;
        };
        let link = entry.link;
        let PortState::Replies(replies) = &mut entry.state else {
            return false;
        };
        if self.conn.credit(link) == 0
            || ahead >= AHEAD_BYTES_MAX
            || replies.unsettled.len() >= UNSETTLED_MAX
        {
            return false;
        }
        let Some((payload, manager)) = replies.waiting.pop_front() else {
            return false;
        };
        let token = replies.next_token;
        replies.next_token += 1;
        if !replies.is_settled {
            replies.unsettled.insert(token);
        }
        let out = OutgoingDelivery {
            tag: tag_of(token),
            token,
            settled: replies.is_settled,
            message_format: 0,
            head: &[],
            payload: &payload,
            batchable: false,
        };
        // Fails only when the link is on its way out.
        let _ = self.conn.send(link, out);
        self.manage.waiting_bytes -= payload.len();
        self.release(manager);
        true
    }

    /// The peer wants its credit used up or given back, or has granted some.
    pub(super) fn on_replies_flow(&mut self, port: Port, drain: bool) {
        if let Some(PortState::Replies(replies)) =
            self.ports.entry(port).map(|entry| &mut entry.state)
        {
            replies.is_draining = drain;
        }
        self.pump_replies(port);
    }

    /// The peer has an answer.
    pub(super) fn on_reply_outcome(
        &mut self,
        port: Port,
        token: u64,
        state: Option<&DeliveryState>,
        settled: bool,
    ) {
        let Some(entry) = self.ports.entry(port) else {
            return;
        };
        let link = entry.link;
        let PortState::Replies(replies) = &mut entry.state else {
            return;
        };
        if !settled && matches!(state, None | Some(DeliveryState::Received { .. })) {
            return;
        }
        if replies.unsettled.remove(&token) && !settled {
            // Fails only when the link is on its way out.
            let _ = self
                .conn
                .settle_outgoing(link, token, Some(DeliveryState::Accepted));
        }
        self.pump_replies(port);
    }

    /// A request's answer is on its way, or will never be: its credit goes back.
    fn release(&mut self, manager: Port) {
        let Some(entry) = self.ports.entry(manager) else {
            return;
        };
        let link = entry.link;
        let PortState::Manager { held } = &mut entry.state else {
            return;
        };
        *held -= 1;
        // A peer may go some way beyond its credit: then it gets none until it is back within it.
        let (target, credit) = (CREDIT.saturating_sub(*held), self.conn.credit(link));
        if credit <= CREDIT / 2 && target > credit {
            // Fails only when the link is on its way out.
            let _ = self.conn.grant(link, target);
        }
    }

    /// A link of the node is gone, and what waited on it.
    pub(super) fn end_management(&mut self, state: PortState) {
        match state {
            PortState::Manager { .. } => self.manage.managers -= 1,
            PortState::Replies(replies) => {
                for (waiting, manager) in replies.waiting {
                    self.manage.waiting_bytes -= waiting.len();
                    self.release(manager);
                }
            }
            _ => {}
        }
    }
}
