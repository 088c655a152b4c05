//! Links: attach, refusal, stealing, detach (part 2, 2.6.1 to 2.6.6).
//!
//! | state | frames of the peer | leaves by |
//! | --- | --- | --- |
//! | `AttachReceived` | all; deliveries are held back | the embedder's answer, detach |
//! | `AttachSent` | none, there is no handle yet | the peer's attach |
//! | `Attached` | all | detach of either side |
//! | `DetachSent` | ignored except detach | the peer's detach |

pub(super) mod incoming;
pub(super) mod outgoing;

use alloc::boxed::Box;

use super::event::{Event, LinkReply, NewLink, UsageError};
use super::ids::{LinkId, SessionId};
use super::session::SessionState;
use super::slots::Key;
use super::violation::Violation;
use super::{Connection, NO_SLOT};
use crate::performative::{AmqpError, Attach, Detach, Role, Source, TargetKind};
use crate::types::Str;
use incoming::Incoming;
use outgoing::Outgoing;

/// Links above the limit that are refused one by one before the session is ended for it.
const REFUSED_MAX: usize = 256;

/// The frame of an attach without termini takes its link's name and at most this: header, descriptor, list, and 14
/// fields of which the numbers are three.
const NULL_ATTACH_LEN: usize = 64;

/// Where a link is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkState {
    AttachReceived,
    AttachSent,
    Attached,
    DetachSent,
}

/// What differs by direction.
#[derive(Debug)]
pub(super) enum End {
    Incoming(Incoming),
    Outgoing(Outgoing),
}

/// One link.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) session: SessionId,
    pub(super) name: Str,
    pub(super) state: LinkState,
    pub(super) handle_in: u32,
    pub(super) handle_out: u32,
    pub(super) initial_delivery_count: u32,
    pub(super) delivery_count: u32,
    /// Where we send: what the peer granted and we did not use. Where we receive: what we granted.
    pub(super) credit: u32,
    pub(super) drain: bool,
    /// A flow for this link is due.
    pub(super) wants_flow: bool,
    pub(super) end: End,
}

impl Link {
    pub(super) const fn is_sender(&self) -> bool {
        matches!(self.end, End::Outgoing(_))
    }

    pub(super) const fn incoming(&mut self) -> Option<&mut Incoming> {
        match &mut self.end {
            End::Incoming(incoming) => Some(incoming),
            End::Outgoing(_) => None,
        }
    }

    pub(super) const fn outgoing(&mut self) -> Option<&mut Outgoing> {
        match &mut self.end {
            End::Outgoing(outgoing) => Some(outgoing),
            End::Incoming(_) => None,
        }
    }

    const fn role(&self) -> Role {
        if self.is_sender() {
            Role::Sender
        } else {
            Role::Receiver
        }
    }
}

/// The answer to an attach.
fn answer(link: &Link, reply: LinkReply, size_max: u64) -> Attach {
    let first = reply.initial_delivery_count.unwrap_or(0);
    Attach {
        name: link.name.clone(),
        handle: link.handle_out,
        role: link.role(),
        snd_settle_mode: reply.snd_settle_mode,
        rcv_settle_mode: reply.rcv_settle_mode,
        source: reply.source,
        target: reply.target,
        unsettled: reply.unsettled,
        initial_delivery_count: link.is_sender().then_some(first),
        max_message_size: Some(size_max),
        offered_capabilities: reply.offered_capabilities,
        properties: reply.properties,
        ..Attach::default()
    }
}

impl Connection {
    /// Initiates a link. [`Event::LinkAccepted`] tells when the peer answered.
    ///
    /// # Errors
    /// [`UsageError::UnknownSession`], [`UsageError::NotOpen`], [`UsageError::WrongState`] while the session is not
    /// answered, [`UsageError::Exhausted`] when the peer allows no more handles, [`UsageError::TooLarge`] when the
    /// attach fits into no frame that the peer takes.
    pub fn attach(&mut self, session: SessionId, attach: NewLink) -> Result<LinkId, UsageError> {
        if !self.is_speaking() {
            return Err(UsageError::NotOpen);
        }
        let known = self
            .sessions
            .find(session.0)
            .ok_or(UsageError::UnknownSession)?;
        match known.state {
            SessionState::Mapped => {}
            SessionState::BeginSent => return Err(UsageError::WrongState),
            SessionState::Discarding => return Err(UsageError::UnknownSession),
        }
        let size_max = attach
            .max_message_size
            .unwrap_or(self.config.message_size_max);
        let end = if attach.is_sender {
            End::Outgoing(Outgoing::new(0))
        } else {
            End::Incoming(Incoming::new(size_max))
        };
        let id = self.insert_link(session, &attach.name, NO_SLOT, LinkState::AttachSent, end);
        let id = id.ok_or(UsageError::Exhausted)?;
        let Some(link) = self.links.find(id.0) else {
            return Err(UsageError::UnknownLink);
        };
        let frame = Attach {
            name: attach.name,
            handle: link.handle_out,
            role: link.role(),
            snd_settle_mode: attach.snd_settle_mode,
            rcv_settle_mode: attach.rcv_settle_mode,
            source: attach.source,
            target: attach.target,
            unsettled: attach.unsettled,
            initial_delivery_count: attach.is_sender.then_some(0),
            max_message_size: Some(size_max),
            properties: attach.properties,
            ..Attach::default()
        };
        if !self.is_sendable(&frame) {
            self.remove_link(id.0, false);
            return Err(UsageError::TooLarge);
        }
        self.write_on(session, &frame);
        Ok(id)
    }

