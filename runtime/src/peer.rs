//! One connection: moves bytes between its socket and its face, and values between its face and the broker.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use qq_core::broker::{Event, Now};
use qq_core::face::Face;

use crate::front::{Sleep, Socket};
use crate::post::{Letter, Mail};
use crate::scratch::{Scratch, with_scratch};
use crate::shared::Seat;
use crate::timer::Timer;

/// Input up to this size is copied to memory of its own, so that a name that a face keeps, or a frame that came only in
/// part, does not hold on to a read buffer.
const COPY_MAX: usize = 8 * 1024;
/// Bytes read at once from a peer that is not let in yet. What it sends may have to be held while somebody thinks about
/// its login, and a stranger may cost 32 KiB.
const STRANGER_READ: usize = 8 * 1024;
/// Slices given to one write.
const SLICES_MAX: usize = 64;
/// After the last word: how long and how much is still read, so that unread bytes do not turn it into a reset.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 256 * 1024;

/// Why a connection has nothing more to do with the broker.
enum End {
    /// Everything was said.
    Said,
    /// The socket failed or must be cut.
    Lost(String),
}

/// One connection's task.
pub(crate) struct Peer<S, T> {
    face: Box<dyn Face>,
    socket: S,
    timer: Timer<T>,
    /// Bytes that were read and not taken: the beginning of a frame.
    rest: BytesMut,
    output: VecDeque<Bytes>,
    output_bytes: usize,
    /// When output that makes no progress has waited too long.
    stalled_until: Option<Duration>,
    /// Until when, and how many bytes, a connection that said everything is still read.
    linger: Option<(Duration, usize)>,
    is_eof: bool,
    is_paused: bool,
    is_joined: bool,
    seat: Seat,
}

impl<S: Socket, T: Sleep> Peer<S, T> {
    pub(crate) fn new(seat: Seat, socket: S, face: Box<dyn Face>) -> Self {
        Self {
            face,
            socket,
            timer: Timer::default(),
            rest: BytesMut::new(),
            output: VecDeque::new(),
            output_bytes: 0,
            stalled_until: None,
            linger: None,
            is_eof: false,
            is_paused: false,
            is_joined: false,
            seat,
        }
    }

