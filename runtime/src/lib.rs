//! What every runtime front end needs and no runtime is needed for: limits on who may be connected, accept loops and
//! connections, hand-over in batches between tasks, the broker's task, the store behind it, and the order of going down.
//!
//! Everything here waits by [`std::task::Context`] and tells its deadlines; sockets, timers and threads that run tasks
//! are brought by `qq-runtime-tokio` and `qq-runtime-smol` (see [`front`]). Binaries use those, not this crate.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "drivers own clocks, locks and threads so that the pure crates need none"
)]

mod accept;
mod admission;
mod clock;
mod config;
mod driver;
pub mod front;
mod keeper;
mod meter;
mod operators;
mod peer;
mod post;
mod quiet;
mod recovered;
mod scratch;
mod shared;
mod shutdown;
mod store;
mod timer;
mod watch;

pub use accept::{AcceptLoop, Visitor};
pub use clock::Clock;
pub use config::{Config, Listener, RuntimeError};
pub use driver::Driver;
pub use meter::{Meter, StoreTimes, metered};
pub use operators::{Operators, Unanswered};
pub use recovered::Recovered;
pub use shared::{Shared, prepare};
pub use shutdown::Shutdown;
pub use timer::Timer;
