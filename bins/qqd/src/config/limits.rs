//! `[limits]`: how much of every resource peers can take.

use super::amount::{Size, Span};
use super::key::Key;
use super::sections::DAY_MS;
use super::setting::{Maybe, Number};

const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;

/// `[limits]`. The numbers and why they are what they are: `docs/limits.md`.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) connections_max: Number,
    pub(crate) connections_per_ip_max: Number,
    pub(crate) unauthenticated_max: Number,
    pub(crate) unauthenticated_per_ip_max: Number,
    pub(crate) first_bytes_timeout: Span,
    pub(crate) open_timeout: Span,
    pub(crate) frame_size_before_open_max: Size,
    pub(crate) login_delay_min: Span,
    pub(crate) login_delay_max: Span,
    pub(crate) login_failures_per_minute_max: Number,
    pub(crate) idle_timeout_peer_min: Span,
    pub(crate) sessions_max: Number,
    pub(crate) links_per_session_max: Number,
    pub(crate) links_max: Number,
    pub(crate) link_churn_burst: Number,
    pub(crate) link_churn_per_second: Number,
    pub(crate) no_progress_frames_max: Number,
    pub(crate) link_credit: Number,
    pub(crate) session_window: Number,
    pub(crate) message_size_max: Size,
    pub(crate) partial_bytes_max: Size,
    pub(crate) partial_bytes_node_max: Size,
    pub(crate) frames_per_message_min: Number,
    pub(crate) bytes_per_frame_min: Size,
    pub(crate) binary_payload_max: Maybe<Size>,
    pub(crate) unanswered_max: Number,
    pub(crate) unanswered_bytes_max: Size,
    pub(crate) unsent_bytes_max: Size,
    pub(crate) slow_reader_timeout: Span,
    pub(crate) transactions_max: Number,
    pub(crate) transaction_idle_timeout: Span,
    pub(crate) transaction_parts_max: Number,
    pub(crate) transaction_bytes_max: Size,
    pub(crate) queues_max: Number,
    pub(crate) exchanges_max: Number,
    pub(crate) bindings_max: Number,
    pub(crate) schemas_max: Number,
    pub(crate) schema_versions_max: Number,
    pub(crate) schemas_max_bytes: Size,
    pub(crate) dedup_keys_max: Number,
    pub(crate) memory_max: Maybe<Size>,
    pub(crate) disk_free_min: Maybe<Size>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: Number::new(10_000, 1, 1_000_000),
            connections_per_ip_max: Number::new(1_024, 1, 1_000_000),
            unauthenticated_max: Number::new(512, 1, 1_000_000),
            unauthenticated_per_ip_max: Number::new(64, 1, 1_000_000),
            first_bytes_timeout: Span::new(3_000, 10, DAY_MS),
            open_timeout: Span::new(10_000, 10, DAY_MS),
            frame_size_before_open_max: Size::new(8_192, 512, MIB),
            login_delay_min: Span::new(1_000, 0, 10_000),
            login_delay_max: Span::new(8_000, 0, 10_000),
            login_failures_per_minute_max: Number::new(20, 1, 10_000),
            idle_timeout_peer_min: Span::new(500, 1, DAY_MS),
            sessions_max: Number::new(64, 1, 65_535),
            links_per_session_max: Number::new(256, 1, 65_536),
            links_max: Number::new(1_024, 1, 4_096),
            link_churn_burst: Number::new(1_000, 1, 1_000_000),
            link_churn_per_second: Number::new(100, 1, 1_000_000),
            no_progress_frames_max: Number::new(20_000, 1, 1_000_000_000),
            link_credit: Number::new(1_024, 1, 65_536),
            session_window: Number::new(512, 1, 1_000_000),
            message_size_max: Size::new(16 * MIB, 1, 1 << 30),
            partial_bytes_max: Size::new(32 * MIB, 1, 4 << 30),
            partial_bytes_node_max: Size::new(256 * MIB, 1, TIB),
            frames_per_message_min: Number::new(64, 1, 1_000_000),
            bytes_per_frame_min: Size::new(256, 1, MIB),
            binary_payload_max: Maybe::unset(Size::new(1 << 20, 1 << 10, 16 << 20)),
            unanswered_max: Number::new(4_096, 1, 1_000_000),
            unanswered_bytes_max: Size::new(4 * MIB, 1, 4 << 30),
            unsent_bytes_max: Size::new(4 * MIB, 1_024, 4 << 30),
            slow_reader_timeout: Span::new(30_000, 10, DAY_MS),
            transactions_max: Number::new(256, 1, 65_536),
            transaction_idle_timeout: Span::new(300_000, 10, DAY_MS),
            transaction_parts_max: Number::new(65_536, 1, 1_000_000),
            transaction_bytes_max: Size::new(64 * MIB, 1, 1 << 30),
            queues_max: Number::new(10_000, 1, 10_000_000),
            exchanges_max: Number::new(10_000, 4, 10_000_000),
            bindings_max: Number::new(1_000_000, 1, 100_000_000),
            schemas_max: Number::new(10_000, 1, 1_000_000),
            schema_versions_max: Number::new(100, 1, 10_000),
            schemas_max_bytes: Size::new(64 << 20, 1 << 20, 1 << 40),
            dedup_keys_max: Number::new(1_000_000, 1, 1_000_000_000),
            memory_max: Maybe::unset(Size::new(1 << 30, MIB, TIB)),
            disk_free_min: Maybe::unset(Size::new(0, 0, 1024 * TIB)),
        }
    }
}

