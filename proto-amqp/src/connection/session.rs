//! Sessions: windows, channels and handles, begin and end (part 2, 2.5).
//!
//! | state | frames of the peer | leaves by |
//! | --- | --- | --- |
//! | `BeginSent` | only its begin | its begin |
//! | `Mapped` | all | end of either side |
//! | `Discarding` | ignored except end (2.5.5) | its end |

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::event::{Event, UsageError};
use super::ids::{LinkId, SessionId, ahead_of};
use super::link::incoming::Received;
use super::link::outgoing::Sent;
use super::settle::PendingDisposition;
use super::tokens::Tokens;
use super::unsettled::Unsettled;
use super::violation::Violation;
use super::{Connection, LATE_SLOT, NO_SLOT};
use crate::performative::{AmqpError, Begin, End};

/// Where a session is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionState {
    BeginSent,
    Mapped,
    Discarding,
}

/// What a channel of the peer leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channel {
    /// Never begun.
    Unused,
    /// A session uses it.
    Used(SessionId),
    /// Its last session ended: late frames are ignored, for some clients detach after their end.
    Ended,
}

/// One session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) state: SessionState,
    pub(super) channel_out: u16,
    /// None until the peer's begin.
    pub(super) channel_in: Option<u16>,
    pub(super) next_incoming_id: u32,
    /// Transfer frames that the peer may still send; below zero it overran.
    pub(super) incoming_window: i64,
    pub(super) initial_outgoing_id: u32,
    pub(super) next_outgoing_id: u32,
    pub(super) remote_incoming_window: u32,
    pub(super) handle_out_max: u32,
    /// Link slot by the peer's handle.
    pub(super) handles_in: Vec<u32>,
    /// Link slot by our handle.
    pub(super) handles_out: Vec<u32>,
    /// Deliveries from the peer that are not settled.
    pub(super) incoming: Unsettled<Received>,
    /// Last delivery-id of the peer.
    pub(super) last_delivery_in: Option<u32>,
    /// Our deliveries that are not settled.
    pub(super) outgoing: Unsettled<Sent>,
    /// Finds one of those by its token.
    pub(super) tokens: Tokens,
    pub(super) next_delivery_out: u32,
    /// A disposition that later ones may still extend.
    pub(super) disposition: Option<PendingDisposition>,
    /// A flow without handle is due.
    pub(super) wants_flow: bool,
    /// Links whose flow is due.
    pub(super) flow_links: Vec<u32>,
    /// Links with something to send and credit for it, in the order of their turns.
    pub(super) senders: VecDeque<u32>,
    /// Listed in the connection's ready queue.
    pub(super) is_ready: bool,
}

impl Session {
    fn new(
        channel_out: u16,
        first_outgoing_id: u32,
        incoming_window: u32,
        state: SessionState,
    ) -> Self {
        Self {
            state,
            channel_out,
            channel_in: None,
            next_incoming_id: 0,
            incoming_window: i64::from(incoming_window),
            initial_outgoing_id: first_outgoing_id,
            next_outgoing_id: first_outgoing_id,
            remote_incoming_window: 0,
            handle_out_max: 0,
            handles_in: Vec::new(),
            handles_out: Vec::new(),
            incoming: Unsettled::new(),
            last_delivery_in: None,
            outgoing: Unsettled::new(),
            tokens: Tokens::default(),
            next_delivery_out: first_outgoing_id,
            disposition: None,
            wants_flow: false,
            flow_links: Vec::new(),
            senders: VecDeque::new(),
            is_ready: false,
        }
    }

    fn on_remote_begin(&mut self, channel_in: u16, begin: &Begin) {
        self.state = SessionState::Mapped;
        self.channel_in = Some(channel_in);
        self.next_incoming_id = begin.next_outgoing_id;
        self.handle_out_max = begin.handle_max;
        self.update_remote_window(Some(self.initial_outgoing_id), begin.incoming_window);
    }

    /// The id of one of our unsettled deliveries.
    pub(super) fn delivery_out(&mut self, link: LinkId, token: u64) -> Result<u32, UsageError> {
        let (id, _) = self.tokens.find(&mut self.outgoing, link.0.slot, token);
        id.ok_or(UsageError::UnknownDelivery)
    }

    /// Part 2, 2.5.6: remote-incoming-window = next-incoming-id + incoming-window - next-outgoing-id, where an absent
    /// next-incoming-id stands for our first outgoing id. Computed in 64 bits: windows go up to 2^32 - 1.
    ///
    /// Returns false when the peer claims to have received what was never sent.
    pub(super) fn update_remote_window(
        &mut self,
        next_incoming_id: Option<u32>,
        incoming_window: u32,
    ) -> bool {
        let received = next_incoming_id.unwrap_or(self.initial_outgoing_id);
        let Some(in_flight) = ahead_of(self.next_outgoing_id, received) else {
            return false;
        };
        self.remote_incoming_window = incoming_window.saturating_sub(in_flight);
        true
    }

