//! Links on which the peer sends: transfers become deliveries (part 2, 2.6.12 to 2.6.14, 2.7.5).
//!
//! Most deliveries are one frame; they touch nothing but counters and one exact allocation. The rest are gathered in
//! a [`Partial`], one per link at most, bounded in bytes and in frames.

use alloc::boxed::Box;
use alloc::vec::Vec;

use bytes::{BufMut, Bytes, BytesMut};

use super::{Connection, LinkState};
use crate::connection::event::Event;
use crate::connection::ids::{IncomingId, LinkId, SessionId, is_after};
use crate::connection::input::Chunk;
use crate::connection::violation::Violation;
use crate::performative::{DeliveryState, RcvSettleMode, Transfer};
use crate::types::DeliveryTag;

/// Payloads up to this size are copied, whatever they came in: that is cheaper than sharing.
const COPY_MAX: usize = 4_096;

/// A delivery that the other side may still have to settle.
#[derive(Debug)]
pub(in crate::connection) struct Received {
    /// Slot of its link.
    pub(in crate::connection) link: u32,
    /// All frames are there.
    pub(in crate::connection) is_complete: bool,
}

impl Received {
    const fn new(link: LinkId, is_complete: bool) -> Self {
        Self {
            link: link.0.slot,
            is_complete,
        }
    }
}

/// What only receiving links have.
#[derive(Debug)]
pub(in crate::connection) struct Incoming {
    /// Largest message in bytes; 0 = no limit.
    pub(in crate::connection) message_size_max: u64,
    /// Deliveries beyond the credit.
    overrun: u32,
    /// The delivery in progress.
    partial: Option<Box<Partial>>,
    /// Deliveries that came before the embedder accepted the link.
    pub(super) held: Option<Box<Held>>,
}

impl Incoming {
    pub(super) const fn new(message_size_max: u64) -> Self {
        Self {
            message_size_max,
            overrun: 0,
            partial: None,
            held: None,
        }
    }

    /// The peer learns of credit: from here on it is expected to keep to it.
    pub(in crate::connection) const fn forgive_overrun(&mut self) {
        self.overrun = 0;
    }

    /// Says in the log what goes with a link that was never accepted.
    pub(super) fn log_dropped(&self) {
        if let Some(held) = &self.held {
            let count = held.deliveries.len();
            log::debug!(
                "{count} deliveries, sent without credit, go with their link before it was answered"
            );
        }
    }

    /// Bytes that count as unfinished.
    pub(super) fn bytes(&self) -> usize {
        self.partial.as_ref().map_or(0, |partial| partial.bytes())
            + self.held.as_ref().map_or(0, |held| held.bytes)
    }
}

/// Deliveries of a link that is not accepted yet.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) deliveries: Vec<Event>,
    pub(super) bytes: usize,
}

/// A delivery of which frames are missing.
#[derive(Debug)]
struct Partial {
    id: u32,
    tag: DeliveryTag,
    message_format: u32,
    is_settled: bool,
    /// A resumed delivery that we do not know: swallowed (part 2, 2.6.13).
    is_ignored: bool,
    rcv_settle_mode: Option<RcvSettleMode>,
    state: Option<Box<DeliveryState>>,
    /// What `state` takes.
    state_len: usize,
    frames: u32,
    payload: BytesMut,
}

impl Partial {
    /// Bytes that count as unfinished.
    fn bytes(&self) -> usize {
        self.payload.len() + self.state_len
    }
}

