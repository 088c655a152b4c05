//! Sockets, timers and threads for the broker, on smol.
//!
//! Every decision is made in `qq-core`, and what needs no runtime is in `qq-runtime`: connections, accept loops, the
//! broker's task. This crate polls sockets, sleeps, and runs tasks: one per connection, one for each listener, one for the
//! broker. The broker's task lives on the first IO thread, so that a connection of that thread and the broker hand over to
//! each other without a system call.
//!
//! The crate for the other runtime is a mirror: same files, same functions.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "drivers own clocks, sockets and threads so that the pure crates need none"
)]

mod acceptor;
mod io;
mod run;
mod sleep;
mod socket;

pub use qq_runtime::{
    Clock, Config, Listener, Meter, Operators, Recovered, RuntimeError, Shutdown, metered,
};
pub use run::run;
