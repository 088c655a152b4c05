//! The scripted peer's own wire codec. It must not use the broker's: the judge must not share
//! faults with the judged.

pub mod frame;
pub mod message;
pub mod perf;
pub mod value;

pub use frame::{Frame, HEADER_AMQP, HEADER_SASL, HEADER_TLS, frame_bytes, take_frame};
pub use perf::{Perf, perf, perf_of};
pub use value::{BadValue, Reader, Value, hex, hex_of, sym, text};
