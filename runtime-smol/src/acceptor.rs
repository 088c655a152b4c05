//! A listening socket of this runtime.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::task::{Context, Poll, ready};

use qq_runtime::front;
use smol::Async;

/// Accepts sockets that belong to no IO thread yet.
pub(crate) struct Acceptor {
    listener: Async<TcpListener>,
}

impl Acceptor {
    /// Takes over a listening socket.
    pub(crate) fn new(listener: TcpListener) -> io::Result<Self> {
        Ok(Self {
            listener: Async::new(listener)?,
        })
    }
}

impl front::Acceptor for Acceptor {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        loop {
            match self.listener.get_ref().accept() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.listener.poll_readable(cx))?;
                }
                Err(error) => return Poll::Ready(Err(error)),
                Ok((stream, address)) => {
                    stream.set_nonblocking(true)?;
                    return Poll::Ready(Ok((stream, address)));
                }
            }
        }
    }
}
