//! Flow frames both ways: session windows, link credit, drain and echo (part 2, 2.5.6, 2.6.7 to 2.6.9, 2.7.4).
//!
//! Flows that we owe for our own reasons (a grant, a window half used) are listed and written once per hand-over with
//! the latest numbers. An echo is answered on the spot, one flow for one request, never with echo set.

use super::event::{Event, UsageError};
use super::ids::{LinkId, SessionId, ahead_of};
use super::link::{End, LinkState};
use super::violation::Violation;
use super::{Connection, OUTGOING_WINDOW};
use crate::performative::Flow;
use crate::types::Map;

impl Connection {
    /// Grants credit on a receiving link: from now on the peer may send `credit` deliveries, whatever it had before.
    ///
    /// # Errors
    /// [`UsageError::UnknownLink`].
    pub fn grant(&mut self, link: LinkId, credit: u32) -> Result<(), UsageError> {
        self.set_credit(link, credit, false)
    }

    /// Grants credit that the peer must use up or give back at once; [`Event::Flow`] with `drain` and credit 0 tells
    /// when it did.
    ///
    /// # Errors
    /// [`UsageError::UnknownLink`].
    pub fn grant_drain(&mut self, link: LinkId, credit: u32) -> Result<(), UsageError> {
        self.set_credit(link, credit, true)
    }

    fn set_credit(&mut self, id: LinkId, credit: u32, drain: bool) -> Result<(), UsageError> {
        let link = self.living_link(id)?;
        let incoming = link.incoming().ok_or(UsageError::UnknownLink)?;
        incoming.forgive_overrun();
        link.credit = credit;
        link.drain = drain;
        self.list_flow(id);
        Ok(())
    }

    /// Answers a drain: what was sent is all there is. Credit that is left when the queue is empty is given back, and
    /// a flow says so (part 2, 2.6.7).
    ///
    /// # Errors
    /// [`UsageError::UnknownLink`].
    pub fn drained(&mut self, link: LinkId) -> Result<(), UsageError> {
        let known = self.living_link(link)?;
        let outgoing = known.outgoing().ok_or(UsageError::UnknownLink)?;
        outgoing.is_drained = true;
        self.finish_drain(link);
        Ok(())
    }

    /// Tells the peer properties of a sending link's state, in a flow of its own (part 2, 2.7.4). They are told once:
    /// later flows do not repeat them.
    ///
    /// # Errors
    /// [`UsageError::UnknownLink`].
    pub fn tell_link_state(&mut self, id: LinkId, properties: Map) -> Result<(), UsageError> {
        let link = self.living_link(id)?;
        let state = link.state;
        let outgoing = link.outgoing().ok_or(UsageError::UnknownLink)?;
        outgoing.state = Some(properties);
        if state == LinkState::Attached {
            self.write_link_flow(id);
        } else if let Some(link) = self.links.find_mut(id.0) {
            link.wants_flow = true;
        }
        Ok(())
    }

    /// States how many messages the embedder has waiting on a sending link; the peer hears of it with the next flow.
    ///
    /// # Errors
    /// [`UsageError::UnknownLink`].
    pub fn set_available(&mut self, link: LinkId, available: u32) -> Result<(), UsageError> {
        let known = self.living_link(link)?;
        known.outgoing().ok_or(UsageError::UnknownLink)?.available = available;
        Ok(())
    }

    /// Gives credit back when a drain is due and nothing that may still be sent is queued.
    pub(super) fn finish_drain(&mut self, id: LinkId) {
        let Some(link) = self.links.find_mut(id.0) else {
            return;
        };
        let (state, credit) = (link.state, link.credit);
        let Some(outgoing) = link.outgoing() else {
            return;
        };
        let has_begun = outgoing
            .queue
            .front()
            .is_some_and(|front| front.started_as.is_some());
        if !outgoing.is_drained || has_begun || (credit > 0 && !outgoing.queue.is_empty()) {
            return;
        }
        outgoing.is_drained = false;
        link.delivery_count = link.delivery_count.wrapping_add(credit);
        link.credit = 0;
        if state == LinkState::Attached {
            self.write_link_flow(id);
        } else {
            link.wants_flow = true;
        }
        if let Some(link) = self.links.find_mut(id.0) {
            link.drain = false;
        }
    }

