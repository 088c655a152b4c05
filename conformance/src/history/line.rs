//! Events as lines of JSON and back.

use serde_json::{Map, Value};

use super::event::{Event, Outcome, What};

/// The line of an event, without its end.
#[must_use]
pub fn print(event: &Event) -> String {
    let mut line = Map::new();
    line.insert("t".into(), event.t.into());
    line.insert("p".into(), event.p.as_str().into());
    let (op, e) = names(&event.what);
    line.insert("op".into(), op.into());
    line.insert("e".into(), e.into());
    put_fields(&mut line, &event.what);
    Value::Object(line).to_string()
}

fn names(what: &What) -> (&'static str, &'static str) {
    match what {
        What::SendInv { .. } => ("send", "inv"),
        What::SendOk { .. } => ("send", "ok"),
        What::SendFail { .. } => ("send", "fail"),
        What::SendInfo { .. } => ("send", "info"),
        What::Recv { .. } => ("recv", "ok"),
        What::SettleInv { .. } => ("settle", "inv"),
        What::SettleOk { .. } => ("settle", "ok"),
        What::Gone => ("gone", "ok"),
        What::Fault { is_start: true, .. } => ("fault", "inv"),
        What::Fault { .. } => ("fault", "ok"),
        What::Queue { .. } => ("queue", "ok"),
        What::Admin { .. } => ("admin", "ok"),
        What::Drain { .. } => ("drain", "ok"),
    }
}

fn put_fields(line: &mut Map<String, Value>, what: &What) {
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            line.insert(key.into(), value);
        }
    };
    let text = |text: &String| Some(Value::from(text.as_str()));
    match what {
        What::SendInv { q, m, k, n, h, dur } => {
            put("q", text(q));
            put("m", text(m));
            put("k", k.as_ref().and_then(text));
            put("n", n.map(Value::from));
            put("h", text(h));
            put("dur", Some((*dur).into()));
        }
        What::SendOk { m, off } => {
            put("m", text(m));
            put("off", off.map(Value::from));
        }
        What::SendFail { m, why } => {
            put("m", text(m));
            put("why", text(why));
        }
        What::SendInfo { m } => put("m", text(m)),
        What::Recv { .. } => put_delivery(&mut put, what),
        What::SettleInv { d, o } => {
            put("d", text(d));
            let name = Outcome::NAMES.iter().find(|(outcome, _)| outcome == o);
            put("o", name.map(|(_, name)| Value::from(*name)));
        }
        What::SettleOk { d } => put("d", text(d)),
        What::Gone => {}
        What::Fault { kind, node, .. } => {
            put("kind", text(kind));
            put("node", text(node));
        }
        What::Queue { .. } => put_rules(&mut put, what),
        What::Admin { kind, q, m } => {
            put("kind", text(kind));
            put("q", text(q));
            put("m", m.as_ref().and_then(text));
        }
        What::Drain { q } => put("q", text(q)),
    }
}

fn put_delivery(put: &mut impl FnMut(&str, Option<Value>), what: &What) {
    let What::Recv {
        q,
        m,
        h,
        d,
        k,
        n,
        c,
        off,
    } = what
    else {
        return;
    };
    for (key, value) in [("q", q), ("m", m), ("h", h), ("d", d)] {
        put(key, Some(value.as_str().into()));
    }
    put("k", k.as_deref().map(Value::from));
    for (key, value) in [("n", n), ("c", c), ("off", off)] {
        put(key, value.map(Value::from));
    }
}

fn put_rules(put: &mut impl FnMut(&str, Option<Value>), what: &What) {
    let What::Queue {
        q,
        max,
        dlq,
        is_log,
        dedup,
        lock,
    } = what
    else {
        return;
    };
    put("q", Some(q.as_str().into()));
    put("max", max.map(Value::from));
    put("dlq", dlq.as_deref().map(Value::from));
    put("mode", is_log.then(|| "log".into()));
    put("dedup", dedup.then(|| true.into()));
    put("lock", lock.then(|| true.into()));
}

/// Reads a line.
///
/// # Errors
/// What is wrong with it.
pub fn parse(line: &str) -> Result<Event, String> {
    let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let fields = Fields(value.as_object().ok_or("a line must be an object")?);
    Ok(Event {
        t: fields.number("t").ok_or("`t` is missing")?,
        p: fields.need("p")?,
        what: read_what(&fields)?,
    })
}

struct Fields<'a>(&'a Map<String, Value>);

impl Fields<'_> {
    fn text(&self, key: &str) -> Option<String> {
        Some(self.0.get(key)?.as_str()?.to_owned())
    }

    fn need(&self, key: &str) -> Result<String, String> {
        self.text(key).ok_or_else(|| format!("`{key}` is missing"))
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.0.get(key)?.as_u64()
    }

    fn flag(&self, key: &str) -> Option<bool> {
        self.0.get(key)?.as_bool()
    }
}

fn read_what(fields: &Fields<'_>) -> Result<What, String> {
    let (op, e) = (fields.need("op")?, fields.need("e")?);
    Ok(match (op.as_str(), e.as_str()) {
        ("send", "inv") => What::SendInv {
            q: fields.need("q")?,
            m: fields.need("m")?,
            k: fields.text("k"),
            n: fields.number("n"),
            h: fields.need("h")?,
            dur: fields.flag("dur").unwrap_or(true),
        },
        ("send", "ok") => What::SendOk {
            m: fields.need("m")?,
            off: fields.number("off"),
        },
        ("send", "fail") => What::SendFail {
            m: fields.need("m")?,
            why: fields.text("why").unwrap_or_default(),
        },
        ("send", "info") => What::SendInfo {
            m: fields.need("m")?,
        },
        ("recv", "ok") => What::Recv {
            q: fields.need("q")?,
            m: fields.need("m")?,
            h: fields.need("h")?,
            d: fields.need("d")?,
            k: fields.text("k"),
            n: fields.number("n"),
            c: fields.number("c"),
            off: fields.number("off"),
        },
        ("settle", "inv") => {
            let name = fields.need("o")?;
            let known = Outcome::NAMES.iter().find(|(_, known)| *known == name);
            What::SettleInv {
                d: fields.need("d")?,
                o: known.ok_or_else(|| format!("no outcome `{name}`"))?.0,
            }
        }
        ("settle", "ok") => What::SettleOk {
            d: fields.need("d")?,
        },
        ("gone", "ok") => What::Gone,
        ("fault", "inv" | "ok") => What::Fault {
            is_start: e == "inv",
            kind: fields.text("kind").unwrap_or_default(),
            node: fields.text("node").unwrap_or_default(),
        },
        ("queue", "ok") => What::Queue {
            q: fields.need("q")?,
            max: fields.number("max"),
            dlq: fields.text("dlq"),
            is_log: fields.text("mode").as_deref() == Some("log"),
            dedup: fields.flag("dedup").unwrap_or(false),
            lock: fields.flag("lock").unwrap_or(false),
        },
        ("admin", "ok") => What::Admin {
            kind: fields.need("kind")?,
            q: fields.text("q").unwrap_or_default(),
            m: fields.text("m"),
        },
        ("drain", "ok") => What::Drain {
            q: fields.need("q")?,
        },
        _ => return Err(format!("no event `{op}` `{e}`")),
    })
}
