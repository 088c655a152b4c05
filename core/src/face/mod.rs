//! Faces: each glues one protocol's connection machine to the broker's vocabulary.

pub mod amqp;
pub mod binary;
mod login;
pub mod mapping;

use core::net::IpAddr;
use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use crate::broker::Now;
use crate::vocab::{Command, Notice, Refusal};

pub use login::{Authenticate, Login, LoginAnswer, LoginStep};

/// One peer, seen from the broker's side. Same contract as every machine: after any `handle_*`, drain
/// [`Face::poll_commands`], then [`Face::poll_transmit`], then [`Face::poll_commands`] once more (drained output makes
/// room for new permits), then read [`Face::poll_timeout`].
pub trait Face: Send {
    /// Bytes arrived. Whole frames are taken, the rest is left in `input`.
    fn handle_input(&mut self, now: Now, input: &mut BytesMut);
    /// The broker said something. The vector is drained.
    fn handle_notices(&mut self, now: Now, notices: &mut Vec<Notice>);
    /// The peer will send no more.
    fn handle_eof(&mut self, now: Now);
    /// The time of [`Face::poll_timeout`] came.
    fn handle_timeout(&mut self, now: Now);
    /// The node goes down or wants the peer gone: close politely.
    fn handle_shutdown(&mut self, now: Now, refusal: &Refusal);
    /// Appends commands for the broker.
    fn poll_commands(&mut self, commands: &mut Vec<Command>);
    /// Appends at most about `budget` bytes for the peer; returns how many.
    fn poll_transmit(&mut self, now: Now, out: &mut VecDeque<Bytes>, budget: usize) -> usize;
    /// When [`Face::handle_timeout`] wants to be called next.
    fn poll_timeout(&self) -> Option<Duration>;
    /// Whether input is welcome; while false the driver leaves bytes in the socket.
    fn wants_read(&self) -> bool;
    /// Whether the peer passed its hand-shake (else it counts as unauthenticated).
    fn is_authenticated(&self) -> bool;
    /// Whether everything was said and the socket can be closed.
    fn is_done(&self) -> bool;
}

/// What a face is made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerInfo {
    /// For logs.
    pub address: String,
    /// For bounds by origin. None where peers have none, such as in tests.
    pub ip: Option<IpAddr>,
}

/// Makes a face for a new connection.
pub type FaceFactory = std::sync::Arc<dyn Fn(Now, PeerInfo) -> Box<dyn Face> + Send + Sync>;
