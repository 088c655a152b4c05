//! The node with a scripted face: one letter per command, one line per notice.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::{Node, Output};
use crate::broker::{Broker, BrokerConfig, Now, QueueSpec};
use crate::face::Face;
use crate::store::StoreEvent;
use crate::vocab::{
    Address, Command, ConnId, ConsumerSpec, DeliveryId, Envelope, Format, Message, Notice, Outcome,
    Port, ProducerSpec, Refusal, RuleId, Ticket,
};

const A: ConnId = ConnId(1);
const B: ConnId = ConnId(2);

/// Input: `P` opens a producer, `C` a consumer with a permit for one message, `m` publishes, `d` publishes durably,
/// `a` accepts the newest delivery and permits one more, `q` says good-bye, `.` does nothing. A permit is sent only
/// when the delivery before it was transmitted, as a real face does it.
#[derive(Default)]
struct Script {
    commands: Vec<Command>,
    out: VecDeque<Bytes>,
    tickets: u64,
    received: u64,
    wants_permit: bool,
    is_leaving: bool,
    timeout: Option<Duration>,
    /// Stops reading after every letter until output is drained.
    is_shy: bool,
    is_full: bool,
}

impl Script {
    fn say(&mut self, text: &str) {
        self.out.push_back(Bytes::copy_from_slice(text.as_bytes()));
    }

    fn publish(&mut self, durable: bool) {
        let envelope = Envelope {
            durable,
            ..Envelope::default()
        };
        let message = Message {
            envelope,
            format: Format::Amqp(0),
            payload: Bytes::from_static(b"x"),
        }
        .share();
        self.commands.push(Command::Publish {
            port: Port(0),
            ticket: Ticket(self.tickets),
            message,
            vetted: RuleId::NONE,
        });
        self.tickets += 1;
    }

    fn letter(&mut self, letter: u8) {
        let address = Address::Name("q".to_owned());
        match letter {
            b'P' => {
                let spec = Box::new(ProducerSpec { key: None, address });
                self.commands.push(Command::OpenProducer {
                    port: Port(0),
                    spec,
                });
            }
            b'C' => {
                let spec = Box::new(ConsumerSpec {
                    key: None,
                    address,
                    browse: false,
                    settled: false,
                    default_outcome: Outcome::Released,
                    subscription: Default::default(),
                    filter: None,
                    lock: Default::default(),
                    stream: crate::vocab::StreamRead::default(),
                });
                self.commands.push(Command::OpenConsumer {
                    port: Port(1),
                    spec,
                });
                self.commands.push(Command::Permit {
                    port: Port(1),
                    limit: 1,
                    drain: false,
                });
            }
            b'm' => self.publish(false),
            b'd' => self.publish(true),
            b'a' => {
                let newest = DeliveryId(self.received - 1);
                self.commands.push(Command::Settle {
                    port: Port(1),
                    first: newest,
                    last: newest,
                    outcome: Outcome::Accepted,
                    confirm: false,
                });
                self.wants_permit = true;
                self.say("ok\n");
            }
            b'q' => self.is_leaving = true,
            _ => {}
        }
    }
}

impl Face for Script {
    fn handle_input(&mut self, _now: Now, input: &mut BytesMut) {
        while !input.is_empty() && !self.is_full {
            let letter = input.split_to(1)[0];
            self.letter(letter);
            if self.is_shy {
                self.say("-");
                self.is_full = true;
            }
        }
    }

    fn handle_notices(&mut self, _now: Now, notices: &mut Vec<Notice>) {
        for notice in notices.drain(..) {
            match notice {
                Notice::Deliver { delivered, .. } => {
                    self.received += 1;
                    self.say(&format!("message {}\n", delivered.delivery.0));
                }
                Notice::Confirm { first, last, .. } => {
                    self.say(&format!("confirm {}-{}\n", first.0, last.0))
                }
                Notice::Closed { refusal, .. } => {
                    self.say(&format!("closed {:?}\n", refusal.reason))
                }
                Notice::Refused { refusal, .. } => {
                    self.say(&format!("refused {:?}\n", refusal.reason))
                }
                _ => {}
            }
        }
    }

    fn handle_eof(&mut self, _now: Now) {
        self.say("eof\n");
        self.is_leaving = true;
    }

