//! What goes out: control frames as they arise, then dispositions, flows and queued messages when the driver asks.
//!
//! Sessions with something to say stand in one queue; a call without work looks at nothing else.

use alloc::collections::VecDeque;
use core::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};

use super::ids::{LinkId, SessionId};
use super::link::outgoing::{Queued, Sent};
use super::output::Output;
use super::{Connection, PROGRESS_TRANSFER, State};
use crate::types::DeliveryTag;

/// Queued messages are encoded no further ahead than this, whatever the driver's budget.
const AHEAD_MAX: usize = 256 * 1024;
const FRAME_HEADER: usize = 8;

/// The fields of a transfer that we send.
pub(super) struct TransferHead<'a> {
    pub(super) handle: u32,
    pub(super) delivery_id: Option<u32>,
    pub(super) tag: Option<&'a DeliveryTag>,
    pub(super) message_format: u32,
    pub(super) settled: bool,
    pub(super) more: bool,
    pub(super) aborted: bool,
    pub(super) batchable: bool,
    /// The transaction that it belongs to.
    pub(super) txn_id: Option<&'a [u8]>,
}

impl TransferHead<'_> {
    /// Largest size of the frame without its payload: frame header, descriptor, list header, fields.
    pub(super) fn frame_len_max(&self) -> usize {
        let tag = self.tag.map_or(1, |tag| 2 + tag.as_slice().len());
        // Descriptor, list header and the id; the transfer's own fields before it are counted as present.
        let state = self.txn_id.map_or(0, |id| 6 + 2 + id.len());
        FRAME_HEADER + 3 + 3 + 5 + 5 + tag + 5 + 7 + state
    }

    /// Writes a frame whose payload is the first `size` bytes of `head` and `payload`.
    pub(super) fn write(
        &self,
        output: &mut Output,
        channel: u16,
        head: &[u8],
        payload: &Bytes,
        size: usize,
    ) {
        let from_head = size.min(head.len());
        let from_payload = size - from_head;
        let buf = output.buf();
        buf.reserve(
            self.frame_len_max()
                + from_head
                + if from_payload < super::output::SLICE_MIN {
                    from_payload
                } else {
                    0
                },
        );
        let start = buf.len();
        buf.put_slice(&[0, 0, 0, 0, 2, 0]);
        buf.put_u16(channel);
        // transfer (part 2, 2.7.5) as list8: its fields never come near 255 bytes.
        buf.put_slice(&[0x00, 0x53, 0x14, 0xc0, 0, 0]);
        let fields = buf.len();
        self.put_fields(buf);
        let fields_len = buf.len() - fields;
        buf[fields - 2] =
            u8::try_from(fields_len + 1).expect("a transfer's fields are below 255 bytes");
        let frame_len = buf.len() - start + size;
        let frame_len = u32::try_from(frame_len).expect("frames are cut to the peer's maximum");
        buf[start..start + 4].copy_from_slice(&frame_len.to_be_bytes());
        buf.put_slice(&head[..from_head]);
        if from_payload == payload.len() {
            output.push_payload(payload);
        } else {
            output.push_payload(&payload.slice(..from_payload));
        }
    }

    fn put_fields(&self, buf: &mut BytesMut) {
        let count_at = buf.len() - 1;
        let mut count = 2;
        put_uint(buf, self.handle);
        match self.delivery_id {
            Some(id) => put_uint(buf, id),
            None => buf.put_u8(0x40),
        }
        if let Some(tag) = self.tag {
            let tag = tag.as_slice();
            buf.put_slice(&[0xa0, tag.len() as u8]);
            buf.put_slice(tag);
            put_uint(buf, self.message_format);
            put_bool(buf, self.settled);
            count = 5;
        }
        let has_tail = self.aborted || self.batchable;
        if self.more || has_tail || self.txn_id.is_some() {
            if count == 2 {
                buf.put_slice(&[0x40, 0x40, 0x40]);
            }
            put_bool(buf, self.more);
            count = 6;
        }
        if let Some(id) = self.txn_id {
            // transactional-state (part 4, 4.5.8) as list8 with the id alone.
            let len = id.len() as u8;
            buf.put_slice(&[0x40, 0x00, 0x53, 0x34, 0xc0, len + 3, 1, 0xa0, len]);
            buf.put_slice(id);
            count = 8;
        }
        if has_tail {
            if self.txn_id.is_none() {
                buf.put_slice(&[0x40, 0x40]);
            }
            buf.put_u8(0x40);
            put_bool(buf, self.aborted);
            count = 10;
        }
        if self.batchable {
            buf.put_u8(0x41);
            count = 11;
        }
        buf[count_at] = count;
    }
}

fn put_bool(buf: &mut BytesMut, value: bool) {
    buf.put_u8(if value { 0x41 } else { 0x42 });
}

fn put_uint(buf: &mut BytesMut, value: u32) {
    match value {
        0 => buf.put_u8(0x43),
        1..=255 => buf.put_slice(&[0x52, value as u8]),
        _ => {
            buf.put_u8(0x70);
            buf.put_u32(value);
        }
    }
}