    /// One turn of the task.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        with_scratch(|scratch| self.poll_turn(cx, scratch))
    }

    fn poll_turn(&mut self, cx: &mut Context<'_>, scratch: &mut Scratch) -> Poll<()> {
        let now = self.seat.shared.clock.now();
        if self.linger.is_none() {
            match self.serve(cx, now, scratch) {
                Ok(()) => {}
                Err(End::Lost(why)) => {
                    log::debug!("connection {}: {why}", self.seat.conn.0);
                    return Poll::Ready(());
                }
                Err(End::Said) => {
                    self.seat.shared.inbox.push(Letter::Leave(self.seat.conn));
                    self.socket.shutdown_write();
                    self.linger = Some((now.mono + LINGER, LINGER_BYTES));
                }
            }
        }
        if self.linger.is_some()
            && (self.is_eof || self.poll_linger(cx, now.mono, scratch).is_ready())
        {
            return Poll::Ready(());
        }
        let lingering = self.linger.map(|(until, _)| until);
        let face = if lingering.is_none() {
            self.face.poll_timeout()
        } else {
            None
        };
        if let Some(deadline) = [face, lingering, self.stalled_until]
            .into_iter()
            .flatten()
            .min()
        {
            self.timer
                .arm(cx, &self.seat.shared.clock, now.mono, deadline);
        }
        Poll::Pending
    }

    fn serve(&mut self, cx: &mut Context<'_>, now: Now, scratch: &mut Scratch) -> Result<(), End> {
        self.seat.mailbox.poll_take(cx, &mut scratch.mail);
        for mail in scratch.mail.drain(..) {
            match mail {
                Mail::Notices(mut notices) => self.face.handle_notices(now, &mut notices),
                Mail::Shutdown(refusal) => self.face.handle_shutdown(now, &refusal),
                Mail::Evict => {
                    return Err(End::Lost("made room before its hand-shake was done".into()));
                }
            }
        }
        if self.face.poll_timeout().is_some_and(|at| at <= now.mono) {
            self.face.handle_timeout(now);
        }
        self.receive(cx, now, scratch)?;
        self.report(scratch);
        self.transmit(cx, now, scratch)?;
        // Output that went out can free permits.
        self.report(scratch);
        if self.face.is_done() && self.output.is_empty() {
            return Err(End::Said);
        }
        if self.is_paused && self.has_room_for_input() {
            cx.waker().wake_by_ref();
        }
        Ok(())
    }

    /// Whether the face wants input and earlier output does not wait.
    fn has_room_for_input(&self) -> bool {
        let room = self.output_bytes < self.seat.shared.transmit_bytes;
        !self.is_eof && room && self.face.wants_read()
    }

    /// One read of the socket, when the face wants it and earlier output does not wait.
    fn receive(
        &mut self,
        cx: &mut Context<'_>,
        now: Now,
        scratch: &mut Scratch,
    ) -> Result<(), End> {
        if self.is_paused && self.has_room_for_input() {
            self.is_paused = false;
            // Frames that the face left when it had enough; nothing wakes the task for those.
            self.face.handle_input(now, &mut self.rest);
        }
        if !self.has_room_for_input() {
            self.is_paused = true;
            return Ok(());
        }
        if !self.socket.poll_readable(cx) {
            return Ok(());
        }
        let read_bytes = self.seat.shared.read_bytes;
        let mut buffer = if !self.is_joined || self.rest.len() > COPY_MAX {
            std::mem::take(&mut self.rest)
        } else {
            let mut buffer = std::mem::take(&mut scratch.input);
            buffer.extend_from_slice(&std::mem::take(&mut self.rest));
            buffer
        };
        buffer.reserve(if self.is_joined {
            read_bytes
        } else {
            read_bytes.min(STRANGER_READ)
        });
        let room = buffer.capacity() - buffer.len();
        let poll = self.socket.poll_read(cx, &mut buffer);
        if buffer.len() <= COPY_MAX {
            self.rest = BytesMut::from(&buffer[..]);
            keep_larger(&mut scratch.input, buffer);
        } else {
            self.rest = buffer;
        }
        match poll {
            Poll::Pending => {}
            Poll::Ready(Err(error)) => return Err(End::Lost(error.to_string())),
            Poll::Ready(Ok(0)) => {
                self.is_eof = true;
                self.face.handle_eof(now);
            }
            Poll::Ready(Ok(bytes)) => {
                self.face.handle_input(now, &mut self.rest);
                // Others first, among them the broker with what this read brought.
                if bytes == room || self.socket.poll_readable(cx) {
                    cx.waker().wake_by_ref();
                }
            }
        }
        if self.rest.len() <= COPY_MAX {
            let rest = BytesMut::from(&self.rest[..]);
            let buffer = std::mem::replace(&mut self.rest, rest);
            keep_larger(&mut scratch.input, buffer);
        }
        Ok(())
    }

    /// Hands the face's commands to the broker.
    fn report(&mut self, scratch: &mut Scratch) {
        self.face.poll_commands(&mut scratch.commands);
        let shared = &self.seat.shared;
        if !self.is_joined && (self.face.is_authenticated() || !scratch.commands.is_empty()) {
            self.is_joined = true;
            self.seat.join();
        }
        if !scratch.commands.is_empty() {
            let commands = std::mem::take(&mut scratch.commands);
            shared.inbox.push(Letter::Event(Event::Commands {
                conn: self.seat.conn,
                commands,
            }));
        }
    }

    /// Writes until the socket or the turn is full, asking the face for more only when little is left.
    fn transmit(
        &mut self,
        cx: &mut Context<'_>,
        now: Now,
        scratch: &mut Scratch,
    ) -> Result<(), End> {
        let budget = self.seat.shared.transmit_bytes;
        let mut left = budget.saturating_mul(2);
        if self.output.is_empty() {
            std::mem::swap(&mut self.output, &mut scratch.output);
        }
        loop {
            if self.output_bytes <= budget / 2 {
                let room = budget - self.output_bytes;
                self.output_bytes += self.face.poll_transmit(now, &mut self.output, room);
            }
            if self.output.is_empty() {
                std::mem::swap(&mut self.output, &mut scratch.output);
                self.stalled_until = None;
                return Ok(());
            }
            if left == 0 {
                cx.waker().wake_by_ref();
                return Ok(());
            }
            match self.write(cx) {
                Poll::Ready(Ok(bytes)) => {
                    self.stalled_until = None;
                    left = left.saturating_sub(bytes);
                }
                Poll::Ready(Err(error)) => return Err(End::Lost(error.to_string())),
                Poll::Pending => {
                    let until = *self
                        .stalled_until
                        .get_or_insert(now.mono + self.seat.shared.slow_reader);
                    if until <= now.mono {
                        return Err(End::Lost("does not read what it is sent".into()));
                    }
                    return Ok(());
                }
            }
        }
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<usize>> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let used = slices
            .iter_mut()
            .zip(&self.output)
            .map(|(slice, bytes)| *slice = IoSlice::new(bytes))
            .count();
        let poll = self.socket.poll_write(cx, &slices[..used]);
        if let Poll::Ready(Ok(written)) = poll {
            self.output_bytes = self.output_bytes.saturating_sub(written);
            let mut written = written;
            while let Some(front) = self.output.front_mut() {
                if front.len() > written {
                    front.advance(written);
                    break;
                }
                written -= front.len();
                self.output.pop_front();
            }
        }
        poll
    }

    /// Reads and forgets. Ready when the peer closed, or time or patience is over.
    fn poll_linger(
        &mut self,
        cx: &mut Context<'_>,
        now: Duration,
        scratch: &mut Scratch,
    ) -> Poll<()> {
        loop {
            let Some((until, left)) = self
                .linger
                .filter(|(until, left)| now < *until && *left > 0)
            else {
                return Poll::Ready(());
            };
            if !self.socket.poll_readable(cx) {
                return Poll::Pending;
            }
            scratch.input.clear();
            scratch.input.reserve(self.seat.shared.read_bytes);
            match self.socket.poll_read(cx, &mut scratch.input) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(_) | Ok(0)) => return Poll::Ready(()),
                Poll::Ready(Ok(bytes)) => self.linger = Some((until, left.saturating_sub(bytes))),
            }
            scratch.input.clear();
        }
    }
}

/// Keeps one of two buffers for the next turn: the one that holds more.
fn keep_larger(kept: &mut BytesMut, mut other: BytesMut) {
    other.clear();
    if other.capacity() > kept.capacity() {
        *kept = other;
    }
}
