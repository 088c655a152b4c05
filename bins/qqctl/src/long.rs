//! Work on many messages in steps, with progress for those who watch.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Answer;
use crate::failure::Failure;
use crate::output::thousands;
use crate::top::Context;

/// Messages per request: some tens of milliseconds of the broker's time.
const STEP: u64 = 10_000;
/// How often progress is shown.
const EVERY: Duration = Duration::from_millis(200);

/// Posts to `path` again and again until `limit` messages are moved or none is left. Returns an answer as if one request
/// had moved all.
pub(crate) fn move_all(
    context: &Context,
    path: &str,
    body: &Value,
    limit: Option<u64>,
) -> Result<Answer, Failure> {
    let mut moved = 0;
    let mut shown = Instant::now();
    let watched = stderr().is_terminal();
    let result = loop {
        let step = limit.map_or(STEP, |limit| STEP.min(limit - moved));
        let mut body = body.clone();
        body["limit"] = json!(step);
        let answer = match context.client.post(path, &body) {
            Ok(answer) => answer,
            Err(Failure::Refused(text)) if moved > 0 => {
                break Err(Failure::Refused(format!(
                    "{text} ({} are moved)",
                    thousands(moved)
                )));
            }
            Err(failure) => break Err(failure),
        };
        let count = answer.json["moved"].as_u64().unwrap_or(0);
        let left = answer.json["left"].as_u64().unwrap_or(0);
        moved += count;
        if count == 0 || left == 0 || limit.is_some_and(|limit| moved >= limit) {
            break Ok(left);
        }
        if watched && shown.elapsed() >= EVERY {
            shown = Instant::now();
            eprint!(
                "\r\x1b[K{} moved, {} left",
                thousands(moved),
                thousands(left)
            );
        }
    };
    if watched {
        eprint!("\r\x1b[K");
    }
    let left = result?;
    let json = json!({"moved": moved, "left": left});
    Ok(Answer {
        raw: format!("{json}\n"),
        json,
        total: None,
    })
}
