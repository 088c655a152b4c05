//! A connected socket of this runtime.

use std::cell::RefCell;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::task::{Context, Poll};

use bytes::BytesMut;
use qq_runtime::front;
use smol::Async;

thread_local! {
    /// Reading wants initialised memory; one piece of it per thread costs less than making it for every read.
    static INITIALISED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A stream that belongs to the IO thread it was made on.
pub(crate) struct Socket {
    stream: Async<TcpStream>,
    /// A read may find something: nothing said the opposite yet.
    is_readable: bool,
    /// The same for a write.
    is_writable: bool,
}

impl front::Socket for Socket {
    fn new(stream: TcpStream) -> io::Result<Self> {
        // Without this a small frame waits for the peer's acknowledgement.
        stream.set_nodelay(true)?;
        let stream = Async::new_nonblocking(stream)?;
        Ok(Self {
            stream,
            is_readable: true,
            is_writable: true,
        })
    }

    fn poll_readable(&mut self, cx: &mut Context<'_>) -> bool {
        self.is_readable = self.is_readable || self.stream.poll_readable(cx).is_ready();
        self.is_readable
    }

    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        let room = buffer.capacity() - buffer.len();
        while self.poll_readable(cx) {
            let read = INITIALISED.with_borrow_mut(|memory| {
                if memory.len() < room {
                    memory.resize(room, 0);
                }
                let read = self.stream.get_ref().read(&mut memory[..room])?;
                buffer.extend_from_slice(&memory[..read]);
                Ok::<_, io::Error>(read)
            });
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.is_readable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(read) => {
                    // Less than asked for was all there was.
                    self.is_readable = read == room || read == 0;
                    return Poll::Ready(Ok(read));
                }
            }
        }
        Poll::Pending
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            self.is_writable = self.is_writable || self.stream.poll_writable(cx).is_ready();
            if !self.is_writable {
                return Poll::Pending;
            }
            match self.stream.get_ref().write_vectored(slices) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.is_writable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return Poll::Ready(other),
            }
        }
    }

    fn shutdown_write(&mut self) {
        // It may be gone already; then there is nobody to tell.
        let _ = self.stream.get_ref().shutdown(Shutdown::Write);
    }
}
