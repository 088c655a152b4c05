//! Replies: what a server answers to requests, by opcode. ERROR is not among them: it answers any request.

use alloc::boxed::Box;

use bytes::{Bytes, BytesMut};
use prost::Message as _;

use crate::frame::{Flags, Layout};
use crate::message::{
    CallResponse, CommitOffsetResponse, DoneResponse, ExtendVisibilityResponse, HeartbeatResponse,
    PingResponse, PublishBatchResponse, PublishResponse, QueueDeclareResponse, QueueDeleteResponse,
    QueueListResponse, QueuePurgeResponse, QueueStatsResponse, SchemaListResponse,
    SchemaRegisterResponse, SeekResponse,
};
use crate::opcode::Opcode;

/// The same expression for the body of any reply.
macro_rules! with_body {
    ($reply:expr, $body:ident => $then:expr) => {
        match $reply {
            Self::Published($body) => $then,
            Self::PublishedBatch($body) => $then,
            Self::Done => {
                let $body = &DoneResponse {};
                $then
            }
            Self::Extended($body) => $then,
            Self::Heard => {
                let $body = &HeartbeatResponse {};
                $then
            }
            Self::Called($body) => $then,
            Self::Schema($body) => {
                let $body = &**$body;
                $then
            }
            Self::SchemaList($body) => $then,
            Self::QueueList($body) => $then,
            Self::QueueDeclared($body) => $then,
            Self::QueueDeleted($body) => $then,
            Self::QueuePurged($body) => $then,
            Self::QueueStats($body) => {
                let $body = &**$body;
                $then
            }
            Self::Sought($body) => $then,
            Self::Committed($body) => $then,
            Self::Pong($body) => $then,
        }
    };
}

/// The answer to a request that succeeded.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// To PUBLISH.
    Published(PublishResponse),
    /// To PUBLISH_BATCH.
    PublishedBatch(PublishBatchResponse),
    /// To CONSUME, ACK, NACK and UNSUBSCRIBE: only sent where the client asked for it.
    Done,
    /// To EXTEND_VISIBILITY.
    Extended(ExtendVisibilityResponse),
    /// To HEARTBEAT.
    Heard,
    /// To CALL.
    Called(CallResponse),
    /// To SCHEMA_REGISTER and SCHEMA_GET. What is not known to the first clients is left out in their layout.
    Schema(Box<SchemaRegisterResponse>),
    /// To SCHEMA_LIST.
    SchemaList(SchemaListResponse),
    /// To QUEUE_LIST.
    QueueList(QueueListResponse),
    /// To QUEUE_DECLARE.
    QueueDeclared(QueueDeclareResponse),
    /// To QUEUE_DELETE.
    QueueDeleted(QueueDeleteResponse),
    /// To QUEUE_PURGE.
    QueuePurged(QueuePurgeResponse),
    /// To QUEUE_STATS.
    QueueStats(Box<QueueStatsResponse>),
    /// To SEEK.
    Sought(SeekResponse),
    /// To COMMIT_OFFSET.
    Committed(CommitOffsetResponse),
    /// To PING.
    Pong(PingResponse),
}

impl Reply {
    /// Its opcode.
    #[must_use]
    pub const fn opcode(&self) -> Opcode {
        match self {
            Self::Published(_) => Opcode::PublishAck,
            Self::PublishedBatch(_) => Opcode::PublishBatchAck,
            Self::Done => Opcode::Done,
            Self::Extended(_) => Opcode::ExtendVisibilityAck,
            Self::Heard => Opcode::HeartbeatAck,
            Self::Called(_) => Opcode::CallResponse,
            Self::Schema(_) => Opcode::SchemaResponse,
            Self::SchemaList(_) => Opcode::SchemaListResponse,
            Self::QueueList(_) => Opcode::QueueListResponse,
            Self::QueueDeclared(_) => Opcode::QueueDeclared,
            Self::QueueDeleted(_) => Opcode::QueueDeleted,
            Self::QueuePurged(_) => Opcode::QueuePurged,
            Self::QueueStats(_) => Opcode::QueueStatsResponse,
            Self::Sought(_) => Opcode::SeekAck,
            Self::Committed(_) => Opcode::CommitOffsetAck,
            Self::Pong(_) => Opcode::Pong,
        }
    }

    /// Decodes the body of a reply. None: the opcode is no reply of this list.
    ///
    /// # Errors
    /// The body is not what the opcode promises.
    pub fn decode(opcode: Opcode, body: Bytes) -> Result<Option<Self>, prost::DecodeError> {
        Ok(Some(match opcode {
            Opcode::PublishAck => Self::Published(PublishResponse::decode(body)?),
            Opcode::PublishBatchAck => Self::PublishedBatch(PublishBatchResponse::decode(body)?),
            Opcode::Done => {
                DoneResponse::decode(body)?;
                Self::Done
            }
            Opcode::ExtendVisibilityAck => Self::Extended(ExtendVisibilityResponse::decode(body)?),
            Opcode::HeartbeatAck => {
                HeartbeatResponse::decode(body)?;
                Self::Heard
            }
            Opcode::CallResponse => Self::Called(CallResponse::decode(body)?),
            Opcode::SchemaResponse => Self::Schema(Box::new(SchemaRegisterResponse::decode(body)?)),
            Opcode::SchemaListResponse => Self::SchemaList(SchemaListResponse::decode(body)?),
            Opcode::QueueListResponse => Self::QueueList(QueueListResponse::decode(body)?),
            Opcode::QueueDeclared => Self::QueueDeclared(QueueDeclareResponse::decode(body)?),
            Opcode::QueueDeleted => Self::QueueDeleted(QueueDeleteResponse::decode(body)?),
            Opcode::QueuePurged => Self::QueuePurged(QueuePurgeResponse::decode(body)?),
            Opcode::QueueStatsResponse => {
                Self::QueueStats(Box::new(QueueStatsResponse::decode(body)?))
            }
            Opcode::SeekAck => Self::Sought(SeekResponse::decode(body)?),
            Opcode::CommitOffsetAck => Self::Committed(CommitOffsetResponse::decode(body)?),
            Opcode::Pong => Self::Pong(PingResponse::decode(body)?),
            _ => return Ok(None),
        }))
    }

    /// Bytes of its body.
    #[must_use]
    pub fn body_len(&self) -> usize {
        with_body!(self, body => body.encoded_len())
    }

    /// Writes it as a frame; `number` is its opcode as the request's numbering has it.
    pub fn put_frame(
        &self,
        buf: &mut BytesMut,
        layout: Layout,
        number: u8,
        correlation: Option<u32>,
    ) {
        if let (Self::Schema(body), Layout::Versioned) = (self, layout) {
            let known = SchemaRegisterResponse {
                schema_id: body.schema_id,
                version: body.version,
                ..SchemaRegisterResponse::default()
            };
            layout.put_frame(buf, number, Flags::default(), correlation, &known);
            return;
        }
        with_body!(self, body => layout.put_frame(buf, number, Flags::default(), correlation, body));
    }
}
