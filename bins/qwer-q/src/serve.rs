//! `serve`: the flags of QWER-Q as settings of the daemon.

use std::process::ExitCode;

use crate::Failure;
use crate::args::Serve;

/// Where data lies where nobody says.
const DATA_DIR: &str = "./qwer-q-data";

/// A variable of the environment that is set to something.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

pub(crate) fn serve(serve: Serve, token: Option<String>) -> Result<ExitCode, Failure> {
    let mode = serve
        .schema_mode
        .clone()
        .or_else(|| variable("QWERQ_SCHEMA_MODE"));
    let settings = settings(&serve, mode.as_deref()).map_err(Failure::Usage)?;
    if token.is_none() {
        eprintln!("qwer-q: WARNING: Running without authentication - not for production");
    }
    for warning in warnings(&serve) {
        eprintln!("qwer-q: WARNING: {warning}");
    }
    Ok(qqd::serve("qwer-q", settings, token))
}

/// What the user may expect of a flag in vain.
fn warnings(serve: &Serve) -> Vec<String> {
    let without_effect = [
        (
            "--batch-interval",
            &serve.batch_interval,
            "writes that come together share one sync by themselves, and none waits for others",
        ),
        (
            "--sync-interval",
            &serve.sync_interval,
            "every message is on disk before it is confirmed, as with 0",
        ),
    ];
    let mut warnings = Vec::new();
    for (flag, value, why) in without_effect {
        if let Some(text) = value
            && duration(text) != Some(0.0)
        {
            warnings.push(format!("{flag} {text} has no effect: {why}"));
        }
    }
    warnings
}

/// What the daemon is told, as its variables.
///
/// # Errors
/// A flag has a value that it cannot have; the text names both.
fn settings(serve: &Serve, mode: Option<&str>) -> Result<Vec<(String, String)>, String> {
    let mut settings: Vec<(String, String)> = Vec::new();
    let mut set = |name: &str, value: &str| settings.push((name.to_owned(), value.to_owned()));
    set("QQ_SERVER_BINARY_PORT", &serve.port.to_string());
    set("QQ_SERVER_AMQP_PORT", &serve.amqp_port.to_string());
    set("QQ_MANAGEMENT_ENABLED", "true");
    set("QQ_MANAGEMENT_PORT", &serve.metrics_port.to_string());
    if let Some(address) = &serve.bind {
        set("QQ_SERVER_BIND_ADDR", address);
        set("QQ_MANAGEMENT_BIND_ADDR", address);
    }
    match serve.data_dir.as_deref() {
        Some("") => set("QQ_STORAGE_BACKEND", "memory"),
        dir => {
            set("QQ_STORAGE_BACKEND", "sqlite");
            set("QQ_STORAGE_PATH", dir.unwrap_or(DATA_DIR));
        }
    }
    match mode {
        None | Some("permissive") => set("QQ_DEFAULTS_SCHEMA_MODE", "permissive"),
        Some("strict") => set("QQ_DEFAULTS_SCHEMA_MODE", "strict"),
        Some(other) => return Err(format!("--schema-mode {other}: permissive or strict")),
    }
    if let Some(text) = &serve.max_message_size {
        let bytes = size(text).ok_or_else(|| {
            format!("--max-message-size {text}: a number with B, KB, MB or GB, 16MB at most")
        })?;
        set("QQ_LIMITS_BINARY_PAYLOAD_MAX", &bytes.to_string());
    }
    for (flag, text) in [
        ("--batch-interval", &serve.batch_interval),
        ("--sync-interval", &serve.sync_interval),
    ] {
        if let Some(text) = text
            && duration(text).is_none()
        {
            return Err(format!("{flag} {text}: a duration such as 0, 10ms or 1s"));
        }
    }
    let is_clustered = serve.cluster_bootstrap
        || [
            &serve.cluster_node_id,
            &serve.cluster_bind,
            &serve.cluster_advertise,
            &serve.cluster_peers,
            &serve.cluster_data_dir,
        ]
        .into_iter()
        .any(Option::is_some);
    if is_clustered {
        return Err(
            "--cluster-...: this build serves single nodes only; leave these flags out".to_owned(),
        );
    }
    Ok(settings)
}

