//! The command line.

use argh::FromArgs;

/// What the command line asks for.
#[derive(Debug)]
pub(crate) struct Args {
    /// Address of the broker, for clients.
    pub(crate) broker: String,
    /// The token, for clients and the daemon.
    pub(crate) token: Option<String>,
    pub(crate) command: Command,
}

/// QWER-Q, a typed message queue. Everywhere: -b, --broker ADDRESS of the broker (localhost:9876); --auth-token TOKEN
/// (or QWERQ_AUTH_TOKEN).
#[derive(Debug, FromArgs)]
struct Top {
    #[argh(subcommand)]
    command: Command,
}

#[derive(Debug, FromArgs)]
#[argh(subcommand)]
pub(crate) enum Command {
    Serve(Serve),
    Queue(Queue),
    Schema(Schema),
    Version(Version),
}

/// start the broker
#[derive(Debug, Default, FromArgs)]
#[argh(subcommand, name = "serve")]
pub(crate) struct Serve {
    /// port of the binary protocol (9876)
    #[argh(option, short = 'p', default = "9876")]
    pub(crate) port: u16,
    /// port for metrics, API and dashboard (9877)
    #[argh(option, default = "9877")]
    pub(crate) metrics_port: u16,
    /// port of AMQP 1.0, the other protocol of the same queues (5672)
    #[argh(option, default = "5672")]
    pub(crate) amqp_port: u16,
    /// address to listen on (127.0.0.1)
    #[argh(option)]
    pub(crate) bind: Option<String>,
    /// data directory (./qwer-q-data); empty: nothing survives a restart
    #[argh(option)]
    pub(crate) data_dir: Option<String>,
    /// largest payload of a frame: a number with B, KB, MB or GB
    #[argh(option)]
    pub(crate) max_message_size: Option<String>,
    /// permissive (default) or strict; or QWERQ_SCHEMA_MODE
    #[argh(option)]
    pub(crate) schema_mode: Option<String>,
    /// taken for compatibility, without effect: writes share a sync by themselves
    #[argh(option)]
    pub(crate) batch_interval: Option<String>,
    /// taken for compatibility, without effect: every write is synced before it is confirmed
    #[argh(option)]
    pub(crate) sync_interval: Option<String>,
    /// name of this node in a cluster (preview)
    #[argh(option)]
    pub(crate) cluster_node_id: Option<String>,
    /// where the nodes of a cluster talk (0.0.0.0:9878)
    #[argh(option)]
    pub(crate) cluster_bind: Option<String>,
    /// where the others reach this node
    #[argh(option)]
    pub(crate) cluster_advertise: Option<String>,
    /// first nodes of a cluster: id=host:port, separated by commas
    #[argh(option)]
    pub(crate) cluster_peers: Option<String>,
    /// data directory of the cluster
    #[argh(option)]
    pub(crate) cluster_data_dir: Option<String>,
    /// begin a new cluster
    #[argh(switch)]
    pub(crate) cluster_bootstrap: bool,
}

/// look into queues and use them
#[derive(Debug, FromArgs)]
#[argh(subcommand, name = "queue")]
pub(crate) struct Queue {
    #[argh(subcommand)]
    pub(crate) command: QueueCommand,
}

#[derive(Debug, FromArgs)]
#[argh(subcommand)]
pub(crate) enum QueueCommand {
    List(QueueList),
    Publish(QueuePublish),
    Consume(QueueConsume),
    Peek(QueuePeek),
    Purge(QueuePurge),
}

/// all queues with their messages
#[derive(Debug, FromArgs)]
#[argh(subcommand, name = "list")]
pub(crate) struct QueueList {}

/// publish one message
#[derive(Debug, FromArgs)]
#[argh(subcommand, name = "publish")]
pub(crate) struct QueuePublish {
    /// the queue; made when it does not exist
    #[argh(positional)]
    pub(crate) queue: String,
    /// the payload; - or nothing reads it from standard input
    #[argh(positional)]
    pub(crate) payload: Option<String>,
    /// a header, NAME=VALUE; can be given several times
    #[argh(option)]
    pub(crate) header: Vec<String>,
    /// id of the message
    #[argh(option)]
    pub(crate) id: Option<String>,
    /// messages of one key keep their order
    #[argh(option, default = "String::new()")]
    pub(crate) ordering_key: String,
}

/// take messages: each payload is one line, and is acknowledged when it is printed
#[derive(Debug, FromArgs)]
#[argh(subcommand, name = "consume")]
pub(crate) struct QueueConsume {
    /// the queue
    #[argh(positional)]
    pub(crate) queue: String,
    /// end after so many messages (1); 0 is never
    #[argh(option, short = 'n', default = "1")]
    pub(crate) count: u64,
    /// end with code 1 when nothing comes for so many seconds (30); 0 is never
    #[argh(option, default = "30")]
    pub(crate) timeout: u64,
}