impl Connection {
    /// A transfer on a session that is up. `payload` is what follows the performative.
    pub(in crate::connection) fn on_transfer(
        &mut self,
        session: SessionId,
        transfer: Transfer,
        payload: PayloadRef<'_>,
    ) -> Result<(), Violation> {
        let known = self
            .sessions
            .find_mut(session.0)
            .ok_or(Violation::ChannelNotBegun)?;
        known.next_incoming_id = known.next_incoming_id.wrapping_add(1);
        known.incoming_window -= 1;
        if known.incoming_window < -i64::from(self.config.incoming_window_slack) {
            return Err(Violation::WindowExceeded);
        }
        if known.incoming_window <= i64::from(self.config.incoming_window / 2) && !known.wants_flow
        {
            known.wants_flow = true;
            self.list_ready(session);
        }
        self.charge_transfer(payload.len(), !transfer.more && !transfer.aborted);
        let known = self
            .sessions
            .find_mut(session.0)
            .ok_or(Violation::ChannelNotBegun)?;
        let slot = known
            .link_in(transfer.handle)
            .ok_or(Violation::HandleUnattached)?;
        let (key, link) = self.links.at_mut(slot).ok_or(Violation::HandleUnattached)?;
        if link.state == LinkState::DetachSent {
            return Ok(());
        }
        let Some(incoming) = link.incoming() else {
            return Err(Violation::TransferToSender);
        };
        let id = LinkId(key);
        let outcome = match incoming.partial {
            None => self.on_first_transfer(session, id, transfer, payload),
            Some(_) => self.on_next_transfer(session, id, transfer, payload),
        };
        match outcome {
            Err(violation) if violation.is_of_link() => {
                self.fail_link(id, violation);
                Ok(())
            }
            outcome => outcome,
        }
    }

    fn on_first_transfer(
        &mut self,
        session: SessionId,
        id: LinkId,
        transfer: Transfer,
        payload: PayloadRef<'_>,
    ) -> Result<(), Violation> {
        let delivery_id = transfer.delivery_id.ok_or(Violation::DeliveryIdMissing)?;
        let tag = transfer.delivery_tag.ok_or(Violation::DeliveryTagMissing)?;
        let known = self
            .sessions
            .find_mut(session.0)
            .ok_or(Violation::ChannelNotBegun)?;
        let is_rising = known
            .last_delivery_in
            .is_none_or(|last| is_after(delivery_id, last));
        if !is_rising || !known.incoming.accepts(delivery_id) {
            return Err(Violation::DeliveryIdNotRising);
        }
        known.last_delivery_in = Some(delivery_id);
        self.take_credit(id)?;
        if transfer.aborted {
            self.return_credit(id);
            return Ok(());
        }
        let known = self
            .sessions
            .find_mut(session.0)
            .ok_or(Violation::ChannelNotBegun)?;
        let link = self
            .links
            .find_mut(id.0)
            .ok_or(Violation::HandleUnattached)?;
        let incoming = link.incoming().ok_or(Violation::TransferToSender)?;
        let is_settled = transfer.settled.unwrap_or(false);
        let message_format = transfer.message_format.unwrap_or(0);
        if !transfer.more && !transfer.resume {
            let size_max = incoming.message_size_max;
            if size_max != 0 && payload.len() as u64 > size_max {
                return Err(Violation::MessageTooLarge);
            }
            if !is_settled {
                known.incoming.push(delivery_id, Received::new(id, true));
            }
            let event = Event::Delivery {
                link: id,
                delivery: IncomingId {
                    session,
                    id: delivery_id,
                },
                tag,
                settled: is_settled,
                message_format,
                state: transfer.state,
                rcv_settle_mode: transfer.rcv_settle_mode,
                payload: payload.take(),
            };
            return self.hand_over(id, event);
        }
        if !is_settled && !transfer.resume {
            known.incoming.push(delivery_id, Received::new(id, false));
        }
        incoming.partial = Some(Box::new(Partial {
            id: delivery_id,
            tag,
            message_format,
            is_settled,
            is_ignored: transfer.resume,
            rcv_settle_mode: transfer.rcv_settle_mode,
            state: None,
            state_len: 0,
            frames: 0,
            payload: BytesMut::new(),
        }));
        self.keep_state(id, transfer.state)?;
        self.extend_partial(session, id, transfer.more, payload)
    }

