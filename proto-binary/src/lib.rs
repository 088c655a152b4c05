//! The QWER-Q binary protocol as a machine without input or output of its own: both frame layouts, every message, and
//! [`connection::Connection`] for both roles.
//!
//! `no_std` with `alloc`; no clock, socket, thread or random source. An embedder brings bytes and time, see the README.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod connection;
pub mod error;
pub mod frame;
pub mod message;
pub mod opcode;
pub mod publish;
pub mod reply;
pub mod request;
pub mod stored;
mod wire;
