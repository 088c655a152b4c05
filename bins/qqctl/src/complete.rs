//! Completion of command lines.
//!
//! The scripts for the shells only ask `qqctl` itself, which knows its commands and options and can ask the broker for
//! names. So the three shells agree, and a new option needs no new script.

use argh::ArgsInfo;
use argh_shared::{CommandInfoWithArgs, FlagInfo};
use serde_json::Value;

use crate::argv::{ALIASES, takes_value};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Format, print};
use crate::top::{Top, settings};

/// What the scripts call: `qqctl __complete WORD...`, the last word being the one that is completed.
pub(crate) const COMMAND: &str = "__complete";
/// How long the broker has to name its queues.
const TIMEOUT_S: u64 = 2;

const BASH: &str = r#"_qqctl() {
    local candidate
    COMPREPLY=()
    while IFS=$'\t' read -r candidate _; do
        [[ -n $candidate ]] && COMPREPLY+=("$(printf '%q' "$candidate")")
    done < <(qqctl __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2> /dev/null)
    [[ ${#COMPREPLY[@]} -eq 0 ]] && compopt -o default
}
complete -F _qqctl qqctl
"#;

const ZSH: &str = r#"#compdef qqctl
_qqctl() {
    local -a candidates
    local candidate description
    while IFS=$'\t' read -r candidate description; do
        [[ -n $candidate ]] && candidates+=("${candidate//:/\\:}:$description")
    done < <(qqctl __complete "${(@)words[2,CURRENT]}" 2> /dev/null)
    if (( ${#candidates} )); then _describe qqctl candidates; else _files; fi
}
if [[ $funcstack[1] = _qqctl ]]; then _qqctl "$@"; else compdef _qqctl qqctl; fi
"#;

const FISH: &str = r#"function __qqctl_complete
    set -l words (commandline -opc) (commandline -ct)
    qqctl __complete $words[2..-1] 2> /dev/null
end
complete -c qqctl -f -a '(__qqctl_complete)'
"#;

/// The script for a shell.
pub(crate) fn script(shell: &str) -> Option<String> {
    let script = match shell {
        "bash" => BASH,
        "zsh" => ZSH,
        "fish" => FISH,
        _ => return None,
    };
    Some(script.to_owned())
}

/// Prints candidates for the last of the words, one per line, with a tab and a description.
pub(crate) fn run(words: &[String]) -> Result<(), Failure> {
    let (last, before) = match words {
        [before @ .., last] => (last.as_str(), before),
        [] => ("", words),
    };
    let lines: String = candidates(before, last)
        .into_iter()
        .filter(|(word, _)| word.starts_with(last))
        .map(|(word, description)| format!("{word}\t{description}\n"))
        .collect();
    print(&lines)
}

/// What can stand after these words.
fn candidates(before: &[String], last: &str) -> Vec<(String, String)> {
    let top = Top::get_args_info();
    let mut level = &top;
    let mut path = Vec::new();
    let mut names = 0;
    let mut wants = None;
    for word in before {
        if wants.take().is_some() {
            continue;
        }
        if word.starts_with('-') {
            wants = flags(&top, level)
                .find(|flag| is_spelling(flag, word) && takes_value(flag))
                .map(|flag| flag.long);
        } else if let Some(next) = level
            .commands
            .iter()
            .find(|next| next.name == word.as_str())
        {
            level = &next.command;
            path.push(next.name);
        } else {
            names += 1;
        }
    }
    if let Some(option) = wants {
        return values(before, option);
    }
    if last.starts_with('-') {
        let mut options: Vec<_> = flags(&top, level)
            .map(|flag| (flag.long.to_owned(), flag.description.to_owned()))
            .collect();
        options.sort();
        options.dedup_by(|a, b| a.0 == b.0);
        return options;
    }
    if !level.commands.is_empty() {
        let commands = level.commands.iter();
        return commands
            .map(|next| (next.name.to_owned(), next.command.description.to_owned()))
            .collect();
    }
    operands(before, &path, names)
}

fn flags<'a>(
    top: &'a CommandInfoWithArgs<'a>,
    level: &'a CommandInfoWithArgs<'a>,
) -> impl Iterator<Item = &'a FlagInfo<'a>> {
    top.flags.iter().chain(level.flags)
}

fn is_spelling(flag: &FlagInfo<'_>, word: &str) -> bool {
    let short = word
        .strip_prefix('-')
        .and_then(|rest| rest.chars().next().filter(|_| rest.chars().count() == 1));
    let is_alias = ALIASES
        .iter()
        .any(|(alias, long)| short == Some(*alias) && *long == flag.long);
    flag.long == word || is_alias || (short.is_some() && short == flag.short)
}

/// What an option can be.
fn values(before: &[String], option: &str) -> Vec<(String, String)> {
    let fixed: &[&str] = match option {
        "--output" => &Format::NAMES,
        "--exchange-type" => &["direct", "topic", "fanout", "headers"],
        "--overflow" => &["reject", "drop-head", "reject-dlx"],
        "--failure-policy" => &["dlq", "drop", "infinite"],
        "--compatibility" => &["none", "backward", "forward", "full"],
        "--queue" | "--to" => return listed(before, "/api/v1/queues", "name"),
        "--dead-letter-exchange" | "--alternate-exchange" => {
            return listed(before, "/api/v1/exchanges", "name");
        }
        "--connection" => return listed(before, "/api/v1/connections", "id"),
        _ => &[],
    };
    fixed
        .iter()
        .map(|value| ((*value).to_owned(), String::new()))
        .collect()
}

/// The names that a command can be about, `at` being how many it has already.
fn operands(before: &[String], path: &[&str], at: usize) -> Vec<(String, String)> {
    match (path, at) {
        (["queue", "create"] | ["exchange" | "stream", "create"], _) => Vec::new(),
        (["queue", "publish"], 0) => {
            let mut all = listed(before, "/api/v1/queues", "name");
            all.extend(listed(before, "/api/v1/exchanges", "name"));
            all
        }
        (["queue", _], 0)
        | (["queue", "move"] | ["exchange", "bind" | "unbind"], 1)
        | (["message", _], 0) => listed(before, "/api/v1/queues", "name"),
        (["exchange", _], 0) => listed(before, "/api/v1/exchanges", "name"),
        (["stream", _], 0) => listed(before, "/api/v1/streams", "name"),
        (["schema", _], 0) => listed(before, "/api/v1/schemas", "queue"),
        (["connection", _], 0) => listed(before, "/api/v1/connections", "id"),
        (["link", _], 0) => listed(before, "/api/v1/links", "id"),
        (["completion"], 0) => ["bash", "zsh", "fish"]
            .map(|shell| (shell.to_owned(), String::new()))
            .to_vec(),
        _ => Vec::new(),
    }
}

/// Names that the broker lists; none when it does not answer, since a completion must not complain.
fn listed(before: &[String], path: &str, field: &str) -> Vec<(String, String)> {
    let is_url = |word: &&String| matches!(word.as_str(), "-u" | "--api-url");
    let url = before
        .iter()
        .skip_while(|word| !is_url(word))
        .nth(1)
        .cloned();
    let answer = Client::new(&settings(url, TIMEOUT_S, false)).and_then(|client| client.get(path));
    let Ok(answer) = answer else {
        return Vec::new();
    };
    let rows = answer
        .json
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let name = |row: &Value| Some((row[field].as_str()?.to_owned(), String::new()));
    rows.iter()
        .filter_map(name)
        .filter(|(name, _)| !name.is_empty())
        .collect()
}
