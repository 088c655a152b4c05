//! Measures what ordering keys cost: nanoseconds per message that is delivered to one of a hundred consumers and
//! settled, without keys and with many and few of them.
//!
//! `cargo run --release -p qq-core --example ordering`. Prints only; nothing is asserted about time. The ratio to the
//! plain rate holds in a debug build as well.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a measurement reads the clock"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use qq_core::broker::{Action, Broker, BrokerConfig, Event, Now, QueueSpec};
use qq_core::vocab::{
    Address, Command, ConnId, ConsumerSpec, DeliveryId, Envelope, Format, LockSpec, Message,
    Notice, Outcome, Port, ProducerSpec, RuleId, StreamRead, SubscriptionSpec, Ticket,
};

const MESSAGES: u64 = 1_000_000;
const CONSUMERS: u32 = 100;
/// Deliveries that one consumer may hold.
const PREFETCH: u64 = 50;
const ROUNDS: usize = 3;
const CONN: ConnId = ConnId(1);
const NOW: Now = Now {
    mono: Duration::from_secs(1),
    wall_ms: 0,
};

fn command(broker: &mut Broker, commands: Vec<Command>) {
    let conn = CONN;
    broker.handle_event(NOW, Event::Commands { conn, commands });
}

fn address() -> Address {
    Address::Name("q".to_owned())
}

/// A broker with a backlog, and its consumers, which have no permit yet.
fn filled(keys: u64) -> Broker {
    let mut broker = Broker::new(BrokerConfig {
        queues: vec![QueueSpec::new("q")],
        hash_seed: 7,
        ..BrokerConfig::default()
    });
    broker.recovered(NOW);
    broker.handle_event(NOW, Event::Connected { conn: CONN });
    let spec = Box::new(ProducerSpec {
        key: None,
        address: address(),
    });
    let port = Port(0);
    command(&mut broker, vec![Command::OpenProducer { port, spec }]);
    let payload = Bytes::from_static(&[7; 100]);
    for first in (0..MESSAGES).step_by(1_000) {
        let publishes = (first..first + 1_000).map(|number| Command::Publish {
            port,
            ticket: Ticket(number),
            vetted: RuleId::NONE,
            message: Arc::new(Message {
                envelope: Envelope {
                    group_id: number
                        .checked_rem(keys)
                        .map(|key| Bytes::from(format!("customer-{key}"))),
                    ..Envelope::default()
                },
                format: Format::Amqp(0),
                payload: payload.clone(),
            }),
        });
        command(&mut broker, publishes.collect());
        broker.flush(NOW);
        while broker.poll_action().is_some() {}
    }
    let opens = (1..=CONSUMERS).map(|port| Command::OpenConsumer {
        port: Port(port),
        spec: Box::new(ConsumerSpec {
            key: None,
            address: address(),
            browse: false,
            settled: false,
            default_outcome: Outcome::Released,
            subscription: SubscriptionSpec::default(),
            filter: None,
            lock: LockSpec::default(),
            stream: StreamRead::default(),
        }),
    });
    command(&mut broker, opens.collect());
    broker
}

/// Nanoseconds per message.
fn drain(mut broker: Broker) -> f64 {
    let mut ended = vec![0; CONSUMERS as usize + 1];
    let begin = Instant::now();
    let permits = (1..=CONSUMERS).map(|port| Command::Permit {
        port: Port(port),
        limit: PREFETCH,
        drain: false,
    });
    command(&mut broker, permits.collect());
    let mut done = 0;
    while done < MESSAGES {
        broker.flush(NOW);
        let mut commands = Vec::new();
        while let Some(action) = broker.poll_action() {
            let Action::Notify { notices, .. } = action else {
                continue;
            };
            for notice in notices {
                let Notice::Deliver { port, delivered } = notice else {
                    continue;
                };
                done += 1;
                let DeliveryId(last) = delivered.delivery;
                ended[port.0 as usize] = last + 1;
                commands.push(Command::Settle {
                    port,
                    first: delivered.delivery,
                    last: delivered.delivery,
                    outcome: Outcome::Accepted,
                    confirm: false,
                });
            }
        }
        assert!(!commands.is_empty(), "stuck after {done}");
        commands.extend((1..=CONSUMERS).map(|port| Command::Permit {
            port: Port(port),
            limit: ended[port as usize] + PREFETCH,
            drain: false,
        }));
        command(&mut broker, commands);
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let each_ns = begin.elapsed().as_nanos() as f64 / MESSAGES as f64;
    each_ns
}

fn main() {
    let mut plain_ns = f64::MAX;
    for keys in [0, MESSAGES, 10_000, 100] {
        let rounds = (0..ROUNDS).map(|_| drain(filled(keys)));
        let least_ns = rounds.fold(f64::MAX, f64::min);
        if keys == 0 {
            plain_ns = least_ns;
        }
        let share = 100.0 * plain_ns / least_ns;
        println!("{keys:>8} keys {least_ns:>9.1} ns/message, {share:>5.1} % of the plain rate");
    }
}
