//! Puts a command line into the one order that the argument parser reads.
//!
//! People write options where they like: `qqctl queue list -ojson`, `qqctl --output=json queue list`. The parser wants
//! global options before the command, values apart from their options, and takes a name such as `help` for a question.
//! So the words are sorted first, by what the commands themselves say about their options: global options, command,
//! options of the command, `--`, names.

use argh_shared::{CommandInfoWithArgs, FlagInfo, FlagInfoKind};

/// Short spellings that the parser does not know, and what they stand for.
pub(crate) const ALIASES: &[(char, &str)] = &[
    ('f', "--output"),
    ('d', "--debug"),
    ('h', "--help"),
    ('V', "--version"),
];

/// A command line, sorted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sorted {
    globals: Vec<String>,
    command: Vec<String>,
    options: Vec<String>,
    names: Vec<String>,
    /// A word in the place of a command that is none, and what the command could have been.
    pub(crate) unknown: Option<String>,
}

impl Sorted {
    /// The words in the order that the parser reads.
    pub(crate) fn words(self) -> Vec<String> {
        let mut words = self.globals;
        words.extend(self.command);
        words.extend(self.options);
        if !self.names.is_empty() {
            words.push("--".to_owned());
            words.extend(self.names);
        }
        words
    }
}

/// Sorts the words after the program's name. What is not known stays in its place: the parser says what is wrong.
pub(crate) fn sort(top: &CommandInfoWithArgs<'_>, args: &[String]) -> Sorted {
    let mut sorted = Sorted::default();
    let mut level = top;
    let mut wants_help = false;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == "--" {
            sorted.names.extend(args.by_ref().cloned());
        } else if let Some((options, value)) = split(top, level, arg) {
            // Only the last of `-abc` can have a value.
            let last = options.len() - 1;
            for (at, option) in options.into_iter().enumerate() {
                let is_global = find(top, &option).is_some() && option != "--help";
                let known = find(top, &option).or_else(|| find(level, &option));
                let place = if is_global {
                    &mut sorted.globals
                } else {
                    &mut sorted.options
                };
                place.push(option);
                if at == last {
                    match &value {
                        Some(value) => place.push(value.clone()),
                        None if known.is_some_and(takes_value) => {
                            place.extend(args.next().cloned())
                        }
                        None => {}
                    }
                }
            }
        } else if level.commands.is_empty() {
            sorted.names.push(arg.clone());
        } else if let Some(next) = level.commands.iter().find(|next| next.name == arg.as_str()) {
            sorted.command.push(arg.clone());
            level = &next.command;
        } else if arg == "help" {
            wants_help = true;
        } else {
            let known: Vec<&str> = level.commands.iter().map(|next| next.name).collect();
            sorted.unknown = Some(format!(
                "{} has no command {arg:?}, it has {}",
                [&["qqctl".to_owned()], &sorted.command[..]]
                    .concat()
                    .join(" "),
                known.join(", ")
            ));
            break;
        }
    }
    if wants_help || sorted.options.iter().any(|option| option == "--help") {
        sorted.options = vec!["--help".to_owned()];
        sorted.names.clear();
    }
    sorted
}

/// The options that a word stands for and the value that is part of it; none when it is not an option.
fn split(
    top: &CommandInfoWithArgs<'_>,
    level: &CommandInfoWithArgs<'_>,
    arg: &str,
) -> Option<(Vec<String>, Option<String>)> {
    if arg.starts_with("--") {
        return Some(match arg.split_once('=') {
            Some((option, value)) => (vec![option.to_owned()], Some(value.to_owned())),
            None => (vec![arg.to_owned()], None),
        });
    }
    let shorts = arg.strip_prefix('-').filter(|rest| !rest.is_empty())?;
    let mut options = Vec::new();
    for (at, short) in shorts.char_indices() {
        let known = level
            .flags
            .iter()
            .chain(top.flags)
            .find(|flag| flag.short == Some(short));
        let alias = ALIASES
            .iter()
            .find(|(alias, _)| *alias == short)
            .map(|(_, long)| *long);
        let option = known.map(|flag| flag.long).or(alias);
        let Some(option) = option else {
            // Not ours: the parser names the whole word in its refusal.
            return Some((vec![arg.to_owned()], None));
        };
        options.push(option.to_owned());
        let rest = &shorts[at + short.len_utf8()..];
        let has_value = find(level, option)
            .or_else(|| find(top, option))
            .is_some_and(takes_value);
        if has_value && !rest.is_empty() {
            let value = rest.strip_prefix('=').unwrap_or(rest);
            return Some((options, Some(value.to_owned())));
        }
    }
    Some((options, None))
}

fn find<'a>(level: &'a CommandInfoWithArgs<'_>, option: &str) -> Option<&'a FlagInfo<'a>> {
    level.flags.iter().find(|flag| flag.long == option)
}

/// Whether an option has a value.
pub(crate) fn takes_value(flag: &FlagInfo<'_>) -> bool {
    matches!(flag.kind, FlagInfoKind::Option { .. })
}

#[cfg(test)]
mod tests {
    use argh::ArgsInfo;

    use super::*;
    use crate::top::Top;

    fn sorted(args: &str) -> String {
        let args: Vec<String> = args.split(' ').map(str::to_owned).collect();
        sort(&Top::get_args_info(), &args).words().join(" ")
    }

    #[test]
    fn options_may_stand_anywhere_and_be_written_in_every_way() {
        let expected = "--output json queue list";
        for args in [
            "queue list -o json",
            "queue list -ojson",
            "queue list -o=json",
            "queue list --output json",
            "queue list --output=json",
            "-f json queue list",
            "queue -fjson list",
        ] {
            assert_eq!(sorted(args), expected, "{args}");
        }
        assert_eq!(sorted("queue list -d --raw"), "--debug --raw queue list");
        assert_eq!(
            sorted("queue delete -Dt5 orders --force"),
            "--debug --timeout 5 queue delete --force -- orders"
        );
    }

    #[test]
    fn values_and_names_are_never_taken_for_something_else() {
        assert_eq!(
            sorted("queue publish q --message -o"),
            "queue publish --message -o -- q"
        );
        assert_eq!(
            sorted("queue publish q -m -"),
            "queue publish --message - -- q"
        );
        assert_eq!(sorted("queue get help"), "queue get -- help");
        assert_eq!(sorted("queue get -- --raw"), "queue get -- --raw");
        assert_eq!(sorted("queue get list"), "queue get -- list");
        assert_eq!(
            sorted("exchange bind a b --routing-key=x=y"),
            "exchange bind --routing-key x=y -- a b"
        );
    }

    #[test]
    fn help_is_for_the_command_that_it_is_asked_of() {
        for args in [
            "help queue list",
            "queue help list",
            "queue list --help",
            "queue list -h x --limit 5",
        ] {
            assert_eq!(sorted(args), "queue list --help", "{args}");
        }
        assert_eq!(sorted("help"), "--help");
    }

    #[test]
    fn what_is_no_command_is_told_with_what_could_have_been_meant() {
        let args = ["queue".to_owned(), "lst".to_owned()];
        let unknown = sort(&Top::get_args_info(), &args)
            .unknown
            .expect("lst is none");
        assert!(
            unknown.starts_with("qqctl queue has no command \"lst\", it has list, create"),
            "{unknown}"
        );
    }
}