    pub(super) fn on_flow(&mut self, session: SessionId, flow: &Flow) -> Result<(), Violation> {
        self.charge_quarter_frame();
        let known = self
            .sessions
            .find_mut(session.0)
            .ok_or(Violation::ChannelNotBegun)?;
        if !known.update_remote_window(flow.next_incoming_id, flow.incoming_window) {
            return Err(Violation::NextIncomingIdAhead);
        }
        // Part 2, 2.5.6: taken directly from the frame. Clients that count otherwise are followed by this.
        known.next_incoming_id = flow.next_outgoing_id;
        let has_senders = !known.senders.is_empty();
        if has_senders {
            self.list_ready(session);
        }
        match flow.handle {
            Some(handle) => self.on_link_flow(session, handle, flow),
            None => {
                if flow.echo {
                    self.write_session_flow(session);
                }
                Ok(())
            }
        }
    }

    fn on_link_flow(
        &mut self,
        session: SessionId,
        handle: u32,
        flow: &Flow,
    ) -> Result<(), Violation> {
        let slot = self
            .sessions
            .find(session.0)
            .and_then(|session| session.link_in(handle));
        let (key, link) = slot
            .and_then(|slot| self.links.at_mut(slot))
            .ok_or(Violation::HandleUnattached)?;
        let id = LinkId(key);
        if link.state == LinkState::DetachSent {
            return Ok(());
        }
        if let Some(properties) = flow.properties.clone() {
            self.events.push_back(Event::LinkState {
                link: id,
                properties,
            });
        }
        let is_pending = link.state == LinkState::AttachReceived;
        if link.is_sender() {
            self.on_receiver_flow(id, flow, is_pending);
        } else {
            self.on_sender_flow(id, flow, is_pending);
        }
        Ok(())
    }

    /// The peer receives: credit for us.
    fn on_receiver_flow(&mut self, id: LinkId, flow: &Flow, is_pending: bool) {
        let Some(link) = self.links.find_mut(id.0) else {
            return;
        };
        if let Some(granted) = flow.link_credit {
            // Part 2, 2.6.7: link-credit(snd) = delivery-count(rcv) + link-credit(rcv) - delivery-count(snd).
            // What would be below zero is zero: the peer has not seen what is on its way.
            let seen = flow.delivery_count.unwrap_or(link.initial_delivery_count);
            let in_flight = ahead_of(link.delivery_count, seen).unwrap_or(0);
            link.credit = granted.saturating_sub(in_flight);
        }
        let drain = flow.drain;
        link.drain = drain;
        if let Some(outgoing) = link.outgoing()
            && !drain
        {
            outgoing.is_drained = false;
        }
        self.list_sender(id);
        let credit = self.credit(id);
        self.events.push_back(Event::Flow {
            link: id,
            credit,
            drain,
            available: flow.available,
        });
        // The answer to a drain is a flow already; a second one would be one too many.
        if flow.echo && !drain {
            self.answer_link_echo(id, is_pending);
        }
    }

    /// The peer sends. Its count is what counts; its link-credit is ours and not listened to (part 2, 2.7.4).
    fn on_sender_flow(&mut self, id: LinkId, flow: &Flow, is_pending: bool) {
        let Some(link) = self.links.find_mut(id.0) else {
            return;
        };
        let count = flow.delivery_count.unwrap_or(link.delivery_count);
        let ahead = ahead_of(count, link.delivery_count).unwrap_or(0);
        if ahead > 0 {
            // Also beyond the credit: it may have been taken back while the answer to an older drain was on its way.
            // Were the count not followed, all later credit would fall short by the difference.
            link.delivery_count = count;
            link.credit = link.credit.saturating_sub(ahead);
        }
        let (credit, drain) = (link.credit, link.drain);
        if ahead > 0 || drain {
            link.drain = drain && credit > 0;
            self.events.push_back(Event::Flow {
                link: id,
                credit,
                drain,
                available: flow.available,
            });
        }
        if flow.echo {
            self.answer_link_echo(id, is_pending);
        }
    }

