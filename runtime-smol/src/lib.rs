//! Sockets, timers and threads for the broker, on smol.
//!
//! Every decision is made in `qq-core`; this crate moves bytes between sockets and faces, and batches of values between
//! faces and the broker. One task per connection, one for each listener, one for the broker. The broker's task lives on
//! the first IO thread, so that a connection of that thread and the broker hand over to each other without a system
//! call.
//!
//! The crate for the other runtime is a mirror: same files, same functions. Only `acceptor.rs`, `io.rs`, `socket.rs` and
//! `timer.rs` know which runtime they are on; what needs no runtime at all is in `qq-runtime`.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "drivers own clocks, sockets and threads so that the pure crates need none"
)]

mod accept;
mod acceptor;
mod io;
mod peer;
mod run;
mod scratch;
mod socket;
mod timer;

pub use qq_runtime::{Clock, Config, Listener, Recovered, RuntimeError, Shutdown};
pub use run::run;
