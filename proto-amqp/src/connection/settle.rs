//! Dispositions both ways (part 2, 2.6.12, 2.7.6).
//!
//! Ours are held back until the next hand-over and joined to ranges while ids follow each other and the state is the
//! same. The peer's ranges are walked over what is unsettled, so that their width costs nothing.

use super::Connection;
use super::event::{Event, UsageError};
use super::ids::{IncomingId, LinkId, SessionId};
use super::violation::Violation;
use crate::performative::{DeliveryState, Disposition, Role};

/// A disposition of ours that is not written yet.
#[derive(Debug)]
pub(super) struct PendingDisposition {
    role: Role,
    first: u32,
    last: u32,
    settled: bool,
    state: Option<DeliveryState>,
}

impl PendingDisposition {
    /// Whether the next id with this state can join. Only states with little content are compared.
    fn is_continued_by(&self, next: &Self) -> bool {
        let is_plain = match &next.state {
            None | Some(DeliveryState::Accepted | DeliveryState::Released) => true,
            Some(DeliveryState::Transactional { outcome, .. }) => {
                matches!(outcome.as_deref(), Some(DeliveryState::Accepted))
            }
            _ => false,
        };
        let is_same_state = is_plain && self.state == next.state;
        is_same_state
            && self.role == next.role
            && self.settled == next.settled
            && self.last.wrapping_add(1) == next.first
    }
}

impl Connection {
    /// Gives a delivery from the peer its state; `settled` also forgets it. Unsettled states belong to the second
    /// receiver settle mode: the sender settles then ([`Event::IncomingSettled`]).
    ///
    /// # Errors
    /// [`UsageError::UnknownSession`], [`UsageError::UnknownDelivery`], [`UsageError::TooLarge`] for a state that
    /// cannot be shortened to the peer's frame size as errors and annotations are.
    pub fn settle(
        &mut self,
        delivery: IncomingId,
        state: DeliveryState,
        settled: bool,
    ) -> Result<(), UsageError> {
        if !self.state.is_listening() {
            return Err(UsageError::UnknownSession);
        }
        self.check_state(Some(&state))?;
        let session = self
            .sessions
            .find_mut(delivery.session.0)
            .ok_or(UsageError::UnknownSession)?;
        let is_known = if settled {
            session.incoming.remove(delivery.id).is_some()
        } else {
            session.incoming.find_mut(delivery.id).is_some()
        };
        if !is_known {
            return Err(UsageError::UnknownDelivery);
        }
        self.list_disposition(
            delivery.session,
            PendingDisposition {
                role: Role::Receiver,
                first: delivery.id,
                last: delivery.id,
                settled,
                state: Some(state),
            },
        );
        Ok(())
    }

    /// Settles one of our deliveries toward the peer: the second step of the second receiver settle mode, or a
    /// sender that does not want to wait.
    ///
    /// # Errors
    /// [`UsageError::UnknownLink`], [`UsageError::UnknownDelivery`], [`UsageError::TooLarge`] as with
    /// [`settle`](Self::settle).
    pub fn settle_outgoing(
        &mut self,
        link: LinkId,
        token: u64,
        state: Option<DeliveryState>,
    ) -> Result<(), UsageError> {
        let session_id = self.living_link(link)?.session;
        self.check_state(state.as_ref())?;
        let session = self
            .sessions
            .find_mut(session_id.0)
            .ok_or(UsageError::UnknownLink)?;
        let id = session.delivery_out(link, token)?;
        session.outgoing.remove(id);
        self.list_disposition(
            session_id,
            PendingDisposition {
                role: Role::Sender,
                first: id,
                last: id,
                settled: true,
                state,
            },
        );
        Ok(())
    }

    /// Takes back that the peer gave one of our deliveries a state: its next statement is heard again (part 4, 4.4.2,
    /// when a transaction is rolled back).
    ///
    /// # Errors
    /// [`UsageError::UnknownLink`], [`UsageError::UnknownDelivery`].
    pub fn reopen_outgoing(&mut self, link: LinkId, token: u64) -> Result<(), UsageError> {
        let session_id = self.living_link(link)?.session;
        let session = self
            .sessions
            .find_mut(session_id.0)
            .ok_or(UsageError::UnknownLink)?;
        let id = session.delivery_out(link, token)?;
        if let Some(sent) = session.outgoing.find_mut(id) {
            sent.has_state = false;
        }
        Ok(())
    }

