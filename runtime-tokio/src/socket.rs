//! A connected socket of this runtime.

use std::future::Future;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::BytesMut;
use qq_runtime::front;
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;

/// A stream that belongs to the IO thread it was made on.
pub(crate) struct Socket {
    stream: TcpStream,
}

impl front::Socket for Socket {
    fn new(stream: std::net::TcpStream) -> io::Result<Self> {
        // Without this a small frame waits for the peer's acknowledgement.
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: TcpStream::from_std(stream)?,
        })
    }

    fn poll_readable(&mut self, cx: &mut Context<'_>) -> bool {
        self.stream.poll_read_ready(cx).is_ready()
    }

    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        pin!(self.stream.read_buf(buffer)).poll(cx)
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn shutdown_write(&mut self) {
        // It may be gone already; then there is nobody to tell.
        let _ = socket2::SockRef::from(&self.stream).shutdown(Shutdown::Write);
    }
}
