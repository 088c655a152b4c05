//! Binds ports before anything is served, so that a port in use ends the start and not half of the daemon.

use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1_024;

/// Binds and listens.
///
/// # Errors
/// One line that names the address and the cause.
pub(crate) fn bind(name: &str, address: SocketAddr) -> Result<TcpListener, String> {
    let listen = || {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::STREAM,
            Some(Protocol::TCP),
        )?;
        // A restart must not wait for connections of the last run to be forgotten.
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        Ok(TcpListener::from(socket))
    };
    listen()
        .map_err(|error: std::io::Error| format!("cannot listen on {address} ({name}): {error}"))
}
