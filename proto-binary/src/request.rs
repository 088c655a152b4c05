//! Requests: what a client asks, by opcode.

use alloc::boxed::Box;
use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};
use prost::Message as _;

use crate::frame::{Flags, Layout};
use crate::message::{
    AckRequest, CallRequest, CommitOffsetRequest, ConsumeRequest, ExtendVisibilityRequest,
    HeartbeatRequest, NackRequest, PingRequest, PublishBatchRequest, PublishRequest,
    QueueDeclareRequest, QueueDeleteRequest, QueueListRequest, QueuePurgeRequest,
    QueueStatsRequest, SchemaListRequest, SchemaRegisterRequest, SeekRequest, UnsubscribeRequest,
};
use crate::opcode::{Numbering, Opcode};
use crate::publish::{Publish, read_batch};
use crate::wire::{Fields, Malformed, Value, count_fields};

/// The same expression for the body of any request.
macro_rules! with_body {
    ($request:expr, $body:ident => $then:expr) => {
        match $request {
            Self::Publish($body) => {
                let $body = &**$body;
                $then
            }
            Self::PublishBatch($body) => $then,
            Self::Consume($body) => $then,
            Self::Ack($body) => $then,
            Self::Nack($body) => $then,
            Self::ExtendVisibility($body) => $then,
            Self::Unsubscribe($body) => $then,
            Self::Heartbeat($body) => $then,
            Self::Call($body) => {
                let $body = &**$body;
                $then
            }
            Self::SchemaRegister($body) | Self::SchemaGet($body) => {
                let $body = &**$body;
                $then
            }
            Self::SchemaList => {
                let $body = &SchemaListRequest {};
                $then
            }
            Self::QueueList => {
                let $body = &QueueListRequest {};
                $then
            }
            Self::QueueDeclare($body) => {
                let $body = &**$body;
                $then
            }
            Self::QueueDelete($body) => $then,
            Self::QueuePurge($body) => $then,
            Self::QueueStats($body) => $then,
            Self::Seek($body) => $then,
            Self::CommitOffset($body) => $then,
            Self::Ping($body) => $then,
        }
    };
}

/// What a client asks. AUTH is not among them: the machine sends and answers it.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// A message for a queue or stream.
    Publish(Box<PublishRequest>),
    /// Several of them.
    PublishBatch(PublishBatchRequest),
    /// Begin to consume, or change how.
    Consume(ConsumeRequest),
    /// A delivery is done with.
    Ack(AckRequest),
    /// A delivery failed.
    Nack(NackRequest),
    /// Keep a delivery for longer.
    ExtendVisibility(ExtendVisibilityRequest),
    /// End a consumer.
    Unsubscribe(UnsubscribeRequest),
    /// A member of a group is alive.
    Heartbeat(HeartbeatRequest),
    /// A request to whoever consumes a queue.
    Call(Box<CallRequest>),
    /// A new version of a schema.
    SchemaRegister(Box<SchemaRegisterRequest>),
    /// What a queue's schema is: `queue` and `version` are read.
    SchemaGet(Box<SchemaRegisterRequest>),
    /// All schemas.
    SchemaList,
    /// All queues.
    QueueList,
    /// Make a queue or stream, or check it.
    QueueDeclare(Box<QueueDeclareRequest>),
    /// Delete a queue or stream.
    QueueDelete(QueueDeleteRequest),
    /// Remove what waits in a queue.
    QueuePurge(QueuePurgeRequest),
    /// Counters of a queue.
    QueueStats(QueueStatsRequest),
    /// Read a stream from somewhere.
    Seek(SeekRequest),
    /// Store how far a group has read.
    CommitOffset(CommitOffsetRequest),
    /// Are you there? A server answers it by itself.
    Ping(PingRequest),
}

/// Bounds on what a body may hold, because a decoded field costs far more memory than an encoded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyLimits {
    /// Headers of a message; arguments of a declaration. The messages of a batch may have 16 times as many together.
    pub headers_max: usize,
    /// Messages of a batch.
    pub batch_messages_max: usize,
    /// Encoded bytes of a PUBLISH or CALL, which must fit a MESSAGE with what the broker adds.
    pub message_size_max: usize,
}

/// A body is not one that can be taken. Framing is intact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// Not a Protocol Buffers message, or not this one, or a string is not UTF-8.
    Undecodable,
    /// It names no queue.
    QueueMissing,
    /// More headers than [`BodyLimits::headers_max`].
    TooManyHeaders,
    /// More messages than [`BodyLimits::batch_messages_max`].
    TooManyMessages,
    /// More bytes than [`BodyLimits::message_size_max`].
    MessageTooLarge,
}