/// look at the first messages without taking them, over the broker's HTTP API
#[derive(Debug, FromArgs)]
#[argh(subcommand, name = "peek")]
pub(crate) struct QueuePeek {
    /// the queue
    #[argh(positional)]
    pub(crate) queue: String,
    /// so many (10)
    #[argh(option, short = 'n', default = "10")]
    pub(crate) count: u32,
    /// address of the API (localhost:9877)
    #[argh(option, default = "String::from(\"localhost:9877\")")]
    pub(crate) api: String,
}

/// remove all messages that no consumer holds
#[derive(Debug, FromArgs)]
#[argh(subcommand, name = "purge")]
pub(crate) struct QueuePurge {
    /// the queue
    #[argh(positional)]
    pub(crate) queue: String,
}

/// schemas of queues
#[derive(Debug, FromArgs)]
#[argh(subcommand, name = "schema")]
pub(crate) struct Schema {
    #[argh(subcommand)]
    pub(crate) command: SchemaCommand,
}

#[derive(Debug, FromArgs)]
#[argh(subcommand)]
pub(crate) enum SchemaCommand {
    List(SchemaList),
    Register(SchemaRegister),
}

/// all schemas
#[derive(Debug, FromArgs)]
#[argh(subcommand, name = "list")]
pub(crate) struct SchemaList {}

/// register a version of a schema
#[derive(Debug, FromArgs)]
#[argh(subcommand, name = "register")]
pub(crate) struct SchemaRegister {
    /// queue name
    #[argh(option, short = 'q')]
    pub(crate) queue: String,
    /// path of the .proto file; no other program is needed to compile it
    #[argh(option, short = 'p')]
    pub(crate) proto: String,
    /// message type, with its package
    #[argh(option, short = 'm')]
    pub(crate) message: String,
    /// rule that this and later versions are held to: none, backward, forward or full
    #[argh(option)]
    pub(crate) compatibility: Option<String>,
}

/// print the version
#[derive(Debug, FromArgs)]
#[argh(subcommand, name = "version")]
pub(crate) struct Version {}

#[derive(Debug)]
pub(crate) enum Parsed {
    Run(Box<Args>),
    /// Print and exit well.
    Help(String),
    /// Print one line and exit with 2.
    Wrong(String),
}

/// Reads the arguments after the program's name. Options for all commands may stand anywhere.
pub(crate) fn parse(args: &[String]) -> Parsed {
    let (mut broker, mut token) = ("localhost:9876".to_owned(), None);
    let mut rest = Vec::new();
    let mut words = qqd::split_equals(args).into_iter();
    while let Some(word) = words.next() {
        let place = match word.as_str() {
            "-b" | "--broker" => &mut broker,
            "--auth-token" => token.insert(String::new()),
            "--" => {
                rest.push(word);
                rest.extend(words);
                break;
            }
            _ => {
                rest.push(word);
                continue;
            }
        };
        match words.next() {
            Some(value) => *place = value,
            None => return Parsed::Wrong(format!("{word} needs a value")),
        }
    }
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    match Top::from_args(&["qwer-q"], &rest) {
        Ok(Top { command }) => Parsed::Run(Box::new(Args {
            broker,
            token: token.filter(|token| !token.is_empty()),
            command,
        })),
        Err(exit) if exit.status.is_ok() => Parsed::Help(exit.output),
        Err(exit) => {
            let words: Vec<&str> = exit.output.split_whitespace().collect();
            Parsed::Wrong(words.join(" "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Parsed {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        parse(&words)
    }

    #[test]
    fn options_for_all_commands_stand_anywhere() {
        for line in [
            "-b h:1 --auth-token t queue list",
            "queue -b h:1 list --auth-token=t",
            "queue list --broker=h:1 --auth-token t",
        ] {
            let Parsed::Run(args) = of(line) else {
                panic!("{line}");
            };
            assert_eq!(
                (&*args.broker, args.token.as_deref()),
                ("h:1", Some("t")),
                "{line}"
            );
            assert!(matches!(args.command, Command::Queue(_)), "{line}");
        }
    }

    #[test]
    fn serve_has_its_flags_and_defaults() {
        let Parsed::Run(args) =
            of("serve -p 1 --metrics-port 2 --data-dir= --schema-mode strict --cluster-bootstrap")
        else {
            panic!("they are known");
        };
        let Command::Serve(serve) = args.command else {
            panic!("it is serve");
        };
        assert_eq!(
            (serve.port, serve.metrics_port, serve.amqp_port),
            (1, 2, 5672)
        );
        assert_eq!(
            (serve.data_dir.as_deref(), serve.schema_mode.as_deref()),
            (Some(""), Some("strict"))
        );
        assert!(serve.cluster_bootstrap && args.token.is_none());
    }

    #[test]
    fn what_is_wrong_is_one_line() {
        for line in [
            "",
            "queue",
            "serve --port x",
            "serve --prt 1",
            "queue list -b",
            "schema register -q a",
        ] {
            let Parsed::Wrong(text) = of(line) else {
                panic!("{line:?} was taken");
            };
            assert!(!text.is_empty() && !text.contains('\n'), "{text}");
        }
        assert!(matches!(of("serve --help"), Parsed::Help(_)));
    }
}
