//! A connected socket of this runtime. Waiting and doing are apart, so that no buffer is needed for waiting.

use std::future::Future;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;

/// A stream that belongs to the IO thread it was made on.
pub(crate) struct Socket {
    stream: TcpStream,
}

impl Socket {
    /// Takes over a socket that does not block.
    pub(crate) fn new(stream: std::net::TcpStream) -> io::Result<Self> {
        // Without this a small frame waits for the peer's acknowledgement.
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: TcpStream::from_std(stream)?,
        })
    }

    /// Whether a read may find something; else the task is woken when it may.
    pub(crate) fn poll_readable(&mut self, cx: &mut Context<'_>) -> bool {
        self.stream.poll_read_ready(cx).is_ready()
    }

    /// Appends what is there, at most `buffer`'s free capacity, which is not 0. 0 bytes are the end.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        pin!(self.stream.read_buf(buffer)).poll(cx)
    }

    /// Writes what fits now; else the task is woken when something fits.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    /// Tells the peer that nothing more comes.
    pub(crate) fn shutdown_write(&mut self) {
        // It may be gone already; then there is nobody to tell.
        let _ = socket2::SockRef::from(&self.stream).shutdown(Shutdown::Write);
    }
}
