//! The checker of histories: valid histories stay valid, and each class of violation is found in a history that was
//! mutated to show it.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests own processes, sockets, files and clocks"
)]

mod model;

use model::Model;
use qq_conformance::history::{Class, Event, Outcome, Verdict, What, check, parse, print};
use qq_conformance::seed::Seed;

/// Models that each mutation is tried on.
const SEEDS: u64 = 16;

fn queue(seed: u64) -> Vec<Event> {
    Model::queue(seed)
}

fn log(seed: u64) -> Vec<Event> {
    Model::log(seed)
}

/// Times that rise with the place in the list.
fn restamp(events: &mut [Event]) {
    for (at, event) in events.iter_mut().enumerate() {
        event.t = at as u64 * 10;
    }
}

/// Mutates every model and expects one of the classes wherever the mutation was possible.
fn expect(
    classes: &[Class],
    model: fn(u64) -> Vec<Event>,
    mutate: fn(&mut Vec<Event>, &mut Seed) -> Option<()>,
) {
    let mut possible = 0;
    for seed in 0..SEEDS {
        let mut events = model(seed);
        let mut rng = Seed::new(seed + 1_000);
        if mutate(&mut events, &mut rng).is_none() {
            continue;
        }
        possible += 1;
        restamp(&mut events);
        let report = check(&events);
        assert!(
            classes
                .iter()
                .any(|class| report.errors.contains_key(class)),
            "seed {seed}: expected one of {classes:?}\n{report}"
        );
    }
    assert!(
        possible >= 1,
        "the mutation was possible in {possible} of {SEEDS} histories only"
    );
}

fn sent(event: &Event) -> Option<&str> {
    match &event.what {
        What::SendOk { m, .. } => Some(m),
        _ => None,
    }
}

/// Places of the deliveries from a queue.
fn deliveries(events: &[Event], from: &str) -> Vec<usize> {
    let is_one = |event: &Event| matches!(&event.what, What::Recv { q, .. } if q == from);
    (0..events.len())
        .filter(|at| is_one(&events[*at]))
        .collect()
}

fn message_at(events: &[Event], at: usize) -> String {
    match &events[at].what {
        What::Recv { m, .. } => m.clone(),
        _ => panic!("no delivery at {at}"),
    }
}

/// Changes a delivery.
fn edit(event: &mut Event, change: impl FnOnce(&mut String, &mut String, &mut String)) {
    if let What::Recv { m, h, d, .. } = &mut event.what {
        change(m, h, d);
    }
}

/// A delivery once more, to somebody else.
fn again(events: &[Event], at: usize) -> Event {
    let mut event = events[at].clone();
    event.p = "c9".to_owned();
    edit(&mut event, |_, _, d| *d = "dx".to_owned());
    event
}

fn deliveries_of(events: &[Event], message: &str) -> Vec<usize> {
    let is_one = |event: &Event| matches!(&event.what, What::Recv { m, .. } if m == message);
    (0..events.len())
        .filter(|at| is_one(&events[*at]))
        .collect()
}

fn delivery_id(event: &Event) -> Option<&str> {
    match &event.what {
        What::Recv { d, .. } | What::SettleInv { d, .. } | What::SettleOk { d } => Some(d),
        _ => None,
    }
}

/// Places where a delivery from `q` was settled so.
fn settlements(events: &[Event], outcome: Outcome) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (at, event) in events.iter().enumerate() {
        if let What::SettleInv { d, o } = &event.what
            && *o == outcome
        {
            let given = events.iter().position(
                |event| matches!(&event.what, What::Recv { q, d: id, .. } if q == "q" && id == d),
            );
            found.extend(given.map(|given| (given, at)));
        }
    }
    found
}

#[test]
fn models_are_valid() {
    for seed in 0..SEEDS {
        for events in [queue(seed), log(seed)] {
            let report = check(&events);
            assert_eq!(report.verdict(), Verdict::Valid, "seed {seed}: {report}");
        }
    }
}

