//! `qqctl broker export` and `import`: the topology as a file.

use std::io::{Read, stdin};

use argh::{ArgsInfo, FromArgs};
use serde_json::Value;

use crate::failure::Failure;
use crate::top::Context;

/// Print queues, exchanges, bindings, consumer groups and schemas as a document that `import` takes.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "export", help_triggers("--help"))]
pub(crate) struct Export {}

/// Make what a document names and what is not there yet: queues, exchanges, bindings, consumer groups, schemas.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "import", help_triggers("--help"))]
pub(crate) struct Import {
    /// the file with the document; `-` reads standard input
    #[argh(positional)]
    file: String,
}

impl Export {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let answer = context.client.get("/api/v1/definitions")?;
        // The document is for a file: as a table it would be of no use.
        context
            .output
            .text(&answer, &format!("{:#}\n", answer.json))
    }
}

impl Import {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let mut text = String::new();
        let read = if self.file == "-" {
            stdin().lock().read_to_string(&mut text)
        } else {
            std::fs::File::open(&self.file).and_then(|mut file| file.read_to_string(&mut text))
        };
        read.map_err(|error| Failure::Usage(format!("{} cannot be read: {error}", self.file)))?;
        let document: Value = serde_json::from_str(&text)
            .map_err(|error| Failure::Usage(format!("{} is no JSON: {error}", self.file)))?;
        let answer = context.client.post("/api/v1/definitions", &document)?;
        let count = |what: &str, kind: &str| answer.json[what][kind].as_u64().unwrap_or(0);
        let sentence = format!(
            "created {} queues, {} exchanges, {} bindings, {} groups and {} schemas",
            count("created", "queues"),
            count("created", "exchanges"),
            count("created", "bindings"),
            count("created", "groups"),
            count("created", "schemas"),
        );
        context.output.done(&answer, &sentence)
    }
}