    /// A transfer frame may go out, and a delivery begun with it.
    pub(super) fn is_window_open(&self) -> bool {
        self.remote_incoming_window > 0 && self.outgoing.accepts(self.next_delivery_out)
    }

    /// A transfer frame went out.
    pub(super) const fn note_frame(&mut self) {
        self.remote_incoming_window -= 1;
        self.next_outgoing_id = self.next_outgoing_id.wrapping_add(1);
    }

    /// The first frame of a delivery went out; none when it was settled by that.
    pub(super) fn note_delivery(&mut self, unsettled: Option<Sent>) {
        if let Some(sent) = unsettled {
            self.outgoing.push(self.next_delivery_out, sent);
        }
        self.next_delivery_out = self.next_delivery_out.wrapping_add(1);
    }

    /// Slot of the link on the peer's handle.
    pub(super) fn link_in(&self, handle: u32) -> Option<u32> {
        self.handles_in
            .get(handle as usize)
            .copied()
            .filter(|slot| *slot < LATE_SLOT)
    }

    /// The peer's handle leads nowhere from now on. `is_late`: it answered a detach of ours, and may do so twice.
    pub(super) fn free_handle_in(&mut self, handle: u32, is_late: bool) {
        if let Some(place) = self.handles_in.get_mut(handle as usize) {
            *place = if is_late { LATE_SLOT } else { NO_SLOT };
        }
        trim_handles(&mut self.handles_in);
    }

    /// Takes the mark of a handle whose detach was answered already. Returns whether there was one.
    pub(super) fn forgive_detach(&mut self, handle: u32) -> bool {
        let is_late = self.handles_in.get(handle as usize) == Some(&LATE_SLOT);
        if is_late {
            self.free_handle_in(handle, false);
        }
        is_late
    }

    pub(super) fn take_handle_in(&mut self, handle: u32, slot: u32) {
        let place = handle as usize;
        if self.handles_in.len() <= place {
            self.handles_in
                .reserve_exact(place + 1 - self.handles_in.len());
            self.handles_in.resize(place + 1, NO_SLOT);
        }
        self.handles_in[place] = slot;
    }

    /// The lowest handle of ours that is free, or none when the peer's maximum is reached.
    pub(super) fn take_handle_out(&mut self, slot: u32) -> Option<u32> {
        if let Some(place) = self.handles_out.iter().position(|taken| *taken == NO_SLOT) {
            self.handles_out[place] = slot;
            return u32::try_from(place).ok();
        }
        let place = u32::try_from(self.handles_out.len()).ok()?;
        if place > self.handle_out_max {
            return None;
        }
        if self.handles_out.capacity() == 0 {
            self.handles_out.reserve_exact(1);
        }
        self.handles_out.push(slot);
        Some(place)
    }

    pub(super) fn free_handle_out(&mut self, handle: u32) {
        if let Some(place) = self.handles_out.get_mut(handle as usize) {
            *place = NO_SLOT;
        }
        trim_handles(&mut self.handles_out);
    }
}

fn trim_handles(handles: &mut Vec<u32>) {
    while handles.last() == Some(&NO_SLOT) {
        handles.pop();
    }
}

impl Connection {
    /// Client: begins a session. [`Event::SessionBegun`] tells when the peer answered; links may be attached then.
    ///
    /// # Errors
    /// [`UsageError::NotOpen`] before our `open` is sent or after a close, [`UsageError::Exhausted`] when no channel
    /// is free.
    pub fn begin(&mut self) -> Result<SessionId, UsageError> {
        if !self.is_speaking() {
            return Err(UsageError::NotOpen);
        }
        let channel = self.free_channel().ok_or(UsageError::Exhausted)?;
        let session = Session::new(
            channel,
            self.config.first_outgoing_id,
            self.config.incoming_window,
            SessionState::BeginSent,
        );
        let id = SessionId(self.sessions.insert(session));
        self.write_begin(id, None);
        Ok(id)
    }

    /// Ends a session. Its links are gone at once ([`Event::LinkClosed`] for each, then [`Event::SessionEnded`]); what
    /// the peer still sends on it is ignored.
    ///
    /// # Errors
    /// [`UsageError::UnknownSession`].
    pub fn end(&mut self, session: SessionId, error: Option<AmqpError>) -> Result<(), UsageError> {
        let known = self
            .sessions
            .find(session.0)
            .ok_or(UsageError::UnknownSession)?;
        if known.state == SessionState::Discarding || !self.is_speaking() {
            return Err(UsageError::UnknownSession);
        }
        self.end_session(session, error);
        Ok(())
    }

