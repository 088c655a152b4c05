//! The command line.

use argh::FromArgs;

/// Quark-Queue, an AMQP 1.0 message broker. Runs without any argument.
#[derive(FromArgs, Debug, PartialEq, Eq)]
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
    /// print the version, then exit
    #[argh(switch)]
    pub(crate) version: bool,
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
        Ok(args) => Parsed::Run(args),
        Err(exit) if exit.status.is_ok() => Parsed::Help(exit.output),
        Err(exit) => {
            let words: Vec<&str> = exit.output.split_whitespace().collect();
            Parsed::Wrong(words.join(" "))
        }
    }
}

/// `--option=value` as two arguments: argh reads only that form.
fn split_equals(args: &[String]) -> Vec<String> {
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
            print_config: false,
            version: false,
        });
        assert_eq!(of(&["--config", "a=b.toml", "--check-config"]), expected);
        assert_eq!(of(&["--config=a=b.toml", "--check-config"]), expected);
    }

    #[test]
    fn what_is_unknown_is_refused_on_one_line() {
        for args in [
            &["--confg", "x"][..],
            &["broker.toml"],
            &["--config"],
            &["--check-config=1"],
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
        for option in ["--config", "--check-config", "--print-config", "--version"] {
            assert!(text.contains(option), "{text}");
        }
    }
}
