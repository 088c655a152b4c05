//! Filters of sources (messaging 3.5.1, 3.5.8): what they let through, what they leave, and what is refused.

use crate::kit::{Kit, Peer, body_text};
use crate::script::{Done, Script};
use crate::wire::{Perf, Value, message, perf, sym};
use crate::{ensure, same};

const AREA: &str = "filter";
const SELECTOR: &str = "apache.org:selector-filter:string";

/// Scripts of this area.
pub(super) const SCRIPTS: &[Script] = &[
    Script::new(
        AREA,
        "FI-01",
        &["3.5.1-a", "3.5.3-b", "3.5.8-a"],
        "a selector lets through what matches, and the rest stays for others",
        selector,
    ),
    Script::new(
        AREA,
        "FI-02",
        &["3.5.8-a"],
        "a selector that cannot be read refuses its link and no more",
        wrong_selector,
    ),
    Script::new(
        AREA,
        "FI-03",
        &["3.5.1-a", "3.5.2-b"],
        "a selector on a copy shows what matches and takes nothing",
        copied,
    ),
    Script::new(
        AREA,
        "FI-04",
        &["3.5.1-a"],
        "a receiver that selects nothing does not hold up another",
        beside,
    ),
];

/// A receiver of `q1` with this selector.
fn selecting(p: &Peer, name: &str, handle: u32, selector: &str) -> Perf {
    let filter = Value::Described(Box::new(sym(SELECTOR)), Box::new(Value::from(selector)));
    let source = perf("source")
        .with("address", p.addr("q1"))
        .with("filter", Value::Map(vec![(sym("selector"), filter)]));
    p.receiver_attach(name, handle, "q1").with("source", source)
}

/// A message with a color and a number.
fn colored(number: i32) -> Vec<u8> {
    let color = if number % 2 == 0 { "blue" } else { "red" };
    let properties = Value::Map(vec![
        (Value::from("color"), Value::from(color)),
        (Value::from("n"), Value::Int(number)),
    ]);
    let mut payload = vec![];
    Value::Described(Box::new(Value::Ulong(0x74)), Box::new(properties)).encode(&mut payload);
    payload.extend(message::data(format!("m{number}").as_bytes()));
    payload
}

fn fill(k: &mut Kit) -> Done {
    let payloads: Vec<_> = (0..6).map(colored).collect();
    k.fill("q1", &payloads)
}

/// Whether the broker says that the filter is in effect.
fn has_filter(answer: &crate::wire::Frame) -> bool {
    format!("{:?}", answer.field("source").field(7)).contains(SELECTOR)
}

fn selector(k: &mut Kit) -> Done {
    fill(k)?;
    let mut p = k.session()?;
    let answer = p.attach(selecting(&p, "r1", 1, "color = 'red' AND n > 1"))?;
    if !has_filter(&answer) {
        return crate::kit::unsupported("the answer names no selector");
    }
    p.credit(1, 10);
    let got = p.must_get_all("r1", 2)?;
    let bodies: Vec<_> = got.iter().map(|one| body_text(&one.payload)).collect();
    same!(bodies, ["m3", "m5"], "messages selected");
    ensure!(p.delivery("r1", 400)?.is_none(), "one more came");
    for one in got {
        p.settle(one.id, "accepted");
    }
    p.sync()?;
    p.close()?;
    same!(k.bodies("q1")?, ["m0", "m1", "m2", "m4"], "messages left");
    Ok(())
}

fn wrong_selector(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    let attach = selecting(&p, "r1", 1, "color = = 'red'");
    p.attach_refused(attach, &["amqp:invalid-field", "amqp:precondition-failed"])?;
    p.receiver("r2", 2, "q1")?;
    p.sync()?;
    p.close()
}

fn copied(k: &mut Kit) -> Done {
    fill(k)?;
    let mut p = k.session()?;
    let attach = selecting(&p, "r1", 1, "n >= 4");
    let filter = attach.field("source").field(7).clone();
    let source = perf("source")
        .with("address", p.addr("q1"))
        .with("distribution-mode", sym("copy"))
        .with("filter", filter);
    let answer = p.attach(attach.with("source", source))?;
    if !has_filter(&answer) || answer.field("source").field(6).words() != Some("copy") {
        return crate::kit::unsupported("the answer names no selector or no copy");
    }
    p.credit(1, 10);
    let got = p.must_get_all("r1", 2)?;
    let bodies: Vec<_> = got.iter().map(|one| body_text(&one.payload)).collect();
    same!(bodies, ["m4", "m5"], "messages shown");
    p.close()?;
    same!(k.bodies("q1")?.len(), 6, "messages left");
    Ok(())
}

fn beside(k: &mut Kit) -> Done {
    fill(k)?;
    let mut p = k.session()?;
    p.attach(selecting(&p, "r1", 1, "color = 'green'"))?;
    p.credit(1, 10);
    ensure!(p.delivery("r1", 400)?.is_none(), "nothing is green");
    p.receiver("r2", 2, "q1")?;
    p.credit(2, 10);
    let got = p.must_get_all("r2", 6)?;
    for one in got {
        p.settle(one.id, "accepted");
    }
    p.sync()?;
    p.close()
}
