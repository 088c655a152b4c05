//! The page from which strangers write clients, `docs/qwer-q.md`, says what the code does: its tables are compared with
//! the code and the `.proto` file, its limits with the configuration, its sessions are replayed.

mod support;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use prost_reflect::Cardinality;
use qq_proto_binary::connection::{Config, Connection, Delivery, Event, Side, Violation};
use qq_proto_binary::error::{ErrorCode, text};
use qq_proto_binary::frame::Layout;
use qq_proto_binary::message::{PublishResponse, QueueDeclareResponse};
use qq_proto_binary::opcode::{Dialect, Opcode};
use qq_proto_binary::reply::Reply;
use qq_proto_binary::request::Request;
use qq_proto_binary::stored::{self, Stored};

const PAGE: &str = include_str!("../../docs/qwer-q.md");
const PUBLISHED_AT_MS: i64 = 1_764_460_800_000;

/// Rows of the table whose first row is this, as trimmed cells.
fn table(header: &str) -> Vec<Vec<&'static str>> {
    let mut lines = PAGE.lines().skip_while(|line| *line != header);
    assert_eq!(lines.next(), Some(header), "the page has this table");
    let rows: Vec<Vec<_>> = lines
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert!(!rows.is_empty());
    rows
}

fn number(text: &str) -> u8 {
    let digits = text.strip_prefix("0x").expect("a number such as 0x01");
    u8::from_str_radix(digits, 16).expect("hex digits")
}

/// `SchemaList` as `SCHEMA_LIST`.
fn screaming(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.extend(c.to_uppercase());
    }
    text
}

#[test]
fn the_table_of_opcodes_is_the_code() {
    let written: BTreeMap<u8, (String, Option<u8>)> =
        table("| number | name | from | payload | answered by |")
            .iter()
            .map(|row| {
                let answer = row[4]
                    .split(' ')
                    .next()
                    .filter(|text| !text.is_empty())
                    .map(number);
                (number(row[0]), (row[1].to_string(), answer))
            })
            .collect();
    let coded: BTreeMap<u8, (String, Option<u8>)> = Opcode::ALL
        .iter()
        .map(|opcode| {
            let reply = opcode.reply().map(|reply| reply as u8);
            (*opcode as u8, (screaming(&format!("{opcode:?}")), reply))
        })
        .collect();
    assert_eq!(written, coded);
    for row in table("| number | name | from | payload | answered by |") {
        let (opcode, _) = Opcode::from_wire(number(row[0]), Dialect::Groups).expect("it is known");
        let is_request = opcode.reply().is_some();
        assert_eq!(
            row[2].contains('C'),
            is_request || opcode == Opcode::Pong,
            "{row:?}"
        );
        assert_eq!(
            row[2].contains('B'),
            !is_request || opcode == Opcode::Ping,
            "{row:?}"
        );
        assert_eq!(
            row[4].ends_with("on request"),
            opcode.is_silent(),
            "{row:?}"
        );
        let payload = format!("qwerq.{}", row[3]);
        assert!(
            support::pool().get_message_by_name(&payload).is_some(),
            "{row:?}"
        );
    }
}

#[test]
fn the_table_of_messages_is_the_proto_file() {
    let written: BTreeMap<String, String> = table("| message | fields |")
        .iter()
        .map(|row| (row[0].to_string(), row[1].to_string()))
        .collect();
    let pool = support::pool();
    let declared: BTreeMap<String, String> = pool
        .all_messages()
        .filter(|message| !message.is_map_entry())
        .map(|message| {
            let fields: Vec<String> = message
                .fields()
                .map(|field| {
                    let label = match field.cardinality() {
                        Cardinality::Repeated if !field.is_map() => "repeated ",
                        Cardinality::Optional if field.supports_presence() => "optional ",
                        _ => "",
                    };
                    let kind = if field.is_map() {
                        "map".to_string()
                    } else {
                        support::kind_name(&field.kind())
                    };
                    format!("{} {} {label}{kind}", field.number(), field.name())
                })
                .collect();
            let fields = if fields.is_empty() {
                "none".to_string()
            } else {
                fields.join(" · ")
            };
            (message.name().to_string(), fields)
        })
        .collect();
    assert_eq!(written, declared);
    let enumerations: BTreeMap<String, String> = table("| enumeration | values |")
        .iter()
        .map(|row| (row[0].to_string(), row[1].to_string()))
        .collect();
    let declared: BTreeMap<String, String> = pool
        .all_enums()
        .map(|kind| {
            let prefix = format!("{}_", screaming(kind.name()));
            let values: Vec<String> = kind
                .values()
                .map(|value| {
                    let name = value.name().strip_prefix(&prefix).expect("the prefix");
                    format!("{} {name}", value.number())
                })
                .collect();
            (kind.name().to_string(), values.join(" · "))
        })
        .collect();
    assert_eq!(enumerations, declared);
}

