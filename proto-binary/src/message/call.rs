//! What CALL carries, and its answer.

use alloc::collections::BTreeMap;
use alloc::string::String;

use bytes::Bytes;

/// 0x20 CALL.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct CallRequest {
    /// The queue or stream.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// The body, opaque to the protocol.
    #[prost(bytes = "bytes", tag = "2")]
    pub payload: Bytes,
    /// Opaque to the protocol.
    #[prost(btree_map = "string, string", tag = "3")]
    pub headers: BTreeMap<String, String>,
    /// 0: 30,000.
    #[prost(uint32, tag = "4")]
    pub timeout_ms: u32,
}

/// 0x21 CALL_RESPONSE.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct CallResponse {
    /// The body, opaque to the protocol.
    #[prost(bytes = "bytes", tag = "1")]
    pub payload: Bytes,
    /// Opaque to the protocol.
    #[prost(btree_map = "string, string", tag = "2")]
    pub headers: BTreeMap<String, String>,
}