    /// Answers [`Event::Attached`]: the link is up. Deliveries that came early follow as events. Where the peer's frames
    /// are too small for what has to be said, the link is refused instead and [`Event::LinkClosed`] follows.
    ///
    /// # Errors
    /// [`UsageError::UnknownLink`] when the peer detached meanwhile, [`UsageError::WrongState`] when it was answered.
    pub fn accept_link(&mut self, link: LinkId, reply: LinkReply) -> Result<(), UsageError> {
        let size_max = reply
            .max_message_size
            .unwrap_or(self.config.message_size_max);
        let known = self.living_link(link)?;
        if known.state != LinkState::AttachReceived {
            return Err(UsageError::WrongState);
        }
        let first = reply.initial_delivery_count.unwrap_or(0);
        let frame = answer(known, reply, size_max);
        let Some(frame) = self.fit_answer(frame) else {
            self.fail_link(link, Violation::AttachTooLarge);
            return Ok(());
        };
        let known = self.living_link(link)?;
        known.state = LinkState::Attached;
        let mut held = None;
        match &mut known.end {
            End::Incoming(incoming) => {
                incoming.message_size_max = size_max;
                held = incoming.held.take();
            }
            End::Outgoing(_) => {
                known.initial_delivery_count = first;
                known.delivery_count = first;
            }
        }
        let (session, wants_flow) = (known.session, known.wants_flow);
        self.write_on(session, &frame);
        if wants_flow {
            self.list_flow(link);
        }
        if let Some(held) = held {
            self.partial_bytes.give_back(held.bytes);
            self.events.extend(held.deliveries);
        }
        Ok(())
    }

    /// Answers [`Event::Attached`] with a refusal: an attach without termini, then a closing detach (part 2, 2.6.3).
    ///
    /// # Errors
    /// As [`accept_link`](Self::accept_link).
    pub fn refuse_link(&mut self, link: LinkId, error: AmqpError) -> Result<(), UsageError> {
        if self.living_link(link)?.state != LinkState::AttachReceived {
            return Err(UsageError::WrongState);
        }
        self.write_null_attach(link);
        self.write_detach(link, true, Some(error));
        self.drop_link_contents(link);
        Ok(())
    }

    /// Detaches or closes a link. It is over at once: [`Event::LinkClosed`] follows, and what the peer still sends on
    /// it is ignored. Its handle is free for the peer's next link after the peer's detach.
    ///
    /// # Errors
    /// [`UsageError::UnknownLink`].
    pub fn detach(
        &mut self,
        link: LinkId,
        closed: bool,
        error: Option<AmqpError>,
    ) -> Result<(), UsageError> {
        self.living_link(link)?;
        self.detach_link(link, closed, error);
        Ok(())
    }

    /// Largest message in bytes that the peer takes on this link; 0 = no limit.
    #[must_use]
    pub fn peer_message_size_max(&self, link: LinkId) -> u64 {
        match self.links.find(link.0).map(|link| &link.end) {
            Some(End::Outgoing(outgoing)) => outgoing.message_size_max,
            _ => 0,
        }
    }

    /// A link that the embedder may still speak on.
    pub(super) fn living_link(&mut self, link: LinkId) -> Result<&mut Link, UsageError> {
        if !self.state.is_listening() {
            return Err(UsageError::UnknownLink);
        }
        match self.links.find_mut(link.0) {
            Some(link) if link.state != LinkState::DetachSent => Ok(link),
            _ => Err(UsageError::UnknownLink),
        }
    }

    fn insert_link(
        &mut self,
        session: SessionId,
        name: &Str,
        handle_in: u32,
        state: LinkState,
        end: End,
    ) -> Option<LinkId> {
        let key = self.links.insert(Link {
            session,
            // By itself: a name that shares the buffer it came in would keep all of that for as long as the link is there.
            name: Str::from(name.as_str()),
            state,
            handle_in,
            handle_out: NO_SLOT,
            initial_delivery_count: 0,
            delivery_count: 0,
            credit: 0,
            drain: false,
            wants_flow: false,
            end,
        });
        let handle_out = self
            .sessions
            .find_mut(session.0)
            .and_then(|session| session.take_handle_out(key.slot));
        let Some(handle_out) = handle_out else {
            self.links.remove(key);
            return None;
        };
        if let Some(link) = self.links.find_mut(key) {
            link.handle_out = handle_out;
        }
        Some(LinkId(key))
    }

