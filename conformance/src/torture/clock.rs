//! A wall clock that jumps, by libfaketime: what lives for a time lives for that time, whatever
//! the calendar says.

use super::Outcome;
use super::client::{Client, Lost, decode, encode};
use super::daemon::Setup;
use super::record::MessageId;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// The library that fakes clocks, where Debian puts it.
pub fn library() -> Option<PathBuf> {
    let places = ["x86_64-linux-gnu", "aarch64-linux-gnu"];
    let mut paths = places
        .iter()
        .map(|p| PathBuf::from(format!("/usr/lib/{p}/faketime/libfaketimeMT.so.1")));
    paths.find(|p| p.exists())
}

/// Publishes messages that live for `ttl`, jumps by an hour back and forth, and looks who is there.
pub fn jumps(setup: &Setup, ttl: Duration) -> Outcome<()> {
    let library = library().ok_or("libfaketime is needed: apt-get install libfaketime")?;
    let mut setup = setup.clone();
    fs::create_dir_all(&setup.dir).map_err(|e| e.to_string())?;
    let file = setup.dir.join("offset");
    let jump = |offset: &str| fs::write(&file, offset).map_err(|e| e.to_string());
    jump("+0")?;
    let variables = [
        ("LD_PRELOAD", library.display().to_string()),
        ("FAKETIME_TIMESTAMP_FILE", file.display().to_string()),
        ("FAKETIME_NO_CACHE", "1".into()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
        ("DONT_FAKE_MONOTONIC", "1".into()),
    ];
    setup.variables = variables.map(|(k, v)| (k.to_owned(), v)).to_vec();
    let mut daemon = setup.start()?;
    let mut client = Client::open(daemon.port, "clock")?;
    client.attach_sender(0, "s", "clock")?;
    let mut next = 0;
    for (before, during) in [
        ("+0", "+3600"),
        ("+3600", "+0"),
        ("+0", "-3600"),
        ("-3600", "+3600"),
    ] {
        jump(before)?;
        let ttl_ms = u32::try_from(ttl.as_millis()).unwrap_or(u32::MAX);
        let mortal = send(&mut client, &mut next, ttl_ms)?;
        let immortal = send(&mut client, &mut next, 0)?;
        jump(during)?;
        // Nothing expires early.
        let there = look(daemon.port)?;
        if there != [mortal, immortal] {
            return Err(format!(
                "{before} to {during}: {there:?} right after the jump"
            ));
        }
        std::thread::sleep(ttl + Duration::from_millis(300));
        // What is over its time is gone, also when the calendar went back,
        let there = look(daemon.port)?;
        if there != [immortal] {
            return Err(format!("{before} to {during}: {there:?} after {ttl:?}"));
        }
        // and stays gone.
        jump(before)?;
        let there = take(daemon.port)?;
        if there != [immortal] {
            return Err(format!("{before} to {during} and back: {there:?} came"));
        }
    }
    client.close()?;
    daemon.signal("TERM")?;
    daemon.wait(Duration::from_secs(30))?;
    check_jumped(&daemon.log())
}

/// The times in the log prove that the daemon's clock did jump: the last line was written an hour
/// before the first.
fn check_jumped(log: &str) -> Outcome<()> {
    let first = log.lines().next().and_then(second_of_day);
    let last = log.lines().last().and_then(second_of_day);
    let (Some(first), Some(last)) = (first, last) else {
        return Err(format!("no times in the log\n{log}"));
    };
    let back = (first - last).rem_euclid(24 * 3_600);
    match back {
        3_000..=3_600 => Ok(()),
        _ => Err(format!("the daemon's clock did not jump\n{log}")),
    }
}

/// Of a line that begins with `2026-11-30T08:53:36.909Z`.
fn second_of_day(line: &str) -> Option<i64> {
    let (_, time) = line.split_once('T')?;
    let mut parts = time.get(..8)?.split(':').map(str::parse::<i64>);
    let mut next = || parts.next()?.ok();
    Some(next()? * 3_600 + next()? * 60 + next()?)
}

fn send(client: &mut Client, next: &mut u64, ttl_ms: u32) -> Result<MessageId, Lost> {
    let m = MessageId::new(1, *next);
    *next += 1;
    client.transfer(0, false, &encode(&m.body(64), true, ttl_ms));
    client.flush()?;
    let answer = client.wait_for("disposition", Duration::from_secs(10))?;
    match answer.state() {
        "accepted" => Ok(m),
        other => Err(Lost::Cut(format!("{other} instead of accepted"))),
    }
}

/// Who is in the queue; everything goes back.
fn look(port: u16) -> Outcome<Vec<MessageId>> {
    received(port, "released")
}

/// Who is in the queue; everything is taken.
fn take(port: u16) -> Outcome<Vec<MessageId>> {
    received(port, "accepted")
}

fn received(port: u16, outcome: &str) -> Outcome<Vec<MessageId>> {
    let mut client = Client::open(port, "looker")?;
    client.attach_receiver(0, "looker", "clock", true)?;
    client.credit(0, 0, 100, true);
    client.flush()?;
    let mut found = vec![];
    let mut ids = vec![];
    loop {
        let frame = client.next_frame(Duration::from_secs(10))?;
        let frame = frame.ok_or("a drain is not answered")?;
        if frame.name() == "transfer" {
            let body = decode(&frame.payload).map(|(_, body)| body);
            found.push(body.and_then(|b| MessageId::of_body(&b)).ok_or("no body")?);
            ids.push(frame.number("delivery-id").unwrap_or(0) as u32);
        } else if frame.name() == "flow" && frame.flag("drain") {
            break;
        }
    }
    for id in &ids {
        client.settle(*id, *id, false, outcome);
    }
    client.flush()?;
    let mut confirmed = 0;
    while confirmed < ids.len() {
        let frame = client.wait_for("disposition", Duration::from_secs(10))?;
        let first = frame.number("first").unwrap_or(0);
        confirmed += (frame.number("last").unwrap_or(first) - first + 1) as usize;
    }
    client.close()?;
    Ok(found)
}
