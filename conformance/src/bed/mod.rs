//! Where scripts run: a bed connects byte streams to a broker and owns the time.
//!
//! Scripts know only this trait, so the same script drives the broker in process (virtual time),
//! the daemon over TCP, and any other broker.

#[cfg(feature = "node")]
pub mod node;
pub mod tcp;

/// What a read gave.
#[derive(Debug)]
pub enum Got {
    /// Some bytes, never empty.
    Bytes(Vec<u8>),
    /// The broker closed its side; nothing follows.
    Eof,
    /// Nothing came within the time given, which has passed.
    Quiet,
}

/// A broker within reach, and its clock. Connections are numbered by `connect`.
pub trait Bed {
    /// Opens a byte stream. The text says why it could not.
    fn connect(&mut self) -> Result<usize, String>;
    /// Sends bytes; false when the stream is gone.
    fn send(&mut self, conn: usize, bytes: &[u8]) -> bool;
    /// Waits at most `wait_ms` for bytes.
    fn recv(&mut self, conn: usize, wait_ms: u64) -> Got;
    /// Drops the stream without a word, as a cable that is cut.
    fn cut(&mut self, conn: usize);
    /// Lets time pass.
    fn wait(&mut self, ms: u64);
    /// Milliseconds since the bed was made, on the bed's own clock.
    fn now_ms(&self) -> u64;
    /// True when waiting costs nothing.
    fn is_virtual(&self) -> bool;
}