    fn handle_timeout(&mut self, _now: Now) {
        self.timeout = None;
        self.say("tick\n");
    }

    fn handle_shutdown(&mut self, _now: Now, refusal: &Refusal) {
        self.say(&format!("shutdown {:?}\n", refusal.reason));
        self.is_leaving = true;
    }

    fn poll_commands(&mut self, commands: &mut Vec<Command>) {
        commands.append(&mut self.commands);
        if self.wants_permit && self.out.is_empty() {
            self.wants_permit = false;
            commands.push(Command::Permit {
                port: Port(1),
                limit: self.received + 1,
                drain: false,
            });
        }
    }

    fn poll_transmit(&mut self, _now: Now, out: &mut VecDeque<Bytes>, _budget: usize) -> usize {
        // One piece a call, however large the budget.
        let Some(bytes) = self.out.pop_front() else {
            return 0;
        };
        self.is_full = false;
        let len = bytes.len();
        out.push_back(bytes);
        len
    }

    fn poll_timeout(&self) -> Option<Duration> {
        self.timeout
    }

    fn wants_read(&self) -> bool {
        !self.is_full
    }

    fn is_authenticated(&self) -> bool {
        false
    }

    fn is_done(&self) -> bool {
        self.is_leaving && self.out.is_empty()
    }
}

fn now() -> Now {
    Now {
        mono: Duration::from_secs(1),
        wall_ms: 0,
    }
}

fn node_with(peers: &[ConnId]) -> Node {
    let config = BrokerConfig {
        queues: vec![QueueSpec {
            durable: true,
            ..QueueSpec::new("q")
        }],
        ..BrokerConfig::default()
    };
    let mut broker = Broker::new(config);
    broker.recovered(now());
    let mut node = Node::new(broker);
    for peer in peers {
        node.connect(now(), *peer, Box::new(Script::default()));
    }
    drain(&mut node, true);
    node
}

/// Takes the output as text; answers batches when `is_safe`.
fn drain(node: &mut Node, is_safe: bool) -> String {
    let mut text = String::new();
    while let Some(output) = node.poll_output() {
        match output {
            Output::Transmit { conn, bytes } => {
                text.push_str(&format!("{}: {}", conn.0, String::from_utf8_lossy(&bytes)));
            }
            Output::Persist(batch) if is_safe => {
                node.handle_store(now(), StoreEvent::Persisted { upto: batch.id });
            }
            Output::Persist(batch) => text.push_str(&format!("persist {}\n", batch.id.0)),
            Output::Close { conn } => text.push_str(&format!("close {}\n", conn.0)),
            Output::Fail { text: why } => text.push_str(&format!("fail {why}\n")),
            Output::Reply { .. } => panic!("nothing was asked"),
            Output::Fetch(fetch) => panic!("nothing is fetched so far: {fetch:?}"),
        }
    }
    text
}

fn input(node: &mut Node, conn: ConnId, letters: &str) {
    let mut bytes = BytesMut::from(letters.as_bytes());
    node.handle_input(now(), conn, &mut bytes);
    assert!(bytes.is_empty(), "{bytes:?} was left");
}

#[test]
fn messages_pass_from_face_to_face() {
    let mut node = node_with(&[A, B]);
    input(&mut node, A, "Pmm");
    assert_eq!(drain(&mut node, true), "1: confirm 0-1\n");
    input(&mut node, B, "C");
    assert_eq!(drain(&mut node, true), "2: message 0\n");
    // The permit comes only after output was drained, and is heard all the same.
    input(&mut node, B, "a");
    assert_eq!(drain(&mut node, true), "2: ok\n2: message 1\n");
    assert_eq!(
        (
            node.broker().counters().messages,
            node.broker().counters().unsettled
        ),
        (1, 1)
    );
}

#[test]
fn nothing_durable_is_told_before_the_store_answers() {
    let mut node = node_with(&[A, B]);
    input(&mut node, B, "C");
    input(&mut node, A, "Pd");
    assert_eq!(drain(&mut node, false), "persist 2\n");
    node.handle_store(
        now(),
        StoreEvent::Persisted {
            upto: crate::store::BatchId(2),
        },
    );
    assert_eq!(drain(&mut node, false), "1: confirm 0-0\n2: message 0\n");
}