    fn answer_link_echo(&mut self, id: LinkId, is_pending: bool) {
        if !is_pending {
            self.write_link_flow(id);
        } else if let Some(link) = self.links.find_mut(id.0) {
            // Our handle is not known to the peer before our attach; accepting the link sends the flow.
            link.wants_flow = true;
        }
    }

    /// A flow for this link goes out with the next hand-over, or behind our attach.
    pub(super) fn list_flow(&mut self, id: LinkId) {
        let Some(link) = self.links.find_mut(id.0) else {
            return;
        };
        let is_attached = link.state == LinkState::Attached;
        let is_listed = core::mem::replace(&mut link.wants_flow, true);
        let session_id = link.session;
        if !is_attached {
            return;
        }
        let Some(session) = self.sessions.find_mut(session_id.0) else {
            return;
        };
        if !is_listed || !session.flow_links.contains(&id.0.slot) {
            session.flow_links.push(id.0.slot);
        }
        self.list_ready(session_id);
    }

    /// Writes the flows that are due on a session.
    pub(super) fn flush_flows(&mut self, id: SessionId) {
        let Some(session) = self.sessions.find_mut(id.0) else {
            return;
        };
        let mut links = core::mem::take(&mut session.flow_links);
        let is_due = core::mem::take(&mut session.wants_flow);
        let mut is_window_open = !is_due;
        for slot in links.drain(..) {
            if let Some((key, link)) = self.links.at_mut(slot)
                && link.wants_flow
            {
                self.write_link_flow(LinkId(key));
                is_window_open = true;
            }
        }
        if !is_window_open {
            self.write_session_flow(id);
        }
        // The room is kept for the next time: a busy link is listed again and again.
        if let Some(session) = self.sessions.find_mut(id.0) {
            session.flow_links = links;
        }
    }

    fn session_flow(&mut self, id: SessionId) -> Option<(u16, Flow)> {
        let session = self.sessions.find_mut(id.0)?;
        // Whatever the reason for a flow, it opens our window again.
        session.incoming_window = i64::from(self.config.incoming_window);
        session.wants_flow = false;
        let flow = Flow {
            next_incoming_id: session
                .channel_in
                .is_some()
                .then_some(session.next_incoming_id),
            incoming_window: self.config.incoming_window,
            next_outgoing_id: session.next_outgoing_id,
            outgoing_window: OUTGOING_WINDOW,
            ..Flow::default()
        };
        Some((session.channel_out, flow))
    }

    fn write_session_flow(&mut self, id: SessionId) {
        if let Some((channel, flow)) = self.session_flow(id) {
            self.write(channel, &flow);
        }
    }

    fn write_link_flow(&mut self, id: LinkId) {
        let Some(link) = self.links.find_mut(id.0) else {
            return;
        };
        link.wants_flow = false;
        let session = link.session;
        let (handle, count, credit, drain) = (
            link.handle_out,
            link.delivery_count,
            link.credit,
            link.drain,
        );
        let (available, properties) = match &mut link.end {
            End::Outgoing(outgoing) => {
                let queued = u32::try_from(outgoing.unstarted()).unwrap_or(u32::MAX);
                let available = outgoing.available.saturating_add(queued);
                (Some(available), outgoing.state.take())
            }
            End::Incoming(_) => (None, None),
        };
        let Some((channel, flow)) = self.session_flow(session) else {
            return;
        };
        let flow = Flow {
            handle: Some(handle),
            delivery_count: Some(count),
            link_credit: Some(credit),
            available,
            drain,
            properties,
            ..flow
        };
        self.write(channel, &flow);
    }
}
