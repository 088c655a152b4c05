//! AMQP 1.0 as a machine without input or output of its own: types, frames, message sections, and
//! [`connection::Connection`] for both roles with its sessions and links.
//!
//! `no_std` with `alloc`; no clock, socket, thread or random source. An embedder brings bytes and time, see the README.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod codec;
pub mod condition;
pub mod connection;
pub mod frame;
pub mod performative;
pub mod section;
pub mod serial;
pub mod types;