    fn on_next_transfer(
        &mut self,
        session: SessionId,
        id: LinkId,
        transfer: Transfer,
        payload: PayloadRef<'_>,
    ) -> Result<(), Violation> {
        let link = self
            .links
            .find_mut(id.0)
            .ok_or(Violation::HandleUnattached)?;
        let incoming = link.incoming().ok_or(Violation::TransferToSender)?;
        let Some(partial) = &mut incoming.partial else {
            return Ok(());
        };
        if transfer
            .delivery_id
            .is_some_and(|delivery_id| delivery_id != partial.id)
        {
            return Err(Violation::DeliveryIdChanged);
        }
        if transfer.delivery_tag.is_some_and(|tag| tag != partial.tag) {
            return Err(Violation::DeliveryTagChanged);
        }
        if transfer
            .message_format
            .is_some_and(|format| format != partial.message_format)
        {
            return Err(Violation::MessageFormatChanged);
        }
        if transfer.aborted {
            // Part 2, 2.7.5: aborted messages are forgotten, whatever `more` says, and are settled by that.
            self.partial_bytes.give_back(partial.bytes());
            let delivery_id = partial.id;
            incoming.partial = None;
            if let Some(known) = self.sessions.find_mut(session.0) {
                known.incoming.remove(delivery_id);
            }
            self.return_credit(id);
            return Ok(());
        }
        partial.is_settled |= transfer.settled.unwrap_or(false);
        if transfer.rcv_settle_mode.is_some() {
            partial.rcv_settle_mode = transfer.rcv_settle_mode;
        }
        self.keep_state(id, transfer.state)?;
        self.extend_partial(session, id, transfer.more, payload)
    }

    /// The state of a delivery in progress, the latest one, by itself and on the account.
    fn keep_state(
        &mut self,
        id: LinkId,
        state: Option<Box<DeliveryState>>,
    ) -> Result<(), Violation> {
        let Some(state) = state else {
            return Ok(());
        };
        let link = self.links.find_mut(id.0).and_then(|link| link.incoming());
        let Some(partial) = link.and_then(|incoming| incoming.partial.as_mut()) else {
            return Ok(());
        };
        self.partial_bytes.give_back(partial.state_len);
        (partial.state, partial.state_len) = (None, 0);
        let (state, len) = state.detached();
        self.partial_bytes.take(len)?;
        (partial.state, partial.state_len) = (Some(Box::new(state)), len);
        Ok(())
    }

    fn extend_partial(
        &mut self,
        session: SessionId,
        id: LinkId,
        more: bool,
        payload: PayloadRef<'_>,
    ) -> Result<(), Violation> {
        let (base, per_frame) = (
            self.config.transfers_per_delivery_base,
            self.config.transfers_per_delivery_bytes,
        );
        let link = self
            .links
            .find_mut(id.0)
            .ok_or(Violation::HandleUnattached)?;
        let incoming = link.incoming().ok_or(Violation::TransferToSender)?;
        let size_max = incoming.message_size_max;
        let Some(partial) = &mut incoming.partial else {
            return Ok(());
        };
        partial.frames = partial.frames.saturating_add(1);
        if !partial.is_ignored {
            let size = partial.payload.len() + payload.len();
            if size_max != 0 && size as u64 > size_max {
                return Err(Violation::MessageTooLarge);
            }
            let frames_max = u64::from(base) + size as u64 / u64::from(per_frame.max(1));
            if u64::from(partial.frames) > frames_max {
                return Err(Violation::TooManyFrames);
            }
            self.partial_bytes.take(payload.len())?;
            partial.payload.put_slice(payload.as_slice());
        }
        if more {
            return Ok(());
        }
        let Some(done) = incoming.partial.take() else {
            return Ok(());
        };
        self.partial_bytes.give_back(done.bytes());
        if done.is_ignored {
            self.return_credit(id);
            return Ok(());
        }
        self.finish_partial(session, id, *done)
    }

    fn finish_partial(
        &mut self,
        session: SessionId,
        id: LinkId,
        done: Partial,
    ) -> Result<(), Violation> {
        let known = self
            .sessions
            .find_mut(session.0)
            .ok_or(Violation::ChannelNotBegun)?;
        // The sender may settle on a later frame, or by a disposition that overtakes the last one.
        let is_settled = if done.is_settled {
            known.incoming.remove(done.id);
            true
        } else {
            known
                .incoming
                .find_mut(done.id)
                .map(|received| received.is_complete = true)
                .is_none()
        };
        let event = Event::Delivery {
            link: id,
            delivery: IncomingId {
                session,
                id: done.id,
            },
            tag: done.tag,
            settled: is_settled,
            message_format: done.message_format,
            state: done.state,
            rcv_settle_mode: done.rcv_settle_mode,
            payload: exact(done.payload),
        };
        self.hand_over(id, event)
    }

