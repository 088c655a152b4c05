//! Answers that belong to no request in particular.

use alloc::string::String;

/// 0x07 ERROR.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ErrorResponse {
    /// Which kind of error, see [`ErrorCode`](crate::error::ErrorCode).
    #[prost(uint32, tag = "1")]
    pub code: u32,
    /// For people, and for clients that compare texts.
    #[prost(string, tag = "2")]
    pub message: String,
}

/// 0x62 DONE: the answer to CONSUME, ACK, NACK and UNSUBSCRIBE where one was asked for.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct DoneResponse {}
