//! `qqctl queue create`: a queue with its settings.

use argh::{ArgsInfo, FromArgs};
use serde_json::{Value, json};

use crate::amount::{Size, SpanMs};
use crate::failure::Failure;
use crate::top::Context;

use super::path;

/// Create a queue; the same once more is no error.
#[derive(FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "create",
    help_triggers("--help"),
    example = "qqctl queue create orders --durable --message-ttl 24h --max-length 100000 --overflow drop-head"
)]
pub(super) struct Create {
    /// its name
    #[argh(positional)]
    name: String,
    /// it survives a restart; so it is unless --transient is given
    #[argh(switch)]
    durable: bool,
    /// it does not survive a restart
    #[argh(switch)]
    transient: bool,
    /// it is deleted with its last consumer
    #[argh(switch)]
    auto_delete: bool,
    /// messages expire after this time
    #[argh(option, arg_name = "time")]
    message_ttl: Option<SpanMs>,
    /// messages that it holds at most
    #[argh(option, arg_name = "count")]
    max_length: Option<u64>,
    /// bytes of payload that it holds at most
    #[argh(option, arg_name = "size")]
    max_bytes: Option<Size>,
    /// what happens when it is full: reject, drop-head or reject-dlx
    #[argh(option, arg_name = "policy")]
    overflow: Option<String>,
    /// it is deleted when nobody used it for this time
    #[argh(option, arg_name = "time")]
    expires: Option<SpanMs>,
    /// levels of priority, up to 32
    #[argh(option, arg_name = "levels")]
    max_priority: Option<u64>,
    /// failed attempts after which the failure policy applies; 0 is no limit
    #[argh(option, arg_name = "count")]
    max_deliveries: Option<u64>,
    /// what becomes of what cannot be consumed: dlq, drop or infinite
    #[argh(option, arg_name = "policy")]
    failure_policy: Option<String>,
    /// where dead letters go
    #[argh(option, arg_name = "exchange")]
    dead_letter_exchange: Option<String>,
    /// the routing key of dead letters
    #[argh(option, arg_name = "key")]
    dead_letter_routing_key: Option<String>,
    /// wait between attempts: MIN,MAX,FACTOR such as 1s,1m,2
    #[argh(option, arg_name = "times")]
    retry_backoff: Option<Backoff>,
    /// how long a consumer may hold a message
    #[argh(option, arg_name = "time")]
    lock_timeout: Option<SpanMs>,
    /// how long duplicates are recognised
    #[argh(option, arg_name = "time")]
    dedup_window: Option<SpanMs>,
    /// one consumer at a time gets messages
    #[argh(switch)]
    single_active_consumer: bool,
}

/// How the wait between attempts grows.
struct Backoff {
    min: SpanMs,
    max: SpanMs,
    factor: u64,
}

impl std::str::FromStr for Backoff {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "it is MIN,MAX,FACTOR such as 1s,1m,2".to_owned();
        let parts: Vec<&str> = text.split(',').collect();
        let [min, max, factor] = parts[..] else {
            return Err(wrong());
        };
        Ok(Self {
            min: min.parse()?,
            max: max.parse()?,
            factor: factor.parse().map_err(|_| wrong())?,
        })
    }
}

impl Create {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        if self.durable && self.transient {
            return Err(Failure::Usage(
                "--durable and --transient contradict each other".to_owned(),
            ));
        }
        let answer = context.client.put(&path(&self.name), &self.settings())?;
        context
            .output
            .done(&answer, &format!("queue {} is there", self.name))
    }

    /// What is asked for; what is not named is left to the broker.
    fn settings(&self) -> Value {
        let span = |span: Option<SpanMs>| span.map(|span| json!(span.0));
        let number = |number: Option<u64>| number.map(|number| json!(number));
        let text = |text: &Option<String>| text.as_ref().map(|text| json!(text));
        let flag = |flag: bool| flag.then_some(Value::Bool(true));
        let backoff = self.retry_backoff.as_ref();
        let backoff =
            backoff.map(|b| json!({"min_ms": b.min.0, "max_ms": b.max.0, "factor": b.factor}));
        let fields = [
            ("durable", flag(self.durable)),
            ("durable", self.transient.then_some(Value::Bool(false))),
            ("auto_delete", flag(self.auto_delete)),
            ("message_ttl_ms", span(self.message_ttl)),
            ("max_length", number(self.max_length)),
            ("max_bytes", self.max_bytes.map(|size| json!(size.0))),
            ("overflow", text(&self.overflow)),
            ("expires_ms", span(self.expires)),
            ("max_priority", number(self.max_priority)),
            ("max_deliveries", number(self.max_deliveries)),
            ("failure_policy", text(&self.failure_policy)),
            ("dead_letter_exchange", text(&self.dead_letter_exchange)),
            (
                "dead_letter_routing_key",
                text(&self.dead_letter_routing_key),
            ),
            ("retry_backoff", backoff),
            ("lock_timeout_ms", span(self.lock_timeout)),
            ("single_active_consumer", flag(self.single_active_consumer)),
            ("dedup_window_ms", span(self.dedup_window)),
        ];
        fields
            .into_iter()
            .filter_map(|(field, value)| Some((field.to_owned(), value?)))
            .collect()
    }
}