/// Bytes of a size such as `64KB`; the units are powers of 1,024. At most 16 MiB, as the frame has it.
fn size(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_uppercase();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..] {
        "" | "B" => 1,
        "KB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        _ => return None,
    };
    let bytes = digits.trim().parse::<u64>().ok()?.checked_mul(unit)?;
    (1_024..=16 << 20).contains(&bytes).then_some(bytes)
}

/// The number in a duration, which is one of nanoseconds to hours with its unit, or 0.
fn duration(text: &str) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == 'µ');
    let unit = &text[digits.len()..];
    let is_unit = ["ns", "us", "µs", "ms", "s", "m", "h"].contains(&unit) || text == "0";
    let number = digits.parse::<f64>().ok();
    number.filter(|number| is_unit && *number >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(serve: &Serve, name: &str) -> Option<String> {
        let settings = settings(serve, None).expect("they are right");
        settings
            .into_iter()
            .find_map(|(found, value)| (found == name).then_some(value))
    }

    #[test]
    fn flags_become_settings() {
        let serve = Serve {
            port: 1,
            metrics_port: 2,
            max_message_size: Some("2MB".to_owned()),
            ..Serve::default()
        };
        assert_eq!(value(&serve, "QQ_SERVER_BINARY_PORT").as_deref(), Some("1"));
        assert_eq!(value(&serve, "QQ_MANAGEMENT_PORT").as_deref(), Some("2"));
        assert_eq!(value(&serve, "QQ_STORAGE_PATH").as_deref(), Some(DATA_DIR));
        assert_eq!(
            value(&serve, "QQ_LIMITS_BINARY_PAYLOAD_MAX").as_deref(),
            Some("2097152")
        );
        let memory = Serve {
            data_dir: Some(String::new()),
            ..Serve::default()
        };
        assert_eq!(
            value(&memory, "QQ_STORAGE_BACKEND").as_deref(),
            Some("memory")
        );
        assert_eq!(value(&memory, "QQ_STORAGE_PATH"), None);
    }

    #[test]
    fn values_that_cannot_be_are_refused_by_their_flag() {
        let wrong = |serve: Serve| settings(&serve, None).expect_err("it is wrong");
        let with_size = |text: &str| Serve {
            max_message_size: Some(text.to_owned()),
            ..Serve::default()
        };
        for text in ["", "x", "1TB", "17MB", "-1", "18446744073709551615GB", "ä"] {
            assert!(
                wrong(with_size(text)).starts_with("--max-message-size"),
                "{text}"
            );
        }
        let interval = Serve {
            sync_interval: Some("soon".to_owned()),
            ..Serve::default()
        };
        assert!(wrong(interval).starts_with("--sync-interval"));
        let cluster = Serve {
            cluster_bootstrap: true,
            ..Serve::default()
        };
        assert!(wrong(cluster).starts_with("--cluster"));
        assert!(settings(&Serve::default(), Some("loose")).is_err());
    }

    #[test]
    fn sizes_and_durations_are_read_as_people_write_them() {
        let sizes = ["1024", "1024B", "64KB", "1mb", "16MB"].map(size);
        assert_eq!(
            sizes,
            [
                Some(1_024),
                Some(1_024),
                Some(65_536),
                Some(1 << 20),
                Some(16 << 20)
            ]
        );
        let durations = ["0", "100ms", "1.5s", "0s", "2µs"].map(duration);
        let numbers = [0.0, 100.0, 1.5, 0.0, 2.0].map(Some);
        assert_eq!(durations, numbers);
        for text in ["", "1", "ms", "-1s", "1 day"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn intervals_without_effect_are_warned_about_and_others_are_not() {
        let warnings_of = |batch: Option<&str>, sync: Option<&str>| {
            warnings(&Serve {
                batch_interval: batch.map(str::to_owned),
                sync_interval: sync.map(str::to_owned),
                ..Serve::default()
            })
        };
        let told = warnings_of(Some("10ms"), Some("100ms"));
        assert!(
            told[0].starts_with("--batch-interval 10ms has no effect: "),
            "{told:?}"
        );
        assert!(
            told[1].starts_with("--sync-interval 100ms has no effect: "),
            "{told:?}"
        );
        assert_eq!(told.len(), 2);
        // What they ask for is what is done.
        assert!(warnings_of(Some("0"), Some("0s")).is_empty());
        assert!(warnings_of(None, None).is_empty());
    }
}