#[test]
fn what_is_not_drained_is_unknown() {
    for seed in 0..SEEDS {
        let mut events = queue(seed);
        // A message that is acknowledged and still in the queue.
        let last = events.len();
        let send = What::SendInv {
            q: "q".into(),
            m: "late".into(),
            k: None,
            n: None,
            h: "h".into(),
            dur: true,
        };
        for what in [
            send,
            What::SendOk {
                m: "late".into(),
                off: None,
            },
        ] {
            events.push(Event {
                t: 0,
                p: "p0".into(),
                what,
            });
        }
        events.retain(|event| !matches!(event.what, What::Drain { .. }));
        restamp(&mut events);
        let report = check(&events);
        assert_eq!(
            report.verdict(),
            Verdict::Unknown,
            "seed {seed}, {last}: {report}"
        );
    }
}

#[test]
fn lines_are_read_as_they_were_written() {
    for event in queue(1).into_iter().chain(log(1)) {
        let line = print(&event);
        assert_eq!(parse(&line), Ok(event), "{line}");
    }
    for wrong in ["", "[]", "{}", r#"{"t":1,"p":"a","op":"send","e":"what"}"#] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn lost() {
    expect(&[Class::Lost], queue, |events, rng| {
        let acknowledged: Vec<String> = events.iter().filter_map(sent).map(str::to_owned).collect();
        let message = rng.pick(&acknowledged)?.clone();
        let gone: Vec<String> = deliveries_of(events, &message)
            .into_iter()
            .filter_map(|at| delivery_id(&events[at]).map(str::to_owned))
            .collect();
        events.retain(|event| delivery_id(event).is_none_or(|d| !gone.iter().any(|g| g == d)));
        Some(())
    });
}

#[test]
fn phantom() {
    expect(&[Class::Phantom], queue, |events, rng| {
        let at = *rng.pick(&deliveries(events, "q"))?;
        let mut ghost = again(events, at);
        edit(&mut ghost, |m, _, _| *m = "ghost".to_owned());
        events.insert(at, ghost);
        Some(())
    });
    // Before it was sent.
    expect(&[Class::Phantom], queue, |events, _| {
        let at = *deliveries(events, "q").first()?;
        let early = again(events, at);
        events.insert(0, early);
        Some(())
    });
}

#[test]
fn corrupt_and_misrouted() {
    expect(&[Class::Corrupt], queue, |events, rng| {
        let at = *rng.pick(&deliveries(events, "q"))?;
        edit(&mut events[at], |_, h, _| *h = "other".to_owned());
        Some(())
    });
    expect(&[Class::Misrouted], queue, |events, rng| {
        let at = *rng.pick(&deliveries(events, "q"))?;
        if let What::Recv { q, .. } = &mut events[at].what {
            *q = "elsewhere".to_owned();
        }
        Some(())
    });
}

#[test]
fn rejected_but_seen() {
    expect(&[Class::RejectedButSeen], queue, |events, _| {
        let at = events
            .iter()
            .position(|event| matches!(event.what, What::SendFail { .. }))?;
        let What::SendFail { m, .. } = events[at].what.clone() else {
            return None;
        };
        let given = *deliveries(events, "q").first()?;
        let mut seen = again(events, given);
        edit(&mut seen, |message, h, _| {
            *h = format!("h{m}");
            *message = m;
        });
        events.insert(at + 1, seen);
        Some(())
    });
}

#[test]
fn stuck() {
    expect(
        &[Class::Stuck, Class::KeyLockBroken],
        queue,
        |events, rng| {
            let ended = settlements(events, Outcome::Accepted);
            let (given, _) = *rng.pick(&ended)?;
            let message = message_at(events, given);
            let is_acknowledged = events
                .iter()
                .any(|event| sent(event) == Some(message.as_str()));
            if deliveries_of(events, &message).len() != 1 || !is_acknowledged {
                return None;
            }
            let d = delivery_id(&events[given])?.to_owned();
            events.retain(|event| {
                !(matches!(event.what, What::SettleInv { .. } | What::SettleOk { .. })
                    && delivery_id(event) == Some(d.as_str()))
            });
            Some(())
        },
    );
}

#[test]
fn double_delivery() {
    expect(&[Class::DoubleDelivery], queue, |events, rng| {
        let at = *rng.pick(&deliveries(events, "q"))?;
        let second = again(events, at);
        events.insert(at + 1, second);
        Some(())
    });
}

#[test]
fn resurrected_and_duplicate() {
    expect(&[Class::Resurrected], queue, |events, rng| {
        let ended = settlements(events, Outcome::Accepted);
        let confirmed: Vec<(usize, usize)> = ended
            .iter()
            .filter_map(|(given, _)| {
                let d = delivery_id(&events[*given])?;
                let ok = events
                    .iter()
                    .position(|event| matches!(&event.what, What::SettleOk { d: id } if id == d))?;
                Some((*given, ok))
            })
            .collect();
        let (given, ok) = *rng.pick(&confirmed)?;
        let risen = again(events, given);
        events.insert(ok + 1, risen);
        Some(())
    });
    expect(&[Class::Duplicate], queue, |events, rng| {
        let (given, settled) = *rng.pick(&settlements(events, Outcome::Accepted))?;
        let d = delivery_id(&events[given])?.to_owned();
        events.retain(|event| !matches!(&event.what, What::SettleOk { d: id } if *id == d));
        let risen = again(events, given);
        events.insert(settled + 1, risen);
        Some(())
    });
}

#[test]
fn reordered() {
    let classes = [Class::Reordered, Class::Overtaken, Class::KeyLockBroken];
    expect(&classes, queue, |events, _| {
        let at = deliveries(events, "q");
        let facts = |at: usize| match &events[at].what {
            What::Recv { m, k, n, .. } => {
                let is_sent =
                    |event: &&Event| matches!(&event.what, What::SendInv { m: id, .. } if id == m);
                let by = events.iter().find(is_sent)?.p.clone();
                Some((events[at].p.clone(), by, k.clone(), *n, m.clone()))
            }
            _ => None,
        };
        let is_plain = |m: &str| {
            deliveries_of(events, m).len() == 1 && events.iter().any(|event| sent(event) == Some(m))
        };
        let pairs = at
            .iter()
            .enumerate()
            .flat_map(|(nth, a)| at[nth + 1..].iter().map(move |b| (*a, *b)));
        let (a, b) = pairs.into_iter().find(|(a, b)| {
            let (Some(first), Some(then)) = (facts(*a), facts(*b)) else {
                return false;
            };
            (&first.0, &first.1, &first.2) == (&then.0, &then.1, &then.2)
                && is_plain(&first.4)
                && is_plain(&then.4)
        })?;
        let (p, t) = (events[a].p.clone(), events[b].p.clone());
        events.swap(a, b);
        (events[a].p, events[b].p) = (p, t);
        let (d, e) = (
            delivery_id(&events[a])?.to_owned(),
            delivery_id(&events[b])?.to_owned(),
        );
        edit(&mut events[a], |_, _, id| *id = e);
        edit(&mut events[b], |_, _, id| *id = d);
        Some(())
    });
}

#[test]
fn overtaken_and_key_lock() {
    expect(
        &[Class::Overtaken, Class::KeyLockBroken],
        queue,
        |events, _| {
            // The next delivery of the key comes before the one that was given back is delivered again.
            let (given, settled) = *settlements(events, Outcome::Released).first()?;
            let key = |event: &Event| match &event.what {
                What::Recv { k, .. } => k.clone(),
                _ => None,
            };
            let message = message_at(events, given);
            let wanted = key(&events[given]);
            let next = (settled..events.len()).find(|at| {
                matches!(&events[*at].what, What::Recv { q, m, .. } if q == "q" && *m != message)
                    && key(&events[*at]) == wanted
                    && deliveries_of(events, &message_at(events, *at)).len() == 1
            })?;
            let successor = events.remove(next);
            let was_sent = events[..=settled].iter().any(
            |event| matches!(&event.what, What::SendInv { m, .. } if Some(m.as_str()) == match &successor.what {
                What::Recv { m, .. } => Some(m.as_str()),
                _ => None,
            }),
        );
            events.insert(settled + 1, successor);
            was_sent.then_some(())
        },
    );
}

#[test]
fn over_redelivered_left_behind_and_counts() {
    expect(&[Class::OverRedelivered], queue, |events, _| {
        let dead = *deliveries(events, "q.dlq").first()?;
        let message = message_at(events, dead);
        let given = *deliveries_of(events, &message).first()?;
        let extra = again(events, given);
        events.insert(dead, extra);
        Some(())
    });
    expect(&[Class::LeftBehind], queue, |events, _| {
        let dead = *deliveries(events, "q.dlq").first()?;
        let message = message_at(events, dead);
        let given = *deliveries_of(events, &message).first()?;
        let extra = again(events, given);
        events.insert(dead + 1, extra);
        Some(())
    });
    expect(&[Class::CountRunsBack], queue, |events, _| {
        let first = deliveries(events, "q")
            .into_iter()
            .find(|at| deliveries_of(events, &message_at(events, *at)).len() > 1)?;
        if let What::Recv { c, .. } = &mut events[first].what {
            *c = Some(99);
        }
        Some(())
    });
}

#[test]
fn malformed() {
    expect(&[Class::Malformed], queue, |events, _| {
        let what = What::SettleOk {
            d: "nobody's".into(),
        };
        events.push(Event {
            t: 0,
            p: "c1".into(),
            what,
        });
        Some(())
    });
    let mut events = queue(0);
    events[5].t = u64::MAX;
    assert!(check(&events).errors.contains_key(&Class::Malformed));
}

#[test]
fn logs() {
    expect(&[Class::Duplicate], log, |events, _| {
        let at = *deliveries(events, "s").last()?;
        let mut copy = again(events, at);
        if let What::Recv { off, .. } = &mut copy.what {
            *off = off.map(|off| off + 1);
        }
        events.insert(at + 1, copy);
        Some(())
    });
    expect(&[Class::Skipped], log, |events, rng| {
        let of_one = |at: &usize| events[*at].p == "c1";
        let mut at: Vec<usize> = deliveries(events, "s").into_iter().filter(of_one).collect();
        at.pop();
        let acknowledged: Vec<usize> = at
            .into_iter()
            .skip(1)
            .filter(|at| {
                let m = message_at(events, *at);
                events.iter().any(|event| sent(event) == Some(m.as_str()))
            })
            .collect();
        events.remove(*rng.pick(&acknowledged)?);
        Some(())
    });
    expect(&[Class::OffsetDivergence], log, |events, _| {
        let of_one = |at: &usize| events[*at].p == "c2";
        let at: Vec<usize> = deliveries(events, "s").into_iter().filter(of_one).collect();
        let (first, last) = (*at.first()?, *at.last()?);
        let (m, h) = match &events[last].what {
            What::Recv { m, h, .. } => (m.clone(), h.clone()),
            _ => return None,
        };
        edit(&mut events[first], |message, hash, _| {
            (*message, *hash) = (m, h)
        });
        Some(())
    });
    expect(&[Class::Lost, Class::Skipped], log, |events, rng| {
        let acknowledged: Vec<String> = events.iter().filter_map(sent).map(str::to_owned).collect();
        let message = rng.pick(&acknowledged)?.clone();
        events.retain(|event| !matches!(&event.what, What::Recv { m, .. } if *m == message));
        Some(())
    });
    expect(&[Class::OffsetRunsBack], log, |events, _| {
        let of_one = |at: &usize| events[*at].p == "c1";
        let at: Vec<usize> = deliveries(events, "s").into_iter().filter(of_one).collect();
        let mut back = again(events, *at.first()?);
        back.p = "c1".to_owned();
        events.insert(*at.last()? + 1, back);
        Some(())
    });
}

/// Histories kept with their verdicts: `NAME.CLASS.jsonl`, where the class is `valid`, `unknown` or that of a violation.
#[test]
fn kept_histories_are_judged_as_they_were() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories");
    let mut seen = 0;
    for entry in std::fs::read_dir(&dir).expect("the folder is there") {
        let path = entry.expect("readable").path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("UTF-8")
            .to_owned();
        let text = std::fs::read_to_string(&path).expect("readable");
        let events: Result<Vec<Event>, String> = text.lines().map(parse).collect();
        let report = check(&events.unwrap_or_else(|error| panic!("{name}: {error}")));
        let class = name.split('.').nth(1).expect("NAME.CLASS.jsonl");
        match class {
            "valid" => assert_eq!(report.verdict(), Verdict::Valid, "{name}: {report}"),
            "unknown" => assert_eq!(report.verdict(), Verdict::Unknown, "{name}: {report}"),
            _ => {
                assert_eq!(report.verdict(), Verdict::Invalid, "{name}: {report}");
                assert!(
                    report.errors.keys().any(|found| found.name() == class),
                    "{name}: {report}"
                );
            }
        }
        seen += 1;
    }
    assert!(seen >= 20, "{seen} histories");
}
