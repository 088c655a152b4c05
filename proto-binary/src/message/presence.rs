//! Who the peer is and whether it is there: AUTH and PING.

use alloc::string::String;
use core::fmt;

use bytes::Bytes;

/// 0x40 AUTH. Its debug form hides the token.
#[derive(Clone, PartialEq, ::prost::Message)]
#[prost(skip_debug)]
pub struct AuthRequest {
    /// The secret.
    #[prost(string, tag = "1")]
    pub token: String,
}

impl fmt::Debug for AuthRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuthRequest(..)")
    }
}

/// 0x41 AUTH_RESPONSE.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct AuthResponse {
    /// Whether the token was right.
    #[prost(bool, tag = "1")]
    pub success: bool,
    /// For people.
    #[prost(string, tag = "2")]
    pub message: String,
}

/// 0x60 PING, from either side.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PingRequest {
    /// Anything; comes back in the answer.
    #[prost(bytes = "bytes", tag = "1")]
    pub data: Bytes,
}

/// 0x61 PONG.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PingResponse {
    /// As it came.
    #[prost(bytes = "bytes", tag = "1")]
    pub data: Bytes,
}