impl From<Malformed> for BodyError {
    fn from(_: Malformed) -> Self {
        Self::Undecodable
    }
}

/// Field numbers of the parts that are bounded.
const PUBLISH_HEADERS: u32 = 3;
const DECLARE_ARGUMENTS: u32 = 24;
const BATCH_MESSAGES: u32 = 1;
/// A batch is one read of a client that may well send one header with each message, not the maximum with each.
const BATCH_HEADERS_FACTOR: usize = 16;

impl Request {
    /// Decodes the body of a request. None: the opcode is no request, or AUTH, which the machine answers by itself.
    ///
    /// # Errors
    /// The body is not what the opcode promises, or beyond a limit.
    pub fn decode(
        opcode: Opcode,
        body: Bytes,
        limits: &BodyLimits,
    ) -> Result<Option<Self>, BodyError> {
        check_bounds(opcode, &body, limits)?;
        let request = Self::decode_body(opcode, body).map_err(|_| BodyError::Undecodable)?;
        if request.as_ref().is_some_and(Self::is_queue_missing) {
            return Err(BodyError::QueueMissing);
        }
        Ok(request)
    }

    fn decode_body(opcode: Opcode, body: Bytes) -> Result<Option<Self>, prost::DecodeError> {
        Ok(Some(match opcode {
            Opcode::Publish => Self::Publish(Box::new(PublishRequest::decode(body)?)),
            Opcode::PublishBatch => Self::PublishBatch(PublishBatchRequest::decode(body)?),
            Opcode::Consume => Self::Consume(ConsumeRequest::decode(body)?),
            Opcode::Ack => Self::Ack(AckRequest::decode(body)?),
            Opcode::Nack => Self::Nack(NackRequest::decode(body)?),
            Opcode::ExtendVisibility => {
                Self::ExtendVisibility(ExtendVisibilityRequest::decode(body)?)
            }
            Opcode::Unsubscribe => Self::Unsubscribe(UnsubscribeRequest::decode(body)?),
            Opcode::Heartbeat => Self::Heartbeat(HeartbeatRequest::decode(body)?),
            Opcode::Call => Self::Call(Box::new(CallRequest::decode(body)?)),
            Opcode::SchemaRegister => {
                Self::SchemaRegister(Box::new(SchemaRegisterRequest::decode(body)?))
            }
            Opcode::SchemaGet => Self::SchemaGet(Box::new(SchemaRegisterRequest::decode(body)?)),
            Opcode::SchemaList => {
                SchemaListRequest::decode(body)?;
                Self::SchemaList
            }
            Opcode::QueueList => {
                QueueListRequest::decode(body)?;
                Self::QueueList
            }
            Opcode::QueueDeclare => {
                Self::QueueDeclare(Box::new(QueueDeclareRequest::decode(body)?))
            }
            Opcode::QueueDelete => Self::QueueDelete(QueueDeleteRequest::decode(body)?),
            Opcode::QueuePurge => Self::QueuePurge(QueuePurgeRequest::decode(body)?),
            Opcode::QueueStats => Self::QueueStats(QueueStatsRequest::decode(body)?),
            Opcode::Seek => Self::Seek(SeekRequest::decode(body)?),
            Opcode::CommitOffset => Self::CommitOffset(CommitOffsetRequest::decode(body)?),
            Opcode::Ping => Self::Ping(PingRequest::decode(body)?),
            _ => return Ok(None),
        }))
    }

    /// Its opcode.
    #[must_use]
    pub const fn opcode(&self) -> Opcode {
        match self {
            Self::Publish(_) => Opcode::Publish,
            Self::PublishBatch(_) => Opcode::PublishBatch,
            Self::Consume(_) => Opcode::Consume,
            Self::Ack(_) => Opcode::Ack,
            Self::Nack(_) => Opcode::Nack,
            Self::ExtendVisibility(_) => Opcode::ExtendVisibility,
            Self::Unsubscribe(_) => Opcode::Unsubscribe,
            Self::Heartbeat(_) => Opcode::Heartbeat,
            Self::Call(_) => Opcode::Call,
            Self::SchemaRegister(_) => Opcode::SchemaRegister,
            Self::SchemaGet(_) => Opcode::SchemaGet,
            Self::SchemaList => Opcode::SchemaList,
            Self::QueueList => Opcode::QueueList,
            Self::QueueDeclare(_) => Opcode::QueueDeclare,
            Self::QueueDelete(_) => Opcode::QueueDelete,
            Self::QueuePurge(_) => Opcode::QueuePurge,
            Self::QueueStats(_) => Opcode::QueueStats,
            Self::Seek(_) => Opcode::Seek,
            Self::CommitOffset(_) => Opcode::CommitOffset,
            Self::Ping(_) => Opcode::Ping,
        }
    }

