//! `qqctl exchange bind` and `unbind`.

use argh::{ArgsInfo, FromArgs};
use serde_json::{Value, json};

use crate::client::query;
use crate::failure::Failure;
use crate::output::{Column, Text};
use crate::top::Context;

pub(crate) const COLUMNS: &[Column] = &[
    Column::new("EXCHANGE", "exchange", Text),
    Column::new("QUEUE", "queue", Text),
    Column::new("TO-EXCHANGE", "to_exchange", Text),
    Column::new("ROUTING-KEY", "routing_key", Text),
    Column::new("ARGUMENTS", "arguments", Text),
];

/// Bind a queue, or another exchange, to an exchange.
#[derive(FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "bind",
    help_triggers("--help"),
    example = "qqctl exchange bind orders-ex orders --routing-key 'orders.*'"
)]
pub(crate) struct Bind {
    /// where messages come from
    #[argh(positional)]
    exchange: String,
    /// the queue that they go to; with --to-exchange, the exchange
    #[argh(positional)]
    destination: String,
    /// which messages, for direct and topic exchanges
    #[argh(option, arg_name = "key", default = "String::new()")]
    routing_key: String,
    /// which messages, for headers exchanges: a JSON object
    #[argh(option, arg_name = "json")]
    arguments: Option<String>,
    /// the destination is an exchange
    #[argh(switch)]
    to_exchange: bool,
}

/// Take a binding away; name it as it was made.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "unbind", help_triggers("--help"))]
pub(crate) struct Unbind {
    /// where messages come from
    #[argh(positional)]
    exchange: String,
    /// the queue that they go to; with --to-exchange, the exchange
    #[argh(positional)]
    destination: String,
    /// the binding's routing key
    #[argh(option, arg_name = "key", default = "String::new()")]
    routing_key: String,
    /// the binding's arguments: a JSON object
    #[argh(option, arg_name = "json")]
    arguments: Option<String>,
    /// the destination is an exchange
    #[argh(switch)]
    to_exchange: bool,
}

impl Bind {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let mut body = json!({
            "exchange": self.exchange,
            "routing_key": self.routing_key,
        });
        body[destination(self.to_exchange)] = json!(self.destination);
        if let Some(text) = &self.arguments {
            body["arguments"] = object("--arguments", text)?;
        }
        let answer = context.client.post("/api/v1/bindings", &body)?;
        let Self {
            exchange,
            destination,
            ..
        } = self;
        context
            .output
            .done(&answer, &format!("{destination} is bound to {exchange}"))
    }
}

impl Unbind {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let arguments = self
            .arguments
            .as_deref()
            .map(|text| object("--arguments", text))
            .transpose()?;
        let query = query(&[
            ("exchange", Some(self.exchange.clone())),
            (
                destination(self.to_exchange),
                Some(self.destination.clone()),
            ),
            ("routing_key", Some(self.routing_key.clone())),
            (
                "arguments",
                arguments.map(|arguments| arguments.to_string()),
            ),
        ]);
        let answer = context.client.delete(&format!("/api/v1/bindings{query}"))?;
        let Self {
            exchange,
            destination,
            ..
        } = self;
        context.output.done(
            &answer,
            &format!("{destination} is no longer bound to {exchange} by that"),
        )
    }
}

fn destination(to_exchange: bool) -> &'static str {
    if to_exchange { "to_exchange" } else { "queue" }
}

/// A JSON object that an option holds.
pub(crate) fn object(option: &str, text: &str) -> Result<Value, Failure> {
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(Failure::Usage(format!(
            "{option} is a JSON object such as '{{\"format\": \"jpeg\"}}'"
        ))),
        Err(error) => Err(Failure::Usage(format!("{option} is no JSON: {error}"))),
    }
}
