//! What the schema registry is asked and answers.

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;

/// How versions of a schema must fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ::prost::Enumeration)]
#[repr(i32)]
pub enum Compatibility {
    /// Keep what the queue has; for a new queue the broker's default.
    Unspecified = 0,
    /// Anything goes.
    None = 1,
    /// The new version reads what was written with the old one.
    Backward = 2,
    /// The old version reads what is written with the new one.
    Forward = 3,
    /// Both.
    Full = 4,
}

/// 0x10 SCHEMA_REGISTER, and 0x11 SCHEMA_GET, which reads queue and version only.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SchemaRegisterRequest {
    /// The queue or stream.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// A serialized FileDescriptorSet with all imports.
    #[prost(bytes = "bytes", tag = "2")]
    pub descriptor: Bytes,
    /// Fully qualified, no leading dot.
    #[prost(string, tag = "3")]
    pub message_type: String,
    /// Instead of descriptor: the text of one .proto file.
    #[prost(string, tag = "50")]
    pub proto_source: String,
    /// SCHEMA_GET: which version. 0: the newest.
    #[prost(uint32, tag = "51")]
    pub version: u32,
    /// The rule that this and later versions are held to.
    #[prost(enumeration = "Compatibility", tag = "52")]
    pub compatibility: i32,
    /// Whether messages with fields that the schema does not know are refused. Absent: keep what the queue has.
    #[prost(bool, optional, tag = "53")]
    pub refuse_unknown_fields: Option<bool>,
}

/// 0x12 SCHEMA_RESPONSE.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SchemaRegisterResponse {
    /// Always 0.
    #[prost(uint32, tag = "1")]
    pub schema_id: u32,
    /// Counts from 1 for each queue.
    #[prost(uint32, tag = "2")]
    pub version: u32,
    /// Documented frame only, as are the fields after it.
    #[prost(string, tag = "50")]
    pub message_type: String,
    /// To SCHEMA_GET only.
    #[prost(bytes = "bytes", tag = "51")]
    pub descriptor: Bytes,
    /// The rule that later versions are held to.
    #[prost(enumeration = "Compatibility", tag = "52")]
    pub compatibility: i32,
    /// Whether messages with fields that the schema does not know are refused.
    #[prost(bool, tag = "53")]
    pub refuse_unknown_fields: bool,
}

/// 0x30 SCHEMA_LIST.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SchemaListRequest {}

/// 0x31 SCHEMA_LIST_RESPONSE.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SchemaListResponse {
    /// By name of the queue.
    #[prost(message, repeated, tag = "1")]
    pub schemas: Vec<SchemaInfo>,
}

/// One entry of a list.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SchemaInfo {
    /// The queue or stream.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// Fully qualified, no leading dot.
    #[prost(string, tag = "2")]
    pub message_type: String,
    /// Counts from 1 for each queue.
    #[prost(uint32, tag = "3")]
    pub version: u32,
}
