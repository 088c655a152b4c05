//! `qqctl message`: one message, and why it is where it is.

use argh::{ArgsInfo, FromArgs};
use serde_json::Value;

use crate::client::{query, segment};
use crate::failure::Failure;
use crate::link::reasons;
use crate::output::{plain, thousands};
use crate::top::Context;

/// Messages of a queue that one request looks at for an id.
const PAGE: u64 = 1_000;
/// Messages of a queue that are looked at for an id at most.
const SEARCH_MAX: u64 = 100_000;

/// One message.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "message", help_triggers("--help"))]
pub(crate) struct Args {
    #[argh(subcommand)]
    command: Command,
}

#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand)]
enum Command {
    Why(Why),
}

/// Say where a message is, and why nobody gets it.
#[derive(FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "why",
    help_triggers("--help"),
    example = "qqctl message why orders 42"
)]
struct Why {
    /// the queue that it is in
    #[argh(positional)]
    queue: String,
    /// its position, which `queue peek` shows, or its id
    #[argh(positional)]
    message: String,
}

impl Args {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let Command::Why(args) = &self.command;
        let position = match args.message.parse() {
            Ok(position) => position,
            Err(_) => find(context, &args.queue, &args.message)?,
        };
        let path = format!(
            "/api/v1/queues/{}/messages/{position}",
            segment(&args.queue)
        );
        let answer = context.client.get(&path)?;
        let message = &answer.json;
        let mut text = format!(
            "message {} at {} of {}: {}, attempt {}, {} bytes\n",
            plain(&message["id"]),
            plain(&message["position"]),
            plain(&message["queue"]),
            plain(&message["state"]),
            plain(&message["attempt"]),
            plain(&message["payload_bytes"]),
        );
        text += &reasons(message);
        for death in message["deaths"].as_array().into_iter().flatten() {
            text += &format!(
                "  was in {} until {}: {}, {} times\n",
                plain(&death["queue"]),
                plain(&death["time"]),
                plain(&death["reason"]),
                plain(&death["count"]),
            );
        }
        context.output.text(&answer, &text)
    }
}

/// The position of a message with this id.
fn find(context: &Context, queue: &str, id: &str) -> Result<u64, Failure> {
    let mut from = 0;
    let mut seen = 0;
    while seen < SEARCH_MAX {
        let page = query(&[
            ("from", Some(from.to_string())),
            ("limit", Some(PAGE.to_string())),
            ("payload_max", Some("0".to_owned())),
            ("held", Some("true".to_owned())),
        ]);
        let path = format!("/api/v1/queues/{}/messages{page}", segment(queue));
        let answer = context.client.get(&path)?;
        let rows = answer
            .json
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let is_it = |row: &&Value| {
            row["id"].as_str() == Some(id) || row["properties"]["message_id"].as_str() == Some(id)
        };
        if let Some(position) = rows
            .iter()
            .find(is_it)
            .and_then(|row| row["position"].as_u64())
        {
            return Ok(position);
        }
        let Some(last) = rows.last().and_then(|row| row["position"].as_u64()) else {
            break;
        };
        seen += rows.len() as u64;
        from = last + 1;
    }
    Err(Failure::Refused(format!(
        "no message {id:?} among the first {} of {queue:?}",
        thousands(seen)
    )))
}
