//! Sockets, timers and threads for the broker, on smol.
//!
//! Every decision is made in `qq-core`; this crate moves bytes between sockets and faces, batches of values between
//! faces and the broker, and batches of changes between the broker and its store. One task per connection, one task
//! for the broker, one thread for a store that blocks. The broker's task lives on the first IO thread, so that a
//! connection of that thread and the broker hand over to each other without a system call.
//!
//! The crate for the other runtime is a mirror: same files, same functions. Only `io.rs` and `acceptor.rs`, `socket.rs`
//! and `timer.rs` beside it know which runtime they are on.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "drivers own clocks, sockets and threads so that the pure crates need none"
)]

mod accept;
mod acceptor;
mod admission;
mod clock;
mod config;
mod driver;
mod io;
mod peer;
mod post;
mod run;
mod scratch;
mod shutdown;
mod socket;
mod store;
mod timer;

pub use clock::Clock;
pub use config::{Config, Listener, RuntimeError};
pub use run::run;
pub use shutdown::Shutdown;
