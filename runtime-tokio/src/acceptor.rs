//! A listening socket of this runtime.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::task::{Context, Poll, ready};

use qq_runtime::front;
use tokio::net::TcpListener;

/// Accepts sockets that belong to no IO thread yet.
pub(crate) struct Acceptor {
    listener: TcpListener,
}

impl Acceptor {
    /// Takes over a listening socket.
    pub(crate) fn new(listener: std::net::TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener: TcpListener::from_std(listener)?,
        })
    }
}

impl front::Acceptor for Acceptor {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let (stream, address) = ready!(self.listener.poll_accept(cx))?;
        Poll::Ready(Ok((stream.into_std()?, address)))
    }
}