    /// A delivery that never reaches the embedder used credit all the same; nobody but us can give it back.
    fn return_credit(&mut self, id: LinkId) {
        let Some(link) = self.links.find_mut(id.0) else {
            return;
        };
        match link.incoming() {
            Some(incoming) if incoming.overrun > 0 => incoming.overrun -= 1,
            _ => link.credit = link.credit.saturating_add(1),
        }
        self.list_flow(id);
    }

    /// Part 2, 2.6.7: a delivery uses one credit with its first frame.
    fn take_credit(&mut self, id: LinkId) -> Result<(), Violation> {
        let slack = self.config.credit_slack;
        let link = self
            .links
            .find_mut(id.0)
            .ok_or(Violation::HandleUnattached)?;
        if link.credit > 0 {
            link.credit -= 1;
        } else {
            let incoming = link.incoming().ok_or(Violation::TransferToSender)?;
            incoming.overrun += 1;
            if incoming.overrun > slack {
                return Err(Violation::TransferLimit);
            }
        }
        link.delivery_count = link.delivery_count.wrapping_add(1);
        Ok(())
    }

    fn hand_over(&mut self, id: LinkId, event: Event) -> Result<(), Violation> {
        let link = self.links.find(id.0);
        if link.is_some_and(|link| link.state == LinkState::AttachReceived) {
            return self.hold_delivery(id, event);
        }
        self.events.push_back(event);
        Ok(())
    }

    /// Transfers may come right behind their attach; they wait until the embedder accepts the link.
    ///
    /// Credit is granted behind our attach at the earliest, so these were sent without any (part 2, 2.6.7) and are
    /// borne like other overruns (`credit_slack`). When the link goes before the embedder accepted it, by a detach,
    /// end or close in the same read, they go with it: unsettled ones were never answered, so their sender still has
    /// them, and whoever settles what it had no credit to send asked for no better. To serve them all the same, a link
    /// would have to live on behind its end, for clients that do not exist: those that start without credit (pyamqp)
    /// wait for our attach.
    fn hold_delivery(&mut self, id: LinkId, mut event: Event) -> Result<(), Violation> {
        let mut size = 0;
        if let Event::Delivery { payload, state, .. } = &mut event {
            size = payload.len();
            if let Some(state) = state {
                let (own, len) = state.detached();
                **state = own;
                size += len;
            }
        }
        let incoming = self.links.find_mut(id.0).and_then(|link| link.incoming());
        let incoming = incoming.ok_or(Violation::TransferToSender)?;
        self.partial_bytes.take(size)?;
        let held = incoming.held.get_or_insert_default();
        held.bytes += size;
        held.deliveries.push(event);
        Ok(())
    }
}

/// The payload of a frame inside the chunk that it was read in: copied or sliced only when it is kept.
#[derive(Clone, Copy)]
pub(in crate::connection) struct PayloadRef<'a> {
    chunk: &'a Chunk,
    start: usize,
    end: usize,
}

impl<'a> PayloadRef<'a> {
    pub(in crate::connection) const fn new(chunk: &'a Chunk, start: usize, end: usize) -> Self {
        Self { chunk, start, end }
    }

    const fn len(self) -> usize {
        self.end - self.start
    }

    fn as_slice(self) -> &'a [u8] {
        &self.chunk.bytes[self.start..self.end]
    }

    /// Copied where a slice would keep more than twice its size alive: what a queue holds is counted by its payload.
    fn take(self) -> Bytes {
        if self.len() <= COPY_MAX || self.len() < self.chunk.backing / 2 {
            Bytes::copy_from_slice(self.as_slice())
        } else {
            self.chunk.bytes.slice(self.start..self.end)
        }
    }
}

/// Without the room that growing left behind, where it is worth a copy.
fn exact(payload: BytesMut) -> Bytes {
    if payload.capacity() - payload.len() > payload.len() / 4 {
        Bytes::copy_from_slice(&payload)
    } else {
        payload.freeze()
    }
}
