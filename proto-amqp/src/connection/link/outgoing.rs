//! Links on which we send: messages become transfers, at once where windows allow, else from a queue
//! (part 2, 2.6.12, 2.7.5).
//!
//! Delivery-ids are given when the first frame is written, in the order of the wire. Until then a message can still
//! be handed back whole.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use bytes::{Buf, Bytes};

use super::{Connection, LinkState};
use crate::connection::event::{OutgoingDelivery, UsageError};
use crate::connection::ids::LinkId;
use crate::connection::transmit::TransferHead;
use crate::types::{DeliveryTag, Map};

/// Above this much output waiting, messages are queued rather than encoded.
const ENCODE_AHEAD_MAX: usize = 256 * 1024;

/// A transaction's id is not longer (part 4, 4.5.4).
const TXN_ID_LEN_MAX: usize = 32;

/// One of our deliveries that is not settled.
#[derive(Debug)]
pub(in crate::connection) struct Sent {
    /// Slot of its link.
    pub(in crate::connection) link: u32,
    /// The peer gave it a state without settling.
    pub(in crate::connection) has_state: bool,
    pub(in crate::connection) token: u64,
}

impl Sent {
    pub(in crate::connection) const fn new(link: u32, token: u64) -> Self {
        Self {
            link,
            has_state: false,
            token,
        }
    }
}

/// A message that is not, or not wholly, written.
#[derive(Debug)]
pub(in crate::connection) struct Queued {
    pub(in crate::connection) tag: DeliveryTag,
    pub(in crate::connection) token: u64,
    pub(in crate::connection) message_format: u32,
    pub(in crate::connection) is_settled: bool,
    pub(in crate::connection) batchable: bool,
    /// The first frame went out with this id.
    pub(in crate::connection) started_as: Option<u32>,
    /// Goes out as an aborted transfer and nothing more.
    pub(in crate::connection) is_aborted: bool,
    /// The transaction that it belongs to.
    pub(in crate::connection) txn_id: Option<Bytes>,
    pub(in crate::connection) head: Bytes,
    pub(in crate::connection) payload: Bytes,
}

impl Queued {
    pub(in crate::connection) const fn len(&self) -> usize {
        self.head.len() + self.payload.len()
    }

    /// Drops the first `size` bytes: they are written.
    pub(in crate::connection) fn advance(&mut self, size: usize) {
        let from_head = size.min(self.head.len());
        self.head.advance(from_head);
        self.payload.advance(size - from_head);
    }
}

/// What only sending links have.
#[derive(Debug)]
pub(in crate::connection) struct Outgoing {
    /// Largest message in bytes that the peer takes; 0 = no limit.
    pub(in crate::connection) message_size_max: u64,
    pub(in crate::connection) queue: VecDeque<Queued>,
    /// Messages that the embedder has waiting, as told to the peer.
    pub(in crate::connection) available: u32,
    /// In the session's list of senders.
    pub(in crate::connection) is_listed: bool,
    /// The embedder has nothing more for this drain: answer it when the queue is empty.
    pub(in crate::connection) is_drained: bool,
    /// Properties of the link's state that the peer has not been told.
    pub(in crate::connection) state: Option<Map>,
}

impl Outgoing {
    pub(super) const fn new(message_size_max: u64) -> Self {
        Self {
            message_size_max,
            queue: VecDeque::new(),
            available: 0,
            is_listed: false,
            is_drained: false,
            state: None,
        }
    }

    /// The first message is written. Queues are for bursts: an idle link keeps no room for one.
    pub(in crate::connection) fn pop_front(&mut self) {
        self.queue.pop_front();
        if self.queue.is_empty() {
            self.queue = VecDeque::new();
        }
    }

    /// Queued messages that will use one credit each.
    pub(in crate::connection) fn unstarted(&self) -> usize {
        let started = self
            .queue
            .front()
            .is_some_and(|front| front.started_as.is_some());
        self.queue.len() - usize::from(started)
    }
}

impl Connection {
    /// Deliveries that may be handed to [`send`](Self::send) now: the peer's credit without what is queued here. On a
    /// link that receives, deliveries that the peer may still begin. 0 for links that are gone.
    #[must_use]
    pub fn credit(&self, link: LinkId) -> u32 {
        let Some(link) = self.links.find(link.0) else {
            return 0;
        };
        match &link.end {
            super::End::Outgoing(outgoing) => {
                let queued = u32::try_from(outgoing.unstarted()).unwrap_or(u32::MAX);
                link.credit.saturating_sub(queued)
            }
            super::End::Incoming(_) => link.credit,
        }
    }

