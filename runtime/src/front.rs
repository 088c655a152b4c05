//! What a front end brings: sockets that can be polled, and a way to sleep. Four small traits of plain poll functions,
//! with no bound that their users would have to repeat, so that connections and accept loops are written once.

use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpStream};
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::BytesMut;

use crate::accept::Visitor;

/// A connected socket. Waiting and doing are apart, so that no buffer is needed for waiting.
pub trait Socket: Sized {
    /// Takes over a socket that does not block. To be called on the IO thread that it will belong to.
    ///
    /// # Errors
    /// When the system refuses.
    fn new(stream: TcpStream) -> io::Result<Self>;

    /// Whether a read may find something; else the task is woken when it may.
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> bool;

    /// Appends what is there, at most `buffer`'s free capacity, which is not 0. 0 bytes are the end.
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut BytesMut)
    -> Poll<io::Result<usize>>;

    /// Writes what fits now; else the task is woken when something fits.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>>;

    /// Tells the peer that nothing more comes.
    fn shutdown_write(&mut self);
}

/// One wake-up that can be moved.
pub trait Sleep {
    /// Sleeps until then.
    fn until(at: Instant) -> Self;

    /// Sleeps until then instead.
    fn reset(&mut self, at: Instant);

    /// Whether it is over; else the task is woken when it is. It stays over until it is reset: a task that is late finds
    /// its sleep over at once, and must find the same at its next turn.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// A listening socket.
pub trait Acceptor {
    /// The next connection, not blocking and belonging to no IO thread yet. After an error the next call tries again at
    /// once.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>>;
}

/// Runs connections on IO threads.
pub trait Host {
    /// How many threads there are.
    fn threads(&self) -> usize;

    /// Runs [`Visitor::stay`] on thread number `thread`. Its panic ends only itself.
    fn take_in(&self, thread: usize, visitor: Visitor);
}
