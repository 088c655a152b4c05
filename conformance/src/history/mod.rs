//! Histories: what clients did and saw, one event a line, and the judge that says whether a broker may behave so.
//!
//! A history is made by whoever drives clients (the simulator, the tests with real processes) and knows nothing of the
//! broker inside. Times are nanoseconds of one clock that only moves on: an `inv` is stamped before the bytes are
//! written, a result after they were read, so that an order seen in the times is an order that happened.

mod check;
mod event;
mod line;
mod log;
mod tables;

pub use check::{Class, Report, Verdict, check};
pub use event::{Event, Outcome, What};
pub use line::{parse, print};
