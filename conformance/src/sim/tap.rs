//! A face with a listener: everything that it says to the broker and hears from it is passed on in order.

use std::collections::VecDeque;
use std::sync::mpsc::Sender;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use qq_core::broker::Now;
use qq_core::face::Face;
use qq_core::vocab::{Command, ConnId, Notice, Refusal};

/// What passed between a face and the broker.
#[derive(Debug)]
pub(super) enum Heard {
    Commands(ConnId, Vec<Command>),
    Notices(ConnId, Vec<Notice>),
    /// The node let go of the face.
    Gone(ConnId),
}

/// See the module.
pub(super) struct Tap {
    pub(super) face: Box<dyn Face>,
    pub(super) conn: ConnId,
    /// Nobody listens any more when the run is over; then what is said is of no interest.
    pub(super) listener: Sender<Heard>,
}

impl Face for Tap {
    fn handle_input(&mut self, now: Now, input: &mut BytesMut) {
        self.face.handle_input(now, input);
    }

    fn handle_notices(&mut self, now: Now, notices: &mut Vec<Notice>) {
        let _ = self
            .listener
            .send(Heard::Notices(self.conn, notices.clone()));
        self.face.handle_notices(now, notices);
    }

    fn handle_eof(&mut self, now: Now) {
        self.face.handle_eof(now);
    }

    fn handle_timeout(&mut self, now: Now) {
        self.face.handle_timeout(now);
    }

    fn handle_shutdown(&mut self, now: Now, refusal: &Refusal) {
        self.face.handle_shutdown(now, refusal);
    }

    fn poll_commands(&mut self, commands: &mut Vec<Command>) {
        let before = commands.len();
        self.face.poll_commands(commands);
        if commands.len() > before {
            let said = commands[before..].to_vec();
            let _ = self.listener.send(Heard::Commands(self.conn, said));
        }
    }

    fn poll_transmit(&mut self, now: Now, out: &mut VecDeque<Bytes>, budget: usize) -> usize {
        self.face.poll_transmit(now, out, budget)
    }

    fn poll_timeout(&self) -> Option<Duration> {
        self.face.poll_timeout()
    }

    fn wants_read(&self) -> bool {
        self.face.wants_read()
    }

    fn is_authenticated(&self) -> bool {
        self.face.is_authenticated()
    }

    fn is_done(&self) -> bool {
        self.face.is_done()
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        let _ = self.listener.send(Heard::Gone(self.conn));
    }
}
