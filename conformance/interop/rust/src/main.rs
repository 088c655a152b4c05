//! fe2o3-amqp (Rust) against a broker: the program that run.sh starts.
//!
//! ```text
//! qq-interop-fe2o3 test  --port P --auto-port A   every test of this client; one line each, PASS or FAIL
//! qq-interop-fe2o3 put   --port P --queue Q       sends every message of messages.json
//! qq-interop-fe2o3 check --port P --queue Q       receives them (sent by any client) and compares each one
//! ```
//!
//! Queues are declared by run.sh as `interop-rust-TEST`. The broker at `--auto-port` makes queues on attach, the other not.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a client has sockets and clocks; the bans are for the pure crates"
)]

mod delivery;
mod link;
mod routing;
mod tests;
mod transactions;
mod values;

use link::{Conn, Login, R};
use std::time::{SystemTime, UNIX_EPOCH};

/// What the command line says.
#[derive(Clone)]
pub struct Args {
    command: String,
    port: u16,
    auto_port: u16,
    user: String,
    password: String,
    /// How a queue's name becomes an address: `{}` stands for the name.
    address: String,
    queue: String,
    messages: String,
    only: Vec<String>,
}

impl Args {
    fn parse() -> R<Self> {
        let all: Vec<String> = std::env::args().skip(1).collect();
        let value = |key: &str, default: &str| -> String {
            all.iter()
                .position(|a| a == key)
                .and_then(|i| all.get(i + 1))
                .map_or(default, |s| s.as_str())
                .to_string()
        };
        let number = |key: &str| {
            value(key, "0")
                .parse::<u16>()
                .map_err(|e| format!("{key}: {e}"))
        };
        Ok(Args {
            command: all.first().cloned().unwrap_or_default(),
            port: number("--port")?,
            auto_port: number("--auto-port")?,
            user: value("--user", "guest"),
            password: value("--password", "guest"),
            address: value("--address", "{}"),
            queue: value("--queue", ""),
            messages: value(
                "--messages",
                concat!(env!("CARGO_MANIFEST_DIR"), "/../messages.json"),
            ),
            only: value("--only", "")
                .split(',')
                .filter(|s| !s.is_empty())
                .map(String::from)
                .collect(),
        })
    }

    fn queue_for(&self, test: &str) -> String {
        self.address.replace("{}", &format!("interop-rust-{test}"))
    }

    /// An address that nothing has declared.
    fn absent(&self) -> String {
        let nanos = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_nanos());
        self.address
            .replace("{}", &format!("interop-absent-{nanos}"))
    }
}

async fn put(a: &Args) -> R {
    let mut c = Conn::open(a.port, Login::Anonymous).await?;
    let mut tx = c.sender(&a.queue).await?;
    for want in values::load(&a.messages)? {
        let outcome = link::send(&mut tx, values::message(&want)).await?;
        link::eq(outcome.as_str(), "accepted", &want["name"].to_string())?;
    }
    c.close().await
}

async fn check(a: &Args) -> R {
    let mut c = Conn::open(a.port, Login::Anonymous).await?;
    let mut rx = c.receiver(&a.queue).await?;
    let wants = values::load(&a.messages)?;
    link::credit(&mut rx, wants.len() as u32).await?;
    let mut bad = vec![];
    for want in &wants {
        let d = link::take(&mut rx).await?;
        bad.extend(
            values::differences(want, d.message())
                .into_iter()
                .map(|s| format!("{}: {s}", want["name"])),
        );
        link::accept(&rx, &d).await?;
    }
    c.close().await?;
    if bad.is_empty() {
        Ok(())
    } else {
        Err(bad.join("; "))
    }
}

#[tokio::main]
async fn main() {
    let result = match Args::parse() {
        Err(e) => Err(e),
        Ok(a) => match a.command.as_str() {
            "test" => {
                tests::run(&a).await;
                transactions::run(&a).await;
                routing::run(&a).await;
                delivery::run(&a).await;
                Ok(())
            }
            "put" => put(&a).await,
            "check" => check(&a).await,
            other => Err(format!("{other:?}: test, put or check")),
        },
    };
    if let Err(e) = result {
        eprintln!("{e}");
        std::process::exit(1);
    }
}
