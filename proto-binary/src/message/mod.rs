//! The payloads: one struct for each message of `proto/qwerq.proto`, with its names and numbers.
//!
//! The derives are written by hand, so that nothing has to be generated when the crate is built; a test compares them
//! with the file. Strings are checked to be UTF-8, repeated scalars keep the last value, unknown fields are skipped.

mod answer;
mod call;
mod consume;
mod presence;
mod publish;
mod queue;
mod schema;
mod stream;

pub use answer::{DoneResponse, ErrorResponse};
pub use call::{CallRequest, CallResponse};
pub use consume::{
    AckRequest, ConsumeRequest, ConsumerClosed, ExtendVisibilityRequest, ExtendVisibilityResponse,
    HeartbeatRequest, HeartbeatResponse, Message, NackRequest, UnsubscribeRequest,
};
pub use presence::{AuthRequest, AuthResponse, PingRequest, PingResponse};
pub use publish::{
    PublishBatchRequest, PublishBatchResponse, PublishRequest, PublishResponse, PublishResult,
};
pub use queue::{
    FailurePolicy, Overflow, QueueDeclareRequest, QueueDeclareResponse, QueueDeleteRequest,
    QueueDeleteResponse, QueueInfo, QueueKind, QueueListRequest, QueueListResponse,
    QueuePurgeRequest, QueuePurgeResponse, QueueStatsRequest, QueueStatsResponse,
};
pub use schema::{
    Compatibility, SchemaInfo, SchemaListRequest, SchemaListResponse, SchemaRegisterRequest,
    SchemaRegisterResponse,
};
pub use stream::{
    CommitOffsetRequest, CommitOffsetResponse, SeekPosition, SeekRequest, SeekResponse,
    StreamMessage,
};