    /// Messages of a link that wait for a window to open or for output to drain.
    #[must_use]
    pub fn unsent(&self, link: LinkId) -> usize {
        match self.links.find(link.0).map(|link| &link.end) {
            Some(super::End::Outgoing(outgoing)) => outgoing.queue.len(),
            _ => 0,
        }
    }

    /// Bytes that wait to be taken by [`poll_transmit`](Self::poll_transmit), queued messages included.
    #[must_use]
    pub fn unsent_bytes(&self) -> usize {
        self.output.len() + self.queued_bytes
    }

    /// Sends a message and uses one credit. It is encoded at once when nothing stands in its way, otherwise queued
    /// and split into frames as windows open. Its size is not checked against
    /// [`peer_message_size_max`](Self::peer_message_size_max): what to do with a message too large is the embedder's
    /// matter.
    ///
    /// # Errors
    /// [`UsageError::UnknownLink`], [`UsageError::WrongState`] before the link is accepted, [`UsageError::NoCredit`].
    pub fn send(&mut self, link: LinkId, out: OutgoingDelivery<'_>) -> Result<(), UsageError> {
        self.send_delivery(link, out, None)
    }

    /// As [`send`](Self::send), as part of a transaction that the peer's coordinator declared (part 4, 4.4.1).
    ///
    /// # Errors
    /// Those of [`send`](Self::send), and [`UsageError::TooLarge`] for an id of more than 32 bytes, which no
    /// coordinator gives (part 4, 4.5.4).
    pub fn send_within(
        &mut self,
        link: LinkId,
        out: OutgoingDelivery<'_>,
        txn_id: &Bytes,
    ) -> Result<(), UsageError> {
        if txn_id.len() > TXN_ID_LEN_MAX {
            return Err(UsageError::TooLarge);
        }
        self.send_delivery(link, out, Some(txn_id))
    }

    #[inline]
    fn send_delivery(
        &mut self,
        link: LinkId,
        out: OutgoingDelivery<'_>,
        txn_id: Option<&Bytes>,
    ) -> Result<(), UsageError> {
        let frame_out_max = self.frame_out_max;
        let known = self.living_link(link)?;
        if known.state != LinkState::Attached {
            return Err(UsageError::WrongState);
        }
        let (session_id, handle, credit) = (known.session, known.handle_out, known.credit);
        let outgoing = known.outgoing().ok_or(UsageError::UnknownLink)?;
        if credit as usize <= outgoing.unstarted() {
            return Err(UsageError::NoCredit);
        }
        let is_first_in_line = outgoing.queue.is_empty();
        let session = self
            .sessions
            .find_mut(session_id.0)
            .ok_or(UsageError::UnknownLink)?;
        let size = out.head.len() + out.payload.len();
        let head = TransferHead {
            handle,
            delivery_id: Some(session.next_delivery_out),
            tag: Some(&out.tag),
            message_format: out.message_format,
            settled: out.settled,
            more: false,
            aborted: false,
            batchable: out.batchable,
            txn_id: txn_id.map(|id| &id[..]),
        };
        let is_at_once = is_first_in_line
            && session.senders.is_empty()
            && session.is_window_open()
            && self.output.len() < ENCODE_AHEAD_MAX
            && head.frame_len_max() + size <= frame_out_max as usize;
        if is_at_once {
            head.write(
                &mut self.output,
                session.channel_out,
                out.head,
                out.payload,
                size,
            );
            session.note_frame();
            session.note_delivery((!out.settled).then(|| Sent::new(link.0.slot, out.token)));
            self.use_credit(link);
            self.no_progress.credit(super::super::PROGRESS_TRANSFER);
            return Ok(());
        }
        self.queue_delivery(link, &out, txn_id.cloned());
        Ok(())
    }