    /// Our link of this direction and name, if any is up. A scan: attaching is bounded in rate, links in number.
    fn link_by_name(&self, is_sender: bool, name: &Str) -> Option<LinkId> {
        let key = self.links.keys().find(|key| {
            self.links.find(*key).is_some_and(|link| {
                link.is_sender() == is_sender
                    && link.state != LinkState::DetachSent
                    && link.name == *name
            })
        });
        key.map(LinkId)
    }

    pub(super) fn on_attach(
        &mut self,
        session: SessionId,
        attach: Box<Attach>,
    ) -> Result<(), Violation> {
        if attach.handle > self.config.handle_max {
            return Err(Violation::HandleAboveMaximum);
        }
        self.check_churn()?;
        let known = self
            .sessions
            .find(session.0)
            .ok_or(Violation::ChannelNotBegun)?;
        if known.link_in(attach.handle).is_some() {
            return Err(Violation::HandleInUse);
        }
        if attach.name.as_bytes().len() + NULL_ATTACH_LEN > self.frame_out_max as usize {
            return Err(Violation::LinkNameTooLong);
        }
        let is_sender = attach.role == Role::Receiver;
        if let Some(old) = self.link_by_name(is_sender, &attach.name) {
            let is_asking = self
                .links
                .find(old.0)
                .is_some_and(|old| old.state == LinkState::AttachSent && old.session == session);
            if is_asking {
                self.on_attach_answer(session, old, attach);
                return Ok(());
            }
            // Part 2, 2.6.1: the name is taken over; the old endpoint learns who did it.
            self.fail_link(old, Violation::Stolen);
        }
        if self.links.len() >= self.config.links_max + REFUSED_MAX {
            return Err(Violation::LinkLimit);
        }
        let is_above_limit = self.links.len() >= self.config.links_max;
        let id = self.insert_asked_link(session, &attach)?;
        if is_above_limit {
            self.write_null_attach(id);
            self.write_detach(id, true, Some(Violation::LinkLimit.to_error(&self.config)));
            return Ok(());
        }
        self.events.push_back(Event::Attached {
            link: id,
            session,
            attach,
        });
        Ok(())
    }

    /// A link that the peer asks for, to be answered.
    fn insert_asked_link(
        &mut self,
        session: SessionId,
        attach: &Attach,
    ) -> Result<LinkId, Violation> {
        let end = match attach.role {
            Role::Receiver => End::Outgoing(Outgoing::new(attach.max_message_size.unwrap_or(0))),
            Role::Sender => End::Incoming(Incoming::new(self.config.message_size_max)),
        };
        let id = self
            .insert_link(
                session,
                &attach.name,
                attach.handle,
                LinkState::AttachReceived,
                end,
            )
            .ok_or(Violation::LinkLimit)?;
        if let Some(known) = self.sessions.find_mut(session.0) {
            known.take_handle_in(attach.handle, id.0.slot);
        }
        if let Some(link) = self.links.find_mut(id.0)
            && attach.role == Role::Sender
        {
            // A sender must state it (part 2, 2.7.3); read as 0 where it does not, for nothing depends on it.
            link.initial_delivery_count = attach.initial_delivery_count.unwrap_or(0);
            link.delivery_count = link.initial_delivery_count;
        }
        Ok(id)
    }

    fn on_attach_answer(&mut self, session: SessionId, id: LinkId, attach: Box<Attach>) {
        let Some(link) = self.links.find_mut(id.0) else {
            return;
        };
        link.state = LinkState::Attached;
        link.handle_in = attach.handle;
        match &mut link.end {
            End::Incoming(_) => {
                link.initial_delivery_count = attach.initial_delivery_count.unwrap_or(0);
                link.delivery_count = link.initial_delivery_count;
            }
            End::Outgoing(outgoing) => {
                outgoing.message_size_max = attach.max_message_size.unwrap_or(0)
            }
        }
        if link.wants_flow {
            self.list_flow(id);
        }
        if let Some(known) = self.sessions.find_mut(session.0) {
            known.take_handle_in(attach.handle, id.0.slot);
        }
        self.events
            .push_back(Event::LinkAccepted { link: id, attach });
    }

