//! The effective configuration as TOML that can be fed back.

use std::fmt::Write;

use super::Config;
use super::key::Key;

impl Config {
    /// Every key with the value that holds. Keys that are not set are comments. Nothing secret is part of a
    /// configuration: passwords live in the users file, of which only the path is shown.
    pub(crate) fn print(&mut self) -> String {
        let mut out = String::new();
        for section in self.sections() {
            let _ = writeln!(out, "[{}]", section.name);
            print_keys(&mut out, section.keys, false);
            out.push('\n');
        }
        for queue in &mut self.queues {
            out.push_str("[[queue]]\n");
            print_keys(&mut out, queue.keys(), false);
            out.push('\n');
        }
        for stream in &mut self.streams {
            out.push_str("[[stream]]\n");
            print_keys(&mut out, stream.keys(), true);
            out.push('\n');
        }
        for exchange in &mut self.exchanges {
            out.push_str("[[exchange]]\n");
            print_keys(&mut out, exchange.keys(), true);
            out.push('\n');
        }
        for binding in &mut self.bindings {
            out.push_str("[[binding]]\n");
            print_keys(&mut out, binding.keys(), true);
            out.push('\n');
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
        out
    }
}

/// `with_later`: whether keys without effect are written, or only shown in comments: what is written is what holds.
fn print_keys(out: &mut String, keys: Vec<Key<'_>>, with_later: bool) {
    for key in keys {
        let mark = if key.is_later && !with_later {
            "# "
        } else {
            ""
        };
        let remark = if key.is_later {
            " # not available in this build"
        } else {
            ""
        };
        let _ = match key.slot.show() {
            Some(value) => writeln!(out, "{mark}{} = {value}{remark}", key.name),
            None => writeln!(out, "# {} is not set: {}", key.name, key.help),
        };
    }
}
