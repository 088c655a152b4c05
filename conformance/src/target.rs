//! Where a run points: the URL of a broker, address styles, globs, and the first look at how the
//! broker wants its peers to come in.

use crate::bed::{Bed, Got, tcp::TcpBed};
use crate::kit::{Env, Login};
use crate::wire::{HEADER_AMQP, HEADER_SASL};

/// A broker's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// User and password, if the URL gave them.
    pub login: Option<(String, String)>,
}

/// Reads `amqp://[user:pass@]host[:port][/]`. The error says what is wrong.
pub fn parse(url: &str) -> Result<Target, String> {
    let rest = url
        .strip_prefix("amqp://")
        .ok_or("the URL must begin with amqp://")?;
    let rest = rest.trim_end_matches('/');
    let (login, place) = match rest.rsplit_once('@') {
        Some((login, place)) => {
            let (user, pass) = login
                .split_once(':')
                .ok_or("user without password in the URL")?;
            (Some((decoded(user)?, decoded(pass)?)), place)
        }
        None => (None, rest),
    };
    let (host, port) = match place.strip_prefix('[') {
        Some(six) => {
            let (host, tail) = six.split_once(']').ok_or("a bracket is not closed")?;
            (host, tail.strip_prefix(':'))
        }
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    let port = port.map_or(Ok(5672), |p| {
        p.parse().map_err(|_| format!("{p} is no port"))
    })?;
    if host.is_empty() {
        return Err("the URL names no host".into());
    }
    Ok(Target {
        host: host.into(),
        port,
        login,
    })
}

fn decoded(text: &str) -> Result<String, String> {
    let mut out = vec![];
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|b| (b as char).to_digit(16));
        let (high, low) = (digit(), digit());
        let (Some(high), Some(low)) = (high, low) else {
            return Err(format!("bad % in {text}"));
        };
        out.push((high * 16 + low) as u8);
    }
    String::from_utf8(out).map_err(|_| format!("{text} is not UTF-8"))
}

/// The template of an address style: `plain`, `rabbitmq`, `rabbitmq3`, or a template with `{}`.
pub fn template(style: &str) -> Result<String, String> {
    match style {
        "plain" => Ok("{}".into()),
        "rabbitmq" => Ok("/queues/{}".into()),
        "rabbitmq3" => Ok("/queue/{}".into()),
        other if other.contains("{}") => Ok(other.into()),
        other => Err(format!(
            "{other}: want plain, rabbitmq, rabbitmq3 or a template with {{}}"
        )),
    }
}

/// True when `text` fits the glob, in which `*` stands for any characters and `?` for one.
pub fn fits(glob: &str, text: &str) -> bool {
    let (glob, text): (Vec<_>, Vec<_>) = (glob.chars().collect(), text.chars().collect());
    // fits[j]: the glob so far fits the first j characters.
    let mut row = vec![false; text.len() + 1];
    row[0] = true;
    for g in glob {
        let mut next = vec![false; text.len() + 1];
        next[0] = row[0] && g == '*';
        for j in 1..=text.len() {
            next[j] = match g {
                '*' => row[j] || next[j - 1],
                '?' => row[j - 1],
                c => row[j - 1] && text[j - 1] == c,
            };
        }
        row = next;
    }
    row[text.len()]
}

/// Looks how the broker wants its peers to come in. The error says why it cannot be reached.
pub fn look(target: &Target, style: &str, missing: Option<String>) -> Result<Env, String> {
    let template = template(style)?;
    let mut bed = TcpBed::new(&target.host, target.port);
    let plain = answer(&mut bed, &HEADER_AMQP)?;
    let login = match (&target.login, plain) {
        (Some((user, pass)), _) => Login::Plain(user.clone(), pass.clone()),
        (None, header) if header == HEADER_AMQP => Login::None,
        (None, header) if header == HEADER_SASL => Login::Anonymous,
        (None, header) => return Err(format!("not an AMQP 1.0 broker, it answered {header:02x?}")),
    };
    let anonymous = offers_anonymous(&mut bed)?;
    let run = format!("{:x}", std::process::id());
    Ok(Env {
        login,
        template,
        missing,
        run,
        anonymous,
    })
}

fn answer(bed: &mut TcpBed, header: &[u8; 8]) -> Result<[u8; 8], String> {
    let conn = bed.connect()?;
    bed.send(conn, header);
    let bytes = collect(bed, conn, 8);
    bed.cut(conn);
    bytes[..]
        .try_into()
        .map_err(|_| format!("it answered a protocol header with {bytes:02x?}"))
}

fn offers_anonymous(bed: &mut TcpBed) -> Result<bool, String> {
    let conn = bed.connect()?;
    bed.send(conn, &HEADER_SASL);
    let bytes = collect(bed, conn, 4096);
    bed.cut(conn);
    Ok(bytes.windows(9).any(|w| w == b"ANONYMOUS"))
}

fn collect(bed: &mut TcpBed, conn: usize, count: usize) -> Vec<u8> {
    let mut bytes = vec![];
    let patience = if count == 8 { 5_000 } else { 500 };
    while bytes.len() < count {
        match bed.recv(conn, patience) {
            Got::Bytes(more) => bytes.extend(more),
            Got::Eof | Got::Quiet => break,
        }
    }
    bytes.truncate(count);
    bytes
}

#[cfg(test)]
mod tests {
    use super::{Target, fits, parse, template};

    #[test]
    fn urls() {
        let target = |host: &str, port, login: Option<(&str, &str)>| Target {
            host: host.into(),
            port,
            login: login.map(|(u, p)| (u.into(), p.into())),
        };
        assert_eq!(parse("amqp://h"), Ok(target("h", 5672, None)));
        assert_eq!(
            parse("amqp://u:p%40@h:1/"),
            Ok(target("h", 1, Some(("u", "p@"))))
        );
        assert_eq!(parse("amqp://[::1]:9"), Ok(target("::1", 9, None)));
        for bad in [
            "http://h",
            "amqp://",
            "amqp://h:x",
            "amqp://u@h",
            "amqp://u:%zz@h",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn globs() {
        for (glob, text, want) in [
            ("*", "SF-01", true),
            ("SF-*", "SF-01", true),
            ("SF-0?", "SF-01", true),
            ("SF-?", "SF-01", false),
            ("*-01", "SF-01", true),
            ("sf", "SF-01", false),
            ("**", "", true),
        ] {
            assert_eq!(fits(glob, text), want, "{glob} {text}");
        }
    }

    #[test]
    fn styles() {
        assert_eq!(template("rabbitmq").as_deref(), Ok("/queues/{}"));
        assert_eq!(template("x-{}").as_deref(), Ok("x-{}"));
        assert!(template("other").is_err());
    }
}
