//! What every runtime front end needs and no runtime is needed for: limits on who may be connected, hand-over in batches
//! between tasks, the broker's task, the store behind it, and the order of going down.
//!
//! Everything here waits by [`std::task::Context`] and tells its deadlines; sockets, timers and threads that run tasks
//! are brought by `qq-runtime-tokio` and `qq-runtime-smol`. Binaries use those, not this crate.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "drivers own clocks, locks and threads so that the pure crates need none"
)]

mod admission;
mod clock;
mod config;
mod driver;
mod keeper;
mod post;
mod quiet;
mod recovered;
mod shared;
mod shutdown;
mod store;

pub use admission::Admitted;
pub use clock::Clock;
pub use config::{Config, Listener, RuntimeError};
pub use driver::Driver;
pub use post::{Inbox, Letter, Mail, Mailbox, Post};
pub use quiet::Quiet;
pub use recovered::Recovered;
pub use shared::{Seat, Shared, prepare};
pub use shutdown::Shutdown;