    /// The lowest channel of ours that is free and that the peer accepts.
    fn free_channel(&self) -> Option<u16> {
        let taken: Vec<u16> = self
            .sessions
            .values()
            .map(|session| session.channel_out)
            .collect();
        let highest = self.channel_out_max.min(self.config.channel_max);
        (0..=highest).find(|channel| !taken.contains(channel))
    }

    fn write_begin(&mut self, id: SessionId, remote_channel: Option<u16>) {
        let Some(session) = self.sessions.find(id.0) else {
            return;
        };
        let begin = Begin {
            remote_channel,
            next_outgoing_id: session.next_outgoing_id,
            incoming_window: self.config.incoming_window,
            outgoing_window: super::OUTGOING_WINDOW,
            handle_max: self.config.handle_max,
            ..Begin::default()
        };
        let channel = session.channel_out;
        self.write(channel, &begin);
    }

    pub(super) fn on_begin(&mut self, channel: u16, begin: &Begin) -> Result<(), Violation> {
        if channel > self.config.channel_max {
            return Err(Violation::ChannelAboveMaximum);
        }
        self.check_churn()?;
        if self.channels.len() <= usize::from(channel) {
            self.channels
                .reserve_exact(usize::from(channel) + 1 - self.channels.len());
            self.channels
                .resize(usize::from(channel) + 1, Channel::Unused);
        }
        if matches!(self.channels[usize::from(channel)], Channel::Used(_)) {
            return Err(Violation::BeginTwice);
        }
        match begin.remote_channel {
            Some(ours) => self.on_begin_answer(channel, ours, begin),
            None => {
                let ours = self.free_channel().ok_or(Violation::NoChannelLeft)?;
                let mut session = Session::new(
                    ours,
                    self.config.first_outgoing_id,
                    self.config.incoming_window,
                    SessionState::Mapped,
                );
                session.on_remote_begin(channel, begin);
                let id = SessionId(self.sessions.insert(session));
                self.channels[usize::from(channel)] = Channel::Used(id);
                self.write_begin(id, Some(channel));
                self.events.push_back(Event::SessionBegun(id));
                Ok(())
            }
        }
    }

    fn on_begin_answer(&mut self, channel: u16, ours: u16, begin: &Begin) -> Result<(), Violation> {
        let is_asking =
            |session: &Session| session.channel_out == ours && session.channel_in.is_none();
        let asked = self
            .sessions
            .keys()
            .find(|key| self.sessions.find(*key).is_some_and(is_asking));
        let key = asked.ok_or(Violation::RemoteChannelUnknown)?;
        let id = SessionId(key);
        self.channels[usize::from(channel)] = Channel::Used(id);
        let session = self
            .sessions
            .find_mut(key)
            .ok_or(Violation::RemoteChannelUnknown)?;
        if session.state == SessionState::Discarding {
            // We ended it before the answer came; only the peer's end is of interest now.
            session.channel_in = Some(channel);
            return Ok(());
        }
        session.on_remote_begin(channel, begin);
        self.events.push_back(Event::SessionBegun(id));
        Ok(())
    }

    pub(super) fn on_end(&mut self, channel: u16, id: SessionId, end: End) {
        self.churn.charge(1);
        let Some(session) = self.sessions.find(id.0) else {
            return;
        };
        let channel_out = session.channel_out;
        if session.state != SessionState::Discarding {
            self.flush_session(id);
            self.close_links_of(id, None);
            self.write(channel_out, &End { error: None });
            self.events.push_back(Event::SessionEnded {
                session: id,
                error: end.error.map(|error| *error),
            });
        }
        self.sessions.remove(id.0);
        self.channels[usize::from(channel)] = Channel::Ended;
    }

    /// Our end: links go, the session stays to discard what is on its way.
    pub(super) fn end_session(&mut self, id: SessionId, error: Option<AmqpError>) {
        self.flush_session(id);
        self.close_links_of(id, error.as_ref());
        let Some(session) = self.sessions.find_mut(id.0) else {
            return;
        };
        session.state = SessionState::Discarding;
        session.senders.clear();
        session.flow_links = Vec::new();
        session.wants_flow = false;
        session.disposition = None;
        session.incoming = Unsettled::new();
        session.outgoing = Unsettled::new();
        session.tokens = Tokens::default();
        let channel = session.channel_out;
        self.write(
            channel,
            &End {
                error: error.clone().map(Box::new),
            },
        );
        self.events
            .push_back(Event::SessionEnded { session: id, error });
    }
}