    /// Bytes of its body.
    #[must_use]
    pub fn body_len(&self) -> usize {
        with_body!(self, body => body.encoded_len())
    }

    /// Writes it as a frame.
    pub fn put_frame(
        &self,
        buf: &mut BytesMut,
        layout: Layout,
        numbering: Numbering,
        flags: Flags,
        correlation: Option<u32>,
    ) {
        let opcode = self.opcode().to_wire(numbering);
        with_body!(self, body => layout.put_frame(buf, opcode, flags, correlation, body));
    }

    /// Requests that make no sense without a queue. COMMIT_OFFSET does: what is empty there is the connection's own.
    fn is_queue_missing(&self) -> bool {
        let queue = match self {
            Self::Publish(body) => &body.queue,
            Self::PublishBatch(body) => return body.messages.iter().any(|m| m.queue.is_empty()),
            Self::Consume(body) => &body.queue,
            Self::Call(body) => &body.queue,
            Self::SchemaRegister(body) | Self::SchemaGet(body) => &body.queue,
            Self::QueueDeclare(body) => &body.queue,
            Self::QueueDelete(body) => &body.queue,
            Self::QueuePurge(body) => &body.queue,
            Self::QueueStats(body) => &body.queue,
            Self::Seek(body) => &body.queue,
            _ => return false,
        };
        queue.is_empty()
    }
}

/// Reads the body of a PUBLISH.
///
/// # Errors
/// As [`Request::decode`].
pub(crate) fn read_publish(body: Bytes, limits: &BodyLimits) -> Result<Publish, BodyError> {
    check_bounds(Opcode::Publish, &body, limits)?;
    let publish = Publish::read(body)?;
    if !publish.has_queue() {
        return Err(BodyError::QueueMissing);
    }
    Ok(publish)
}

/// Reads the body of a PUBLISH_BATCH.
///
/// # Errors
/// As [`Request::decode`].
pub(crate) fn read_publish_batch(
    body: &Bytes,
    limits: &BodyLimits,
) -> Result<Vec<Publish>, BodyError> {
    check_bounds(Opcode::PublishBatch, body, limits)?;
    let batch = read_batch(body)?;
    if batch.iter().any(|publish| !publish.has_queue()) {
        return Err(BodyError::QueueMissing);
    }
    Ok(batch)
}

/// Looks at sizes and counts before anything is allocated for a body.
fn check_bounds(opcode: Opcode, body: &Bytes, limits: &BodyLimits) -> Result<(), BodyError> {
    let is_message = matches!(opcode, Opcode::Publish | Opcode::Call);
    if is_message && body.len() > limits.message_size_max {
        return Err(BodyError::MessageTooLarge);
    }
    match opcode {
        Opcode::Publish | Opcode::Call => check_headers(body, PUBLISH_HEADERS, limits),
        Opcode::QueueDeclare => check_headers(body, DECLARE_ARGUMENTS, limits),
        Opcode::PublishBatch => check_batch(body, limits),
        _ => Ok(()),
    }
}

fn check_headers(body: &[u8], number: u32, limits: &BodyLimits) -> Result<(), BodyError> {
    // A field has two bytes at least: most bodies need no count.
    if body.len() / 2 <= limits.headers_max {
        return Ok(());
    }
    if count_fields(body, number)? > limits.headers_max {
        return Err(BodyError::TooManyHeaders);
    }
    Ok(())
}

fn check_batch(body: &[u8], limits: &BodyLimits) -> Result<(), BodyError> {
    let mut messages = 0;
    let mut headers = 0;
    for field in Fields::of(body) {
        let field = field?;
        let (BATCH_MESSAGES, Value::Delimited(message)) = (field.number, field.value) else {
            continue;
        };
        messages += 1;
        if messages > limits.batch_messages_max {
            return Err(BodyError::TooManyMessages);
        }
        if message.len() > limits.message_size_max {
            return Err(BodyError::MessageTooLarge);
        }
        let count = count_fields(message, PUBLISH_HEADERS)?;
        headers += count;
        if count > limits.headers_max || headers > limits.headers_max * BATCH_HEADERS_FACTOR {
            return Err(BodyError::TooManyHeaders);
        }
    }
    Ok(())
}