    pub(super) fn on_detach(
        &mut self,
        session: SessionId,
        detach: Detach,
    ) -> Result<(), Violation> {
        self.churn.charge(1);
        let slot = self
            .sessions
            .find(session.0)
            .and_then(|session| session.link_in(detach.handle));
        let Some((key, link)) = slot.and_then(|slot| self.links.at_mut(slot)) else {
            // Some clients (fe2o3-amqp) answer the detach that follows a refusal twice. No harm is done.
            let known = self.sessions.find_mut(session.0);
            let is_forgiven = known.is_some_and(|known| known.forgive_detach(detach.handle));
            return if is_forgiven {
                Ok(())
            } else {
                Err(Violation::HandleUnattached)
            };
        };
        let id = LinkId(key);
        let is_answer = link.state == LinkState::DetachSent;
        if !is_answer {
            if link.state == LinkState::AttachReceived {
                // The embedder has not answered yet, and now need not; attaches and detaches pair up on the wire.
                self.write_null_attach(id);
            }
            self.flush_session(session);
            self.write_detach(id, detach.closed, None);
            let unsettled = self.drop_link_contents(id);
            let error = detach.error.map(|error| *error);
            self.events.push_back(Event::LinkClosed {
                link: id,
                closed: detach.closed,
                error,
                unsettled,
            });
        }
        self.remove_link(key, is_answer);
        Ok(())
    }

    /// Our detach, for a reason of the embedder or of the machine.
    fn detach_link(&mut self, id: LinkId, closed: bool, error: Option<AmqpError>) {
        let Some(link) = self.links.find(id.0) else {
            return;
        };
        let session = link.session;
        if link.state == LinkState::AttachReceived {
            self.write_null_attach(id);
        }
        self.flush_session(session);
        self.write_detach(id, closed, error.clone());
        let unsettled = self.drop_link_contents(id);
        self.events.push_back(Event::LinkClosed {
            link: id,
            closed,
            error,
            unsettled,
        });
    }

    /// The peer broke a rule of the link: the link alone goes (part 2, 2.6.3).
    pub(super) fn fail_link(&mut self, id: LinkId, violation: Violation) {
        log::debug!("link closed: {}", violation.text());
        let error = violation.to_error(&self.config);
        self.detach_link(id, true, Some(error));
    }

    /// Takes down all links of a session that ends, without frames: the end says it all.
    pub(super) fn close_links_of(&mut self, session: SessionId, error: Option<&AmqpError>) {
        let Some(known) = self.sessions.find_mut(session.0) else {
            return;
        };
        let slots = core::mem::take(&mut known.handles_out);
        known.handles_in = alloc::vec::Vec::new();
        for slot in slots.into_iter().filter(|slot| *slot != NO_SLOT) {
            let Some((key, link)) = self.links.at_mut(slot) else {
                continue;
            };
            if link.state != LinkState::DetachSent {
                let unsettled = self.drop_link_contents(LinkId(key));
                let error = error.cloned();
                self.events.push_back(Event::LinkClosed {
                    link: LinkId(key),
                    closed: false,
                    error,
                    unsettled,
                });
            }
            self.links.remove(key);
        }
    }

    /// An answer that the peer's frames have room for, if there is one. The terminus that is the peer's own is said to
    /// it out of courtesy; it knows.
    fn fit_answer(&self, mut frame: Attach) -> Option<Attach> {
        if !self.is_sendable(&frame) {
            match frame.role {
                Role::Sender => frame.target = frame.target.map(|_| TargetKind::default()),
                Role::Receiver => frame.source = frame.source.map(|_| Source::default()),
            }
        }
        self.is_sendable(&frame).then_some(frame)
    }

    /// Part 2, 2.6.3: an attach without termini announces that a detach with the reason follows.
    fn write_null_attach(&mut self, id: LinkId) {
        let Some(link) = self.links.find(id.0) else {
            return;
        };
        let session = link.session;
        let frame = Attach {
            name: link.name.clone(),
            handle: link.handle_out,
            role: link.role(),
            initial_delivery_count: link.is_sender().then_some(0),
            ..Attach::default()
        };
        self.write_on(session, &frame);
    }

    fn write_detach(&mut self, id: LinkId, closed: bool, error: Option<AmqpError>) {
        let Some(link) = self.links.find_mut(id.0) else {
            return;
        };
        link.state = LinkState::DetachSent;
        let session = link.session;
        let frame = Detach {
            handle: link.handle_out,
            closed,
            error: error.map(Box::new),
        };
        self.write_on(session, &frame);
    }

    /// Frees the handles and the slot: both detaches are exchanged, the peer's last if `is_answer`.
    fn remove_link(&mut self, key: Key, is_answer: bool) {
        let Some(link) = self.links.remove(key) else {
            return;
        };
        if let Some(session) = self.sessions.find_mut(link.session.0) {
            session.free_handle_in(link.handle_in, is_answer);
            session.free_handle_out(link.handle_out);
        }
    }
}
