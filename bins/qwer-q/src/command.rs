//! What the commands ask of the broker, and what they print.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use qq_proto_binary::message::{
    AckRequest, Compatibility, ConsumeRequest, PublishRequest, QueuePurgeRequest,
    SchemaRegisterRequest,
};
use qq_proto_binary::reply::Reply;
use qq_proto_binary::request::Request;

use crate::args::{QueueCommand, QueueConsume, QueuePublish, SchemaCommand, SchemaRegister};
use crate::client::Client;
use crate::{Failure, peek, serve};

fn connect(broker: &str, token: Option<String>) -> Result<Client, Failure> {
    Client::connect(
        broker,
        token.or_else(|| serve::variable("QWERQ_AUTH_TOKEN")),
    )
}

pub(crate) fn queue(
    command: QueueCommand,
    broker: &str,
    token: Option<String>,
) -> Result<ExitCode, Failure> {
    if let QueueCommand::Peek(peek) = &command {
        let token = token.or_else(|| serve::variable("QWERQ_AUTH_TOKEN"));
        return peek::peek(peek, token);
    }
    let mut client = connect(broker, token)?;
    match command {
        QueueCommand::List(_) => {
            let Reply::QueueList(list) = client.ask(&Request::QueueList)? else {
                return Err(unexpected());
            };
            let rows = list.queues.into_iter().map(|queue| {
                [
                    queue.name,
                    queue.message_count.to_string(),
                    queue.in_flight_count.to_string(),
                ]
            });
            say(&table(["NAME", "MESSAGES", "IN-FLIGHT"], rows))
        }
        QueueCommand::Publish(publish) => publish_one(&mut client, publish),
        QueueCommand::Consume(consume) => return take(&mut client, &consume),
        QueueCommand::Purge(purge) => {
            let queue = purge.queue;
            let request = Request::QueuePurge(QueuePurgeRequest {
                queue: queue.clone(),
            });
            let Reply::QueuePurged(purged) = client.ask(&request)? else {
                return Err(unexpected());
            };
            say(&format!(
                "{} messages removed from {queue:?}\n",
                purged.message_count
            ))
        }
        QueueCommand::Peek(_) => Ok(()),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn publish_one(client: &mut Client, publish: QueuePublish) -> Result<(), Failure> {
    let mut headers = BTreeMap::new();
    for header in &publish.header {
        let Some((name, value)) = header.split_once('=') else {
            let text = format!("--header {header}: it is written NAME=VALUE");
            return Err(Failure::Usage(text));
        };
        headers.insert(name.to_owned(), value.to_owned());
    }
    let payload = match publish.payload {
        Some(text) if text != "-" => text.into_bytes(),
        _ => {
            let mut bytes = Vec::new();
            std::io::stdin()
                .lock()
                .read_to_end(&mut bytes)
                .map_err(|error| Failure::Usage(format!("standard input: {error}")))?;
            bytes
        }
    };
    let request = Request::Publish(Box::new(PublishRequest {
        queue: publish.queue,
        payload: payload.into(),
        headers,
        message_id: publish.id,
        ordering_key: publish.ordering_key,
        ..PublishRequest::default()
    }));
    match client.ask(&request)? {
        Reply::Published(published) => say(&format!("{}\n", published.message_id)),
        _ => Err(unexpected()),
    }
}

fn take(client: &mut Client, consume: &QueueConsume) -> Result<ExitCode, Failure> {
    let prefetch = match consume.count {
        0 => 0,
        count => u32::try_from(count).unwrap_or(0).min(100),
    };
    client.ask(&Request::Consume(ConsumeRequest {
        queue: consume.queue.clone(),
        prefetch,
        ..ConsumeRequest::default()
    }))?;
    let patience = (consume.timeout > 0).then(|| Duration::from_secs(consume.timeout));
    let mut taken = 0;
    while consume.count == 0 || taken < consume.count {
        let Some(message) = client.message(patience)? else {
            return Ok(ExitCode::from(crate::EXIT_REFUSED));
        };
        let mut out = std::io::stdout().lock();
        let printed = out
            .write_all(&message.payload)
            .and_then(|()| out.write_all(b"\n"))
            .and_then(|()| out.flush());
        if printed.is_err() {
            // Nobody reads on: the message goes back.
            return Ok(ExitCode::SUCCESS);
        }
        client.ask(&Request::Ack(AckRequest {
            delivery_id: message.delivery_id,
            ..AckRequest::default()
        }))?;
        taken += 1;
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn schema(
    command: SchemaCommand,
    broker: &str,
    token: Option<String>,
) -> Result<ExitCode, Failure> {
    match command {
        SchemaCommand::List(_) => {
            let mut client = connect(broker, token)?;
            let Reply::SchemaList(list) = client.ask(&Request::SchemaList)? else {
                return Err(unexpected());
            };
            if list.schemas.is_empty() {
                say("No schemas registered\n")?;
            } else {
                let rows = list.schemas.into_iter().map(|schema| {
                    [
                        schema.queue,
                        schema.message_type,
                        schema.version.to_string(),
                    ]
                });
                say(&table(["QUEUE", "MESSAGE TYPE", "VERSION"], rows))?;
            }
        }
        SchemaCommand::Register(register) => {
            let request = registration(register)?;
            let queue = request.queue.clone();
            let mut client = connect(broker, token)?;
            let Reply::Schema(made) = client.ask(&Request::SchemaRegister(request.into()))? else {
                return Err(unexpected());
            };
            say(&format!(
                "Schema registered for queue {queue:?} (version {})\n",
                made.version
            ))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn registration(register: SchemaRegister) -> Result<SchemaRegisterRequest, Failure> {
    let text = std::fs::read_to_string(&register.proto)
        .map_err(|error| Failure::Usage(format!("{}: {error}", register.proto)))?;
    let compatibility = match register.compatibility.as_deref() {
        None => Compatibility::Unspecified,
        Some("none") => Compatibility::None,
        Some("backward") => Compatibility::Backward,
        Some("forward") => Compatibility::Forward,
        Some("full") => Compatibility::Full,
        Some(other) => {
            let text = format!("--compatibility {other}: none, backward, forward or full");
            return Err(Failure::Usage(text));
        }
    };
    Ok(SchemaRegisterRequest {
        queue: register.queue,
        proto_source: text,
        message_type: register.message,
        compatibility: compatibility as i32,
        ..SchemaRegisterRequest::default()
    })
}

fn unexpected() -> Failure {
    Failure::Unreachable("the broker answers with something else".to_owned())
}

/// Prints; a reader that went away is no failure.
fn say(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    Ok(())
}

/// Columns as wide as their widest cell. What a terminal would act on is escaped.
fn table<const N: usize>(head: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let mut all = vec![head.map(str::to_owned)];
    all.extend(rows.map(|row| row.map(|cell| visible(&cell))));
    let width = |at: usize| all.iter().map(|row| row[at].chars().count()).max();
    let widths: Vec<usize> = (0..N).map(|at| width(at).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &all {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let rows = [
            ["orders".to_owned(), "42".to_owned()],
            ["a\u{1b}b".to_owned(), "7".to_owned()],
        ];
        let text = table(["NAME", "MESSAGES"], rows.into_iter());
        assert_eq!(text, "NAME      MESSAGES\norders    42\na\\u{1b}b  7\n");
    }
}