/// What became of a turn to send.
enum Turn {
    /// A frame went out and there is more.
    Again,
    /// Nothing more to send, or no credit for it.
    Done,
    /// The session window is closed.
    Blocked,
}

impl Connection {
    /// Moves output to the driver's queue, about `budget` bytes at most. Returns the bytes added.
    pub fn poll_transmit(
        &mut self,
        now: Duration,
        out: &mut VecDeque<Bytes>,
        budget: usize,
    ) -> usize {
        self.see(now);
        let ahead = budget.min(AHEAD_MAX);
        while self.output.len() < ahead
            && let Some(id) = self.ready.pop_front()
        {
            if self.pump_session(id, ahead) {
                self.ready.push_back(id);
            } else if let Some(session) = self.sessions.find_mut(id.0) {
                session.is_ready = false;
            }
        }
        if self.output.is_empty() {
            if !self.is_heartbeat_due() {
                self.timers.stuck_since = None;
                return 0;
            }
            self.output.buf().put_slice(&[0, 0, 0, 8, 2, 0, 0, 0]);
        }
        let moved = self.output.drain(out, budget);
        self.note_sent(moved);
        moved
    }

    /// Puts a session in the queue of those with something to send.
    pub(super) fn list_ready(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.find_mut(id.0)
            && !session.is_ready
        {
            session.is_ready = true;
            self.ready.push_back(id);
        }
    }

    /// Writes what a session has to say. Returns whether it has more when the output is full.
    fn pump_session(&mut self, id: SessionId, ahead: usize) -> bool {
        self.flush_session(id);
        while let Some(session) = self.sessions.find_mut(id.0) {
            let Some(slot) = session.senders.front().copied() else {
                return false;
            };
            if self.output.len() >= ahead {
                return true;
            }
            match self.pump_link(id, slot) {
                Turn::Blocked => return false,
                Turn::Again => {
                    if let Some(session) = self.sessions.find_mut(id.0) {
                        session.senders.rotate_left(1);
                    }
                }
                Turn::Done => {
                    if let Some(session) = self.sessions.find_mut(id.0) {
                        session.senders.pop_front();
                    }
                }
            }
        }
        false
    }

    /// Writes one frame of a link's first queued message.
    fn pump_link(&mut self, id: SessionId, slot: u32) -> Turn {
        let frame_max = self.frame_out_max as usize;
        let Self {
            sessions,
            links,
            output,
            queued_bytes,
            ..
        } = self;
        let Some(session) = sessions.find_mut(id.0) else {
            return Turn::Done;
        };
        let Some((key, link)) = links.at_mut(slot) else {
            return Turn::Done;
        };
        let (handle, credit) = (link.handle_out, link.credit);
        let Some(outgoing) = link.outgoing() else {
            return Turn::Done;
        };
        let may_go = |front: &&mut Queued| front.started_as.is_some() || credit > 0;
        let Some(front) = outgoing.queue.front_mut().filter(may_go) else {
            outgoing.is_listed = false;
            self.finish_drain(LinkId(key));
            return Turn::Done;
        };
        if !session.is_window_open() {
            return Turn::Blocked;
        }
        let is_first = front.started_as.is_none();
        let delivery_id = front.started_as.unwrap_or(session.next_delivery_out);
        let mut frame = TransferHead {
            handle,
            // Repeated on each frame: some receivers look for it there.
            delivery_id: Some(delivery_id),
            tag: is_first.then_some(&front.tag),
            message_format: front.message_format,
            settled: front.is_settled,
            more: false,
            aborted: front.is_aborted,
            batchable: front.batchable,
            // The state of the first frame holds for the delivery (part 4, 4.4.1).
            txn_id: front.txn_id.as_deref().filter(|_| is_first),
        };
        let size = front.len().min(frame_max - frame.frame_len_max());
        let is_last = size == front.len();
        frame.more = !is_last;
        frame.write(
            output,
            session.channel_out,
            &front.head,
            &front.payload,
            size,
        );
        session.note_frame();
        *queued_bytes -= size;
        if is_first {
            session.note_delivery((!front.is_settled).then(|| Sent::new(slot, front.token)));
            front.started_as = Some(delivery_id);
        }
        if is_last {
            outgoing.pop_front();
        } else {
            front.advance(size);
        }
        if is_first {
            self.use_credit(LinkId(key));
        }
        self.no_progress.credit(PROGRESS_TRANSFER);
        Turn::Again
    }

    /// Notes that the driver took bytes: the heartbeat starts anew, and a reader that moves is not slow.
    fn note_sent(&mut self, moved: usize) {
        if moved > 0 {
            self.timers.last_sent = self.now;
        }
        if self.output.is_empty() {
            self.timers.stuck_since = None;
            if self.state == State::Done && self.ready.capacity() > 0 {
                self.ready = VecDeque::new();
            }
        } else if moved > 0 || self.timers.stuck_since.is_none() {
            self.timers.stuck_since = Some(self.now);
        }
    }
}
