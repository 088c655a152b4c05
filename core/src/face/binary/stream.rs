//! Streams: SEEK and COMMIT_OFFSET, and the entries that a reader gets.
//!
//! On the wire a stream's entries are numbered from 1, as *sequences*; the broker's positions begin at 0. A group that
//! committed sequence 5 goes on with sequence 6, which is position 5: the number that is committed is the position that
//! is stored. A connection reads each stream once: a second SEEK moves its reader.

use std::collections::BTreeMap;

use qq_proto_binary::connection::{ReplyTo, StreamDelivery, UsageError};
use qq_proto_binary::error::{ErrorCode, text};
use qq_proto_binary::message::{
    CommitOffsetRequest, CommitOffsetResponse, SeekPosition, SeekRequest, SeekResponse,
};
use qq_proto_binary::reply::Reply;
use qq_proto_binary::stored::Stored;

use super::BinaryFace;
use super::consume::record_of;
use super::ports::{Consumer, PortState};
use crate::vocab::{
    Address, Ask, Command, ConsumerOpened, ConsumerSpec, Delivered, LockSpec, Outcome, Port,
    StreamRead, StreamStart, SubscriptionSpec,
};

/// What a SEEK named last: what a COMMIT_OFFSET means that names nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Sought {
    queue: String,
    group: String,
}

impl BinaryFace {
    pub(super) fn on_seek(&mut self, reply_to: ReplyTo, request: SeekRequest) {
        let group = self.reader_name(request.consumer_group);
        let resumes = || Some(group.clone());
        let (start, resumes) = match SeekPosition::try_from(request.position) {
            Ok(SeekPosition::Beginning) => (StreamStart::First, None),
            Ok(SeekPosition::End) => (StreamStart::Next, None),
            // 0 is before the first, as 1 is.
            Ok(SeekPosition::Offset) => {
                let offset = request.offset.saturating_sub(1);
                (StreamStart::Offset(offset), None)
            }
            Ok(SeekPosition::Timestamp) => (StreamStart::Since(request.timestamp), None),
            Ok(SeekPosition::Committed) | Err(_) => (StreamStart::Next, resumes()),
        };
        if let Some(port) = self.readers.remove(&request.queue) {
            self.close_reader(port);
        } else if self.consumers.len() + self.readers.len() >= self.config.consumers_max {
            let text = "too many consumers on this connection";
            return self.refuse(reply_to, ErrorCode::Failed, text);
        }
        let port = self.ports.insert(PortState::Consumer(Consumer {
            queue: request.queue.clone(),
            group: group.clone(),
            is_reader: true,
            prefetch: 0,
            lock: LockSpec::default(),
            is_auto: true,
            is_open: false,
            waiting: vec![reply_to],
            seen: 0,
            ended: 0,
            limit: 0,
            confirming: BTreeMap::new(),
        }));
        self.commands.push(Command::OpenConsumer {
            port,
            spec: Box::new(ConsumerSpec {
                key: None,
                address: Address::StreamOrNew(request.queue.clone()),
                browse: true,
                settled: true,
                default_outcome: Outcome::Released,
                filter: None,
                subscription: SubscriptionSpec::default(),
                stream: StreamRead { start, resumes },
                lock: LockSpec::default(),
            }),
        });
        self.readers.insert(request.queue.clone(), port);
        self.sought = Sought {
            queue: request.queue,
            group,
        };
    }

    /// The name under which a group's offsets are stored; without one, something of the connection's own.
    fn reader_name(&self, group: String) -> String {
        match group.is_empty() {
            true => self.peer.address.clone(),
            false => group,
        }
    }

    fn close_reader(&mut self, port: Port) {
        if let Some(PortState::Consumer(consumer)) = self.ports.remove(port) {
            self.commands.push(Command::Close {
                port,
                forget: false,
                lost: false,
            });
            for reply_to in consumer.waiting {
                let text = "another SEEK of the same stream came before this one was answered";
                self.refuse(reply_to, ErrorCode::Failed, text);
            }
        }
    }

    /// Ends the reader of a stream; says whether there was one.
    pub(super) fn stop_reading(&mut self, queue: &str) -> bool {
        let port = self.readers.remove(queue);
        if let Some(port) = port {
            self.close_reader(port);
        }
        port.is_some()
    }

    /// A reader is open: its SEEK is answered. Entries may already stand before the answer in the peer's buffer.
    pub(super) fn answer_seek(&mut self, waiting: Vec<ReplyTo>, opened: &ConsumerOpened) {
        let position = opened.next.map_or(0, |next| next.0);
        let offset = position.saturating_add(1);
        for reply_to in waiting {
            self.reply(reply_to, &Reply::Sought(SeekResponse { offset }));
        }
    }

    pub(super) fn on_stream_deliver(&mut self, port: Port, delivered: &Delivered) {
        let Some(consumer) = self.ports.consumer(port) else {
            return;
        };
        consumer.seen += 1;
        let record = record_of(delivered);
        let stored = record
            .as_deref()
            .and_then(|record| Stored::read(record).ok());
        let sent = stored.as_ref().map(|stored| {
            self.conn.deliver_stream(&StreamDelivery {
                stored,
                queue: &consumer.queue,
                sequence: delivered.seq.0.saturating_add(1),
                group: &consumer.group,
            })
        });
        if matches!(sent, None | Some(Err(UsageError::TooLarge))) {
            // It would be the same the next time, and nothing can be done with it in a stream.
            log::debug!(
                "{}: entry {} of a stream does not fit a frame and is left out",
                self.peer.address,
                delivered.seq.0
            );
        }
        let step = u64::from(self.config.permit_slice) / 2;
        if consumer.seen + step >= consumer.limit {
            self.update_permit(port);
        }
    }

    pub(super) fn on_commit(&mut self, reply_to: ReplyTo, request: CommitOffsetRequest) {
        let queue = match request.queue.is_empty() {
            true => self.sought.queue.clone(),
            false => request.queue,
        };
        let reader = match request.consumer_group.is_empty() {
            true if self.sought.queue == queue => self.sought.group.clone(),
            _ => self.reader_name(request.consumer_group),
        };
        // Nobody else would look for that name, so nobody else's are stored for good.
        let is_own = reader == self.peer.address;
        if queue.is_empty() {
            return self.refuse(reply_to, ErrorCode::NotFound, text::STREAM_NOT_FOUND);
        }
        let next = request.offset;
        self.ask(
            reply_to,
            Ask::StoreOffset {
                name: queue,
                reader,
                next,
                is_own,
            },
        );
    }

    pub(super) fn answer_commit(&mut self, reply_to: ReplyTo, offset: u64) {
        self.reply(reply_to, &Reply::Committed(CommitOffsetResponse { offset }));
    }
}
