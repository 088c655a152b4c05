//! The command line.

use argh::FromArgs;

/// Quark-Queue, an AMQP 1.0 message broker. Runs without any argument.
#[derive(Clone, FromArgs, Debug, Default, PartialEq, Eq)]
pub(crate) struct Args {
    /// configuration file (TOML); without it, defaults and environment variables hold
    #[argh(option)]
    pub(crate) config: Option<String>,
    /// say whether the configuration is valid, then exit
    #[argh(switch)]
    pub(crate) check_config: bool,
    /// print the effective configuration as TOML, then exit
    #[argh(switch)]
    pub(crate) print_config: bool,
    /// read all of the store and say what is damaged, then exit: 0 when it is sound, 1 when not
    #[argh(switch)]
    pub(crate) check_store: bool,
    /// make a new store of everything in a damaged one that can be trusted, and say what is lost, then exit
    #[argh(switch)]
    pub(crate) salvage: bool,
    /// copy the store to this file, which must not exist, and check the copy, then exit; a broker may run meanwhile
    #[argh(option, arg_name = "dest")]
    pub(crate) backup: Option<String>,
    /// make the store from such a copy, then exit; refused when there is a store already
    #[argh(option, arg_name = "src")]
    pub(crate) restore: Option<String>,
    /// print the version, then exit
    #[argh(switch)]
    pub(crate) version: bool,
}

/// What is done instead of serving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task<'a> {
    CheckConfig,
    PrintConfig,
    CheckStore,
    Salvage,
    Backup(&'a str),
    Restore(&'a str),
    Version,
}

impl Task<'_> {
    /// The option that asks for it.
    pub(crate) fn option(self) -> &'static str {
        match self {
            Self::CheckConfig => "--check-config",
            Self::PrintConfig => "--print-config",
            Self::CheckStore => "--check-store",
            Self::Salvage => "--salvage",
            Self::Backup(_) => "--backup",
            Self::Restore(_) => "--restore",
            Self::Version => "--version",
        }
    }
}

impl Args {
    /// The tasks that are asked for.
    fn tasks(&self) -> Vec<Task<'_>> {
        let switches = [
            (self.check_config, Task::CheckConfig),
            (self.print_config, Task::PrintConfig),
            (self.check_store, Task::CheckStore),
            (self.salvage, Task::Salvage),
            (self.version, Task::Version),
        ];
        let switches = switches
            .into_iter()
            .filter_map(|(is_on, task)| is_on.then_some(task));
        switches
            .chain(self.backup.as_deref().map(Task::Backup))
            .chain(self.restore.as_deref().map(Task::Restore))
            .collect()
    }

    /// The one thing to do instead of serving, if any: [`parse`] lets at most one through.
    pub(crate) fn task(&self) -> Option<Task<'_>> {
        self.tasks().first().copied()
    }

    /// What makes no sense together.
    fn contradiction(&self) -> Option<String> {
        if let [one, other, ..] = self.tasks()[..] {
            let (one, other) = (one.option(), other.option());
            return Some(format!("{one} and {other} are two things to do; give one"));
        }
        let is_empty = |text: &Option<String>| text.as_deref() == Some("");
        if is_empty(&self.backup) || is_empty(&self.restore) {
            return Some("--backup and --restore need the path of a file".to_owned());
        }
        None
    }
}

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    Run(Args),
    /// Print and exit well.
    Help(String),
    /// Print one line and exit with 2.
    Wrong(String),
}

/// Reads the arguments after the program's name.
pub(crate) fn parse(args: &[String]) -> Parsed {
    let split = split_equals(args);
    let args: Vec<&str> = split.iter().map(String::as_str).collect();
    match Args::from_args(&["qqd"], &args) {
        Ok(args) => match args.contradiction() {
            Some(text) => Parsed::Wrong(text),
            None => Parsed::Run(args),
        },
        Err(exit) if exit.status.is_ok() => Parsed::Help(exit.output),
        Err(exit) => {
            let words: Vec<&str> = exit.output.split_whitespace().collect();
            Parsed::Wrong(words.join(" "))
        }
    }
}

/// `--option=value` as two arguments: argh reads only that form.
pub fn split_equals(args: &[String]) -> Vec<String> {
    let mut split = Vec::with_capacity(args.len() + 1);
    for arg in args {
        match arg.split_once('=') {
            Some((option, value)) if option.starts_with("--") => {
                split.push(option.to_owned());
                split.push(value.to_owned());
            }
            _ => split.push(arg.clone()),
        }
    }
    split
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(args: &[&str]) -> Parsed {
        parse(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn both_forms_of_an_option_are_read() {
        let expected = Parsed::Run(Args {
            config: Some("a=b.toml".to_owned()),
            check_config: true,
            ..Args::default()
        });
        assert_eq!(of(&["--config", "a=b.toml", "--check-config"]), expected);
        assert_eq!(of(&["--config=a=b.toml", "--check-config"]), expected);
    }

    #[test]
    fn one_thing_is_done_instead_of_serving() {
        let task = |args: &[&str]| match of(args) {
            Parsed::Run(args) => args.task().map(|task| format!("{task:?}")),
            other => panic!("{args:?}: {other:?}"),
        };
        assert_eq!(task(&[]), None);
        assert_eq!(task(&["--config", "a"]), None);
        assert_eq!(task(&["--salvage"]).as_deref(), Some("Salvage"));
        let backup = task(&["--backup=b", "--config=a"]);
        assert_eq!(backup.as_deref(), Some("Backup(\"b\")"));
    }

    #[test]
    fn what_is_unknown_or_contradicts_itself_is_refused_on_one_line() {
        for args in [
            &["--confg", "x"][..],
            &["broker.toml"],
            &["--config"],
            &["--check-config=1"],
            &["--backup"],
            &["--backup="],
            &["--restore", ""],
            &["--salvage", "--check-store"],
            &["--backup", "a", "--restore", "a"],
            &["--check-config", "--backup", "a"],
            &["--version", "--salvage"],
        ] {
            let Parsed::Wrong(text) = of(args) else {
                panic!("{args:?} was taken")
            };
            assert!(!text.contains('\n') && !text.is_empty(), "{text}");
        }
    }

    #[test]
    fn help_names_every_option() {
        let Parsed::Help(text) = of(&["--help"]) else {
            panic!("no help")
        };
        for option in [
            "--config",
            "--check-config",
            "--print-config",
            "--check-store",
            "--salvage",
            "--backup",
            "--restore",
            "--version",
        ] {
            assert!(text.contains(option), "{text}");
        }
    }
}
