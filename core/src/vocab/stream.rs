//! Reading streams: where a reader begins, and under which name the broker remembers how far it came.

/// Where a reader of a stream begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamStart {
    /// With the oldest message that is kept.
    First,
    /// With the newest message.
    Last,
    /// With the next message to come.
    #[default]
    Next,
    /// At a position; before the oldest message means there, behind the newest means what comes next.
    Offset(u64),
    /// With the first message that arrived at this moment or later, milliseconds since the Unix epoch.
    Since(i64),
    /// The same, so many milliseconds ago.
    Ago(u64),
}

/// How a consumer reads a stream; of queues it means nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamRead {
    /// Where it begins.
    pub start: StreamStart,
    /// Where this reader's stored position, if it has one, goes before `start`.
    pub resumes: Option<String>,
}