    /// Whether a disposition with this state can be sent. The common ones are a few bytes.
    fn check_state(&self, state: Option<&DeliveryState>) -> Result<(), UsageError> {
        if matches!(
            state,
            None | Some(DeliveryState::Accepted | DeliveryState::Released)
        ) {
            return Ok(());
        }
        let frame = Disposition {
            role: Role::Receiver,
            first: u32::MAX,
            last: Some(u32::MAX),
            settled: true,
            state: state.cloned(),
            batchable: false,
        };
        if self.is_sendable(&frame) {
            Ok(())
        } else {
            Err(UsageError::TooLarge)
        }
    }

    fn list_disposition(&mut self, id: SessionId, next: PendingDisposition) {
        let Some(session) = self.sessions.find_mut(id.0) else {
            return;
        };
        match &mut session.disposition {
            Some(pending) if pending.is_continued_by(&next) => pending.last = next.last,
            Some(_) => {
                self.flush_disposition(id);
                if let Some(session) = self.sessions.find_mut(id.0) {
                    session.disposition = Some(next);
                }
            }
            none => {
                *none = Some(next);
                self.list_ready(id);
            }
        }
    }

    pub(super) fn flush_disposition(&mut self, id: SessionId) {
        let Some(session) = self.sessions.find_mut(id.0) else {
            return;
        };
        let Some(pending) = session.disposition.take() else {
            return;
        };
        let frame = Disposition {
            role: pending.role,
            first: pending.first,
            last: (pending.last != pending.first).then_some(pending.last),
            settled: pending.settled,
            state: pending.state,
            batchable: false,
        };
        let channel = session.channel_out;
        self.write(channel, &frame);
    }

    /// What must be on the wire before a link or a session goes.
    pub(super) fn flush_session(&mut self, id: SessionId) {
        self.flush_disposition(id);
        self.flush_flows(id);
    }

    pub(super) fn on_disposition(
        &mut self,
        id: SessionId,
        frame: &Disposition,
    ) -> Result<(), Violation> {
        let last = frame.last.unwrap_or(frame.first);
        let (looked_at, changed) = match frame.role {
            Role::Receiver => self.on_receiver_disposition(id, frame, last),
            Role::Sender => self.on_sender_disposition(id, frame, last),
        };
        if changed == 0 {
            // Nothing moved: the frame and the walk are the peer's debt.
            self.charge_quarter_frame();
            let walk = u32::try_from(looked_at / 8).unwrap_or(u32::MAX);
            self.no_progress.charge(walk);
        }
        Ok(())
    }

    /// The peer receives: this is about our deliveries.
    fn on_receiver_disposition(
        &mut self,
        id: SessionId,
        frame: &Disposition,
        last: u32,
    ) -> (usize, usize) {
        let Self {
            sessions,
            links,
            events,
            ..
        } = self;
        let Some(session) = sessions.find_mut(id.0) else {
            return (0, 0);
        };
        let mut changed = 0;
        // How far the peer got (part 3, 3.4.1) is no outcome; that is still to come.
        let ends = frame.settled || frame.state.as_ref().is_some_and(DeliveryState::has_outcome);
        let looked_at = session.outgoing.visit_range(frame.first, last, |_, sent| {
            let is_news = frame.settled || (frame.state.is_some() && !sent.has_state);
            if !is_news {
                return false;
            }
            if ends {
                changed += 1;
                sent.has_state = true;
            }
            if let Some((key, _)) = links.at_mut(sent.link) {
                events.push_back(Event::Outcome {
                    link: LinkId(key),
                    token: sent.token,
                    state: frame.state.clone(),
                    settled: frame.settled,
                });
            }
            frame.settled
        });
        (looked_at, changed)
    }

    /// The peer sends: this is about its own deliveries. Only settling them means anything to us.
    fn on_sender_disposition(
        &mut self,
        id: SessionId,
        frame: &Disposition,
        last: u32,
    ) -> (usize, usize) {
        if !frame.settled {
            return (0, 0);
        }
        let Self {
            sessions,
            links,
            events,
            ..
        } = self;
        let Some(session) = sessions.find_mut(id.0) else {
            return (0, 0);
        };
        let mut changed = 0;
        let looked_at = session
            .incoming
            .visit_range(frame.first, last, |delivery, received| {
                changed += 1;
                if received.is_complete
                    && let Some((key, _)) = links.at_mut(received.link)
                {
                    let delivery = IncomingId {
                        session: id,
                        id: delivery,
                    };
                    events.push_back(Event::IncomingSettled {
                        link: LinkId(key),
                        delivery,
                    });
                }
                true
            });
        (looked_at, changed)
    }
}