#[test]
fn the_table_of_errors_has_every_code_and_text() {
    let rows = table("| code | texts | when |");
    let written: Vec<u32> = rows
        .iter()
        .map(|row| row[0].parse().expect("a number"))
        .collect();
    let coded: Vec<u32> = ErrorCode::ALL.iter().map(|code| code.number()).collect();
    assert_eq!(written, coded);
    let has = |code: ErrorCode, text: &str| {
        let row = rows
            .iter()
            .find(|row| row[0] == code.number().to_string())
            .expect("a row");
        row[1]
            .split('`')
            .any(|written| match written.strip_suffix('…') {
                Some(start) if !start.is_empty() => text.starts_with(start),
                _ => written == text,
            })
    };
    for (code, text) in [
        (ErrorCode::Failed, text::QUEUE_FULL),
        (ErrorCode::Failed, text::MEMORY_PRESSURE),
        (ErrorCode::Failed, text::DUPLICATE_PREFIX),
        (ErrorCode::NotFound, text::MESSAGE_NOT_FOUND),
        (ErrorCode::NotFound, text::MEMBER_NOT_FOUND),
        (ErrorCode::NotFound, text::CONSUMER_NOT_FOUND),
        (ErrorCode::NotFound, text::STREAM_NOT_FOUND),
        (ErrorCode::SchemaMismatch, text::SCHEMA_MISMATCH_PREFIX),
        (ErrorCode::SchemaRefused, text::SCHEMA_INVALID),
        (ErrorCode::SchemaRefused, text::SCHEMA_TYPE_UNKNOWN),
        (ErrorCode::SchemaMissing, text::SCHEMA_NOT_FOUND),
        (ErrorCode::SchemaMissing, text::SCHEMA_REQUIRED),
        (ErrorCode::CallTimeout, text::CALL_TIMEOUT),
    ] {
        assert!(has(code, text), "{code}: {text}");
    }
    let answered = [
        Violation::AuthRequired,
        Violation::UnknownOpcode,
        Violation::ReservedFlags,
        Violation::Undecodable,
        Violation::QueueMissing,
        Violation::TooManyHeaders,
        Violation::TooManyMessages,
        Violation::MessageTooLarge,
    ];
    for violation in answered {
        let code = violation.code().expect("it is answered");
        assert!(has(code, violation.text()), "{violation:?}");
    }
    for text in [text::AUTHENTICATED, text::TOKEN_INVALID, text::AUTH_INVALID] {
        assert!(PAGE.contains(&format!("`{text}`")), "{text}");
    }
}

#[test]
fn the_limits_are_the_defaults() {
    let config = Config::default();
    let rows = table("| what | limit | beyond it |");
    let limit = |what: &str| {
        let row = rows
            .iter()
            .find(|row| row[0].starts_with(what))
            .expect(what);
        row[1].split(';').next().unwrap_or_default()
    };
    const KIB: usize = 1024;
    assert_eq!(limit("payload, documented"), "16 MiB + 4 KiB");
    assert_eq!(config.payload_documented_max, 16 * KIB * KIB + 4 * KIB);
    assert_eq!(limit("payload, versioned"), "1 MiB");
    assert_eq!(config.payload_versioned_max, KIB * KIB);
    assert_eq!(limit("payload before"), "4 KiB");
    assert_eq!(config.payload_before_auth_max, 4 * KIB);
    assert!(limit("PUBLISH or CALL").starts_with("1 KiB below"));
    assert_eq!(Config::ENVELOPE_SIZE_MAX, KIB);
    assert_eq!(
        limit("headers"),
        config.headers_max.to_string().replace("1024", "1,024")
    );
    assert_eq!(limit("messages of a batch"), "1,024");
    assert_eq!(config.batch_messages_max, KIB);
    assert_eq!(limit("requests without"), "16,384");
    assert_eq!(config.requests_pending_max, 16_384);
    assert_eq!(limit("unreadable"), "1,000 at once, then 100 a second");
    assert_eq!((config.nuisance_burst, config.nuisance_rate), (1_000, 100));
    assert_eq!(limit("a pause"), "30 s");
    assert_eq!(config.frame_stall_ms, 30_000);
    assert_eq!(limit("output"), "30 s without progress");
    assert_eq!(config.slow_reader_ms, 30_000);
    assert!(PAGE.contains("must come\nwithin 10 s") || PAGE.contains("must come within 10 s"));
    assert_eq!(config.auth_deadline_ms, 10_000);
    assert!(PAGE.contains("gets the answers that are due within 5 s"));
    assert_eq!(config.eof_grace_ms, 5_000);
    assert!(
        PAGE.contains("after 30 s in which nothing came") && PAGE.contains("closes after 60 s")
    );
    assert_eq!(
        (config.idle_timeout_ms, config.idle_timeout_versioned_ms),
        (60_000, 0)
    );
}

