//! Binds ports before anything is served, so that a port in use ends the start and not half of the daemon.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

use crate::config::variable;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1_024;

/// Binds and listens. The port is that of `section` and `key` in the configuration.
///
/// # Errors
/// One line that names the address and the cause, and where another port is set if this one is taken.
pub(crate) fn bind(
    name: &str,
    (section, key): (&str, &str),
    address: SocketAddr,
) -> Result<TcpListener, String> {
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
    listen().map_err(|error: std::io::Error| {
        let mut text = format!("cannot listen on {address} ({name}): {error}");
        if error.kind() == ErrorKind::AddrInUse {
            text.push_str(&format!(
                "; another port is set by [{section}] {key} or {}, 0 takes a free one",
                variable(section, key)
            ));
        }
        text
    })
}
