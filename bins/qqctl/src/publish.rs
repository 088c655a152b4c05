//! `qqctl queue publish`: one message to a queue or an exchange.

use std::io::{IsTerminal, Read, stdin};

use argh::{ArgsInfo, FromArgs};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use crate::binding::object;
use crate::failure::Failure;
use crate::top::Context;

/// Longest message that is read from standard input; the API takes less.
const MESSAGE_LEN_MAX: u64 = 16 << 20;

/// Publish a message to a queue or, when no queue has that name, to an exchange.
#[derive(FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "publish",
    help_triggers("--help"),
    example = "qqctl queue publish orders --message 'Hello'\n\
               qqctl queue publish images --headers format=jpeg --message - < picture.jpg"
)]
pub(crate) struct Publish {
    /// the queue or exchange
    #[argh(positional)]
    name: String,
    /// the message; `-` reads it from standard input, bytes as they are
    #[argh(option, short = 'm', arg_name = "text")]
    message: String,
    /// the name is an exchange's, even if a queue has the same one
    #[argh(switch)]
    exchange: bool,
    /// routing key, for exchanges
    #[argh(option, arg_name = "key")]
    routing_key: Option<String>,
    /// headers: a JSON object, or `name=value`; may be given again
    #[argh(option, arg_name = "headers")]
    headers: Vec<String>,
    /// media type of the message
    #[argh(option, arg_name = "type")]
    content_type: Option<String>,
    /// the message's id
    #[argh(option, arg_name = "id")]
    message_id: Option<String>,
    /// what a reply will be matched by
    #[argh(option, arg_name = "id")]
    correlation_id: Option<String>,
    /// where a reply goes
    #[argh(option, arg_name = "address")]
    reply_to: Option<String>,
    /// messages with the same key are consumed one after the other
    #[argh(option, arg_name = "key")]
    ordering_key: Option<String>,
    /// a second message with the same key is not taken
    #[argh(option, arg_name = "key")]
    idempotency_key: Option<String>,
    /// priority
    #[argh(option, arg_name = "level")]
    priority: Option<u8>,
    /// the message expires after so many milliseconds
    #[argh(option, arg_name = "ms")]
    ttl_ms: Option<u64>,
    /// the message is held back for so many milliseconds
    #[argh(option, arg_name = "ms")]
    delay_ms: Option<u64>,
    /// the message does not survive a restart
    #[argh(switch)]
    transient: bool,
}

impl Publish {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let answer = context.client.post("/api/v1/publish", &self.body()?)?;
        if answer.json["routed"] == json!(false) {
            return Err(Failure::Refused(format!(
                "no queue wanted the message that was sent to {:?}",
                self.name
            )));
        }
        context
            .output
            .done(&answer, &format!("published to {}", self.name))
    }

    fn body(&self) -> Result<Value, Failure> {
        let mut body = payload(&self.message)?;
        let field = if self.exchange { "exchange" } else { "to" };
        body[field] = json!(self.name);
        let texts = [
            ("routing_key", &self.routing_key),
            ("content_type", &self.content_type),
            ("message_id", &self.message_id),
            ("correlation_id", &self.correlation_id),
            ("reply_to", &self.reply_to),
            ("ordering_key", &self.ordering_key),
            ("idempotency_key", &self.idempotency_key),
        ];
        for (field, text) in texts {
            if let Some(text) = text {
                body[field] = json!(text);
            }
        }
        let numbers = [
            ("priority", self.priority.map(u64::from)),
            ("ttl_ms", self.ttl_ms),
            ("delay_ms", self.delay_ms),
        ];
        for (field, number) in numbers {
            if let Some(number) = number {
                body[field] = json!(number);
            }
        }
        let headers = headers(&self.headers)?;
        if !headers.is_empty() {
            body["headers"] = Value::Object(headers);
        }
        if self.transient {
            body["durable"] = json!(false);
        }
        Ok(body)
    }
}

/// The message as the API takes it: text where it is text, base64 where it is not.
fn payload(message: &str) -> Result<Value, Failure> {
    if message != "-" {
        return Ok(json!({ "payload": message }));
    }
    if stdin().is_terminal() {
        eprintln!("qqctl: reading the message from the terminal, Ctrl-D ends it");
    }
    let mut bytes = Vec::new();
    stdin()
        .lock()
        .take(MESSAGE_LEN_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::Usage(format!("the message cannot be read: {error}")))?;
    if bytes.len() as u64 > MESSAGE_LEN_MAX {
        return Err(Failure::Usage(format!(
            "the message has more than {MESSAGE_LEN_MAX} bytes"
        )));
    }
    Ok(match String::from_utf8(bytes) {
        Ok(text) => json!({ "payload": text }),
        Err(error) => {
            json!({ "payload": BASE64_STANDARD.encode(error.as_bytes()), "encoding": "base64" })
        }
    })
}

/// Headers from JSON objects and `name=value`, later ones winning.
fn headers(words: &[String]) -> Result<Map<String, Value>, Failure> {
    let mut headers = Map::new();
    for word in words {
        if word.trim_start().starts_with('{') {
            if let Value::Object(fields) = object("--headers", word)? {
                headers.extend(fields);
            }
        } else if let Some((name, value)) =
            word.split_once('=').filter(|(name, _)| !name.is_empty())
        {
            headers.insert(name.to_owned(), json!(value));
        } else {
            return Err(Failure::Usage(format!(
                "--headers {word:?} is neither a JSON object nor name=value"
            )));
        }
    }
    Ok(headers)
}