/// As much of a broker as the sessions need: one queue, one consumer, a fixed clock.
struct Broker {
    conn: Connection,
    waiting: VecDeque<Bytes>,
    held: BTreeMap<u64, String>,
    delivered: u64,
    is_consuming: bool,
}

impl Broker {
    fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut input = BytesMut::from(bytes);
        self.conn.handle_input(Duration::ZERO, &mut input);
        assert!(input.is_empty(), "each line is a whole frame");
        while let Some(event) = self.conn.poll_event() {
            let Event::Request { reply_to, request } = event.into_owned() else {
                panic!("not a request");
            };
            let answer = self.answer(request);
            match answer {
                Some(reply) => self.conn.reply(reply_to, &reply),
                None => self
                    .conn
                    .refuse(reply_to, ErrorCode::NotFound, text::MESSAGE_NOT_FOUND),
            }
            .expect("it waits");
        }
        while self.is_consuming
            && let Some(record) = self.waiting.pop_front()
        {
            self.delivered += 1;
            let stored = Stored::read(&record).expect("our own record");
            self.held
                .insert(self.delivered, stored.message_id.to_string());
            let delivery = Delivery {
                stored: &stored,
                queue: "orders",
                attempt: 1,
                delivery_id: self.delivered,
                group: "",
            };
            self.conn.deliver(&delivery).expect("it fits");
        }
        let mut out = VecDeque::new();
        while self
            .conn
            .poll_transmit(Duration::ZERO, &mut out, usize::MAX)
            > 0
        {}
        out.iter().flatten().copied().collect()
    }

    fn answer(&mut self, request: Request) -> Option<Reply> {
        Some(match request {
            Request::QueueDeclare(declare) => Reply::QueueDeclared(QueueDeclareResponse {
                queue: declare.queue,
                created: true,
                ..QueueDeclareResponse::default()
            }),
            Request::Consume(_) => {
                self.is_consuming = true;
                Reply::Done
            }
            Request::Publish(publish) => {
                let message_id = publish.message_id.clone().expect("the sessions give ids");
                self.waiting
                    .push_back(stored::of_publish(&publish, &message_id, PUBLISHED_AT_MS));
                Reply::Published(PublishResponse { message_id })
            }
            Request::Ack(ack) => {
                let by_id = self
                    .held
                    .iter()
                    .rev()
                    .find(|(_, id)| **id == ack.message_id);
                let delivery = match ack.delivery_id {
                    0 => by_id.map(|(delivery, _)| *delivery)?,
                    delivery => delivery,
                };
                self.held.remove(&delivery)?;
                Reply::Done
            }
            other => panic!("the sessions have no {other:?}"),
        })
    }
}

/// Plays the lines of a section: what the broker says must come before the next line of the client, and nothing else.
fn replay(section: &str, layout: Layout) -> usize {
    let start = PAGE
        .find(&format!("## {section}\n"))
        .expect("the section is there");
    let text = &PAGE[start + 3..];
    let text = &text[..text.find("\n## ").unwrap_or(text.len())];
    let mut broker = Broker {
        conn: Connection::new(Side::Server, Config::default(), Duration::ZERO),
        waiting: VecDeque::new(),
        held: BTreeMap::new(),
        delivered: 0,
        is_consuming: false,
    };
    let mut unread: Vec<u8> = Vec::new();
    let mut lines = 0;
    for line in text.lines() {
        if let Some(frame) = line.strip_prefix("C ") {
            assert!(unread.is_empty(), "before {line}: {unread:02x?}");
            unread = broker.feed(&support::hex(frame));
            lines += 1;
        } else if let Some(frame) = line.strip_prefix("B ") {
            let frame = support::hex(frame);
            assert!(unread.starts_with(&frame), "{line}\nfound {unread:02x?}");
            unread.drain(..frame.len());
            lines += 1;
        }
    }
    assert!(unread.is_empty(), "at the end: {unread:02x?}");
    assert_eq!(broker.conn.layout(), Some(layout));
    lines
}

#[test]
fn the_sessions_are_what_happens() {
    assert_eq!(
        replay("A session in the documented layout", Layout::Documented),
        15
    );
    assert_eq!(
        replay("A session in the versioned layout", Layout::Versioned),
        7
    );
}
