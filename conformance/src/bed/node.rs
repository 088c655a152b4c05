//! The bed of the broker in process: virtual time, no sockets.