    /// Keeps a message until it can be written.
    fn queue_delivery(&mut self, link: LinkId, out: &OutgoingDelivery<'_>, txn_id: Option<Bytes>) {
        let queued = Queued {
            tag: out.tag,
            token: out.token,
            message_format: out.message_format,
            is_settled: out.settled,
            batchable: out.batchable,
            started_as: None,
            is_aborted: false,
            txn_id,
            head: Bytes::copy_from_slice(out.head),
            payload: out.payload.clone(),
        };
        self.queued_bytes += queued.len();
        if let Some(outgoing) = self.links.find_mut(link.0).and_then(|link| link.outgoing()) {
            outgoing.queue.push_back(queued);
        }
        self.list_sender(link);
    }

    /// Takes back a message that is not wholly sent. Returns whether it was: a queued one just goes, a begun one is
    /// aborted on the wire, one that is sent (or never was) stays.
    ///
    /// # Errors
    /// [`UsageError::UnknownLink`].
    pub fn abort(&mut self, link: LinkId, token: u64) -> Result<bool, UsageError> {
        let known = self.living_link(link)?;
        let session = known.session;
        let outgoing = known.outgoing().ok_or(UsageError::UnknownLink)?;
        let Some(place) = outgoing
            .queue
            .iter()
            .position(|queued| queued.token == token)
        else {
            return Ok(false);
        };
        let queued = &mut outgoing.queue[place];
        let freed = queued.len();
        if let Some(delivery) = queued.started_as {
            queued.is_aborted = true;
            queued.head = Bytes::new();
            queued.payload = Bytes::new();
            if let Some(session) = self.sessions.find_mut(session.0) {
                session.outgoing.remove(delivery);
            }
        } else {
            outgoing.queue.remove(place);
        }
        self.queued_bytes -= freed;
        Ok(true)
    }

    /// Part 2, 2.6.7: sending a message adds one to the delivery-count and takes one from the credit.
    pub(in crate::connection) fn use_credit(&mut self, link: LinkId) {
        if let Some(link) = self.links.find_mut(link.0) {
            link.delivery_count = link.delivery_count.wrapping_add(1);
            link.credit = link.credit.saturating_sub(1);
        }
    }

    /// Puts a link in line to send, if it has something to send and may.
    pub(in crate::connection) fn list_sender(&mut self, id: LinkId) {
        let Some(link) = self.links.find_mut(id.0) else {
            return;
        };
        let (session, credit) = (link.session, link.credit);
        let Some(outgoing) = link.outgoing() else {
            return;
        };
        let is_begun = outgoing
            .queue
            .front()
            .is_some_and(|front| front.started_as.is_some());
        if outgoing.is_listed || outgoing.queue.is_empty() || (credit == 0 && !is_begun) {
            return;
        }
        outgoing.is_listed = true;
        if let Some(session) = self.sessions.find_mut(session.0) {
            session.senders.push_back(id.0.slot);
        }
        self.list_ready(session);
    }

    /// Empties a link that is over: what it held of bytes, frames and maps. Returns the tokens that are the
    /// embedder's again, oldest first.
    pub(in crate::connection) fn drop_link_contents(&mut self, id: LinkId) -> Vec<u64> {
        let slot = id.0.slot;
        let mut tokens = Vec::new();
        let Some(link) = self.links.find_mut(id.0) else {
            return tokens;
        };
        let session = self.sessions.find_mut(link.session.0);
        link.credit = 0;
        link.wants_flow = false;
        match &mut link.end {
            super::End::Incoming(incoming) => {
                incoming.log_dropped();
                self.partial_bytes.give_back(incoming.bytes());
                *incoming = super::Incoming::new(0);
                if let Some(session) = session {
                    session
                        .incoming
                        .remove_where(|_, received| received.link == slot);
                    session.flow_links.retain(|listed| *listed != slot);
                }
            }
            super::End::Outgoing(outgoing) => {
                let queue = core::mem::take(&mut outgoing.queue);
                outgoing.is_listed = false;
                if let Some(session) = session {
                    session.outgoing.remove_where(|_, sent| {
                        let is_ours = sent.link == slot;
                        if is_ours {
                            tokens.push(sent.token);
                        }
                        is_ours
                    });
                    session.senders.retain(|listed| *listed != slot);
                    session.flow_links.retain(|listed| *listed != slot);
                }
                for queued in queue {
                    self.queued_bytes -= queued.len();
                    // A begun one is in the session's map; a settled one that is begun is gone either way.
                    if queued.started_as.is_none() {
                        tokens.push(queued.token);
                    }
                }
            }
        }
        tokens
    }
}