#[test]
fn a_lost_socket_gives_its_messages_back() {
    let mut node = node_with(&[A, B]);
    input(&mut node, A, "Pm");
    input(&mut node, B, "C");
    drain(&mut node, true);
    node.disconnect(now(), B);
    node.disconnect(now(), B);
    assert!(!node.is_connected(B));
    let counters = node.broker().counters();
    assert_eq!(
        (counters.messages, counters.unsettled, counters.connections),
        (1, 0, 1)
    );
    input(&mut node, A, "C");
    assert_eq!(drain(&mut node, true), "1: message 0\n");
}

#[test]
fn a_face_that_is_done_is_closed_after_its_last_bytes() {
    let mut node = node_with(&[A, B]);
    input(&mut node, A, "P");
    node.handle_eof(now(), A);
    assert_eq!(drain(&mut node, true), "1: eof\nclose 1\n");
    assert_eq!(node.broker().counters().ports(), 0);
    input(&mut node, B, "q");
    assert_eq!(drain(&mut node, true), "close 2\n");
    // Late input of a forgotten connection is nobody's.
    node.handle_input(now(), A, &mut BytesMut::from(&b"Pm"[..]));
    node.handle_eof(now(), A);
    assert_eq!(drain(&mut node, true), "");
}

#[test]
fn a_face_that_stops_reading_goes_on_when_its_output_is_taken() {
    let mut node = node_with(&[]);
    node.connect(
        now(),
        A,
        Box::new(Script {
            is_shy: true,
            ..Script::default()
        }),
    );
    input(&mut node, A, "Pmmm");
    assert_eq!(
        drain(&mut node, true),
        "1: -1: -1: confirm 0-0\n1: -1: confirm 1-1\n1: -1: confirm 2-2\n"
    );
}

#[test]
fn shutdown_and_failure_are_told_to_every_peer() {
    let mut node = node_with(&[A, B]);
    node.shutdown(now());
    assert_eq!(
        drain(&mut node, true),
        "1: shutdown Shutdown\nclose 1\n2: shutdown Shutdown\nclose 2\n"
    );
    let mut node = node_with(&[A, B]);
    input(&mut node, A, "Pd");
    node.handle_store(
        now(),
        StoreEvent::Failed {
            text: "no space".to_owned(),
        },
    );
    assert_eq!(
        drain(&mut node, false),
        "persist 2\n1: shutdown Internal\nclose 1\n2: shutdown Internal\nclose 2\nfail no space\n"
    );
}

#[test]
fn the_earliest_timer_of_faces_and_broker_counts() {
    let mut node = node_with(&[]);
    let late = Script {
        timeout: Some(Duration::from_secs(9)),
        ..Script::default()
    };
    let soon = Script {
        timeout: Some(Duration::from_secs(5)),
        ..Script::default()
    };
    node.connect(now(), A, Box::new(late));
    node.connect(now(), B, Box::new(soon));
    assert_eq!(node.poll_timeout(), Some(Duration::from_secs(5)));
    node.handle_timeout(Now {
        mono: Duration::from_secs(5),
        wall_ms: 0,
    });
    assert_eq!(drain(&mut node, true), "2: tick\n");
    assert_eq!(node.poll_timeout(), Some(Duration::from_secs(9)));
}

#[test]
fn what_is_done_to_the_broker_reaches_the_faces() {
    let mut node = node_with(&[A]);
    input(&mut node, A, "P");
    node.administer(now(), |broker| broker.delete_queue(now(), "q"))
        .expect("q exists");
    assert_eq!(drain(&mut node, true), "1: closed Deleted\n");
    input(&mut node, A, "C");
    assert_eq!(drain(&mut node, true), "1: refused NotFound\n");
}

#[test]
fn equal_inputs_give_equal_outputs() {
    let run = || {
        let peers: Vec<_> = (1..=20).map(ConnId).collect();
        let mut node = node_with(&peers);
        let mut text = String::new();
        for round in 0..60u64 {
            let peer = ConnId(1 + round * 7 % 20);
            input(
                &mut node,
                peer,
                ["PC", "md", ".", "dmd"][(round / 20) as usize % 4],
            );
            text.push_str(&drain(&mut node, round % 3 != 0));
        }
        text
    };
    let first = run();
    assert!(first.len() > 500, "{first}");
    assert_eq!(first, run());
}