impl Limits {
    pub(super) fn keys(&mut self) -> Vec<Key<'_>> {
        vec![
            Key::new(
                "connections_max",
                &mut self.connections_max,
                "connections; lowered to what the limit of open files leaves",
            ),
            Key::new(
                "connections_per_ip_max",
                &mut self.connections_per_ip_max,
                "connections of one address",
            ),
            Key::new(
                "unauthenticated_max",
                &mut self.unauthenticated_max,
                "connections before their open; the oldest make room for new ones",
            ),
            Key::new(
                "unauthenticated_per_ip_max",
                &mut self.unauthenticated_per_ip_max,
                "the same for one address",
            ),
            Key::new(
                "first_bytes_timeout",
                &mut self.first_bytes_timeout,
                "time for a peer's first 8 bytes",
            ),
            Key::new(
                "open_timeout",
                &mut self.open_timeout,
                "time from the connection to a peer's open",
            ),
            Key::new(
                "frame_size_before_open_max",
                &mut self.frame_size_before_open_max,
                "largest frame before the open",
            ),
            Key::new(
                "login_delay_min",
                &mut self.login_delay_min,
                "wait before a wrong password is answered; it doubles each time for the same user and address",
            ),
            Key::new(
                "login_delay_max",
                &mut self.login_delay_max,
                "longest such wait",
            ),
            Key::new(
                "login_failures_per_minute_max",
                &mut self.login_failures_per_minute_max,
                "wrong passwords of one address within a minute; beyond it every login from there is denied",
            ),
            Key::new(
                "idle_timeout_peer_min",
                &mut self.idle_timeout_peer_min,
                "peers that ask for signs of life more often than this are refused",
            ),
            Key::new(
                "sessions_max",
                &mut self.sessions_max,
                "sessions of a connection",
            ),
            Key::new(
                "links_per_session_max",
                &mut self.links_per_session_max,
                "links of a session",
            ),
            Key::new("links_max", &mut self.links_max, "links of a connection"),
            Key::new(
                "link_churn_burst",
                &mut self.link_churn_burst,
                "sessions and links that a connection may take down at once",
            ),
            Key::new(
                "link_churn_per_second",
                &mut self.link_churn_per_second,
                "how many of them it may take down per second after that",
            ),
            Key::new(
                "no_progress_frames_max",
                &mut self.no_progress_frames_max,
                "frames without content that a connection may send at once; payload and time pay them back",
            ),
            Key::new(
                "link_credit",
                &mut self.link_credit,
                "messages that a publisher may send ahead of their answers, per link",
            ),
            Key::new(
                "session_window",
                &mut self.session_window,
                "transfer frames that a session may send ahead",
            ),
            Key::new(
                "message_size_max",
                &mut self.message_size_max,
                "largest message, announced on every link",
            ),
            Key::new(
                "partial_bytes_max",
                &mut self.partial_bytes_max,
                "bytes of unfinished messages that a connection may have",
            ),
            Key::new(
                "partial_bytes_node_max",
                &mut self.partial_bytes_node_max,
                "the same for all connections together",
            ),
            Key::new(
                "frames_per_message_min",
                &mut self.frames_per_message_min,
                "frames that any message may come in",
            ),
            Key::new(
                "bytes_per_frame_min",
                &mut self.bytes_per_frame_min,
                "each so many bytes of a message allow one frame more",
            ),
            Key::new(
                "binary_payload_max",
                &mut self.binary_payload_max,
                "largest payload of a frame of QWER-Q; when not set, 1 MiB in the versioned layout and 16 MiB + 4 KiB in the documented one",
            ),
            Key::new(
                "unanswered_max",
                &mut self.unanswered_max,
                "publishes without an answer above which a connection is not read",
            ),
            Key::new(
                "unanswered_bytes_max",
                &mut self.unanswered_bytes_max,
                "their bytes",
            ),
            Key::new(
                "unsent_bytes_max",
                &mut self.unsent_bytes_max,
                "output that waits for a peer, above which it is not read",
            ),
            Key::new(
                "slow_reader_timeout",
                &mut self.slow_reader_timeout,
                "time without progress of such output before the connection is cut",
            ),
            Key::new(
                "transactions_max",
                &mut self.transactions_max,
                "transactions that a connection may have open",
            ),
            Key::new(
                "transaction_idle_timeout",
                &mut self.transaction_idle_timeout,
                "time without work after which a transaction is rolled back",
            ),
            Key::new(
                "transaction_parts_max",
                &mut self.transaction_parts_max,
                "messages and settlements of one transaction",
            ),
            Key::new(
                "transaction_bytes_max",
                &mut self.transaction_bytes_max,
                "bytes of its messages, counted once for each queue that they go to",
            ),
            Key::new("queues_max", &mut self.queues_max, "queues of the node"),
            Key::new(
                "exchanges_max",
                &mut self.exchanges_max,
                "exchanges of the node; four always exist",
            ),
            Key::new(
                "bindings_max",
                &mut self.bindings_max,
                "bindings of the node",
            ),
            Key::new(
                "dedup_keys_max",
                &mut self.dedup_keys_max,
                "keys that all queues together remember messages by, to know duplicates; beyond it, messages with new keys are refused",
            ),
            Key::new(
                "schemas_max",
                &mut self.schemas_max,
                "names that schemas are registered under",
            ),
            Key::new(
                "schema_versions_max",
                &mut self.schema_versions_max,
                "versions of a schema that are kept; the oldest goes when another one comes",
            ),
            Key::new(
                "schemas_max_bytes",
                &mut self.schemas_max_bytes,
                "bytes of all versions of all schemas",
            ),
            Key::new(
                "memory_max",
                &mut self.memory_max,
                "bytes of queued messages above which publishes are refused; publishers get no credit from four fifths of it on; when not set, 40 % of the memory of the machine or control group",
            ),
            Key::new(
                "disk_free_min",
                &mut self.disk_free_min,
                "free bytes of the store's file system below which durable publishes are refused; 0 switches this off; when not set, 1 GiB or 5 % of the file system, whichever is more",
            ),
        ]
    }
}
