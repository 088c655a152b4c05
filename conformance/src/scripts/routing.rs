//! Exchanges by address: publishing to many, receivers with a subscription of their own, kept and shared ones.
//!
//! The standard leaves to a broker what a node does with a message. These scripts ask for the usual exchanges under the
//! addresses `/exchanges/NAME` and `/exchanges/NAME/KEY`; a broker that has none under them is passed over.

use crate::kit::{Kit, Peer, unsupported};
use crate::script::{Done, Failure, Script};
use crate::wire::{Perf, Value, message, perf, sym};
use crate::{ensure, same};

const AREA: &str = "routing";

/// Scripts of this area.
pub(super) const SCRIPTS: &[Script] = &[
    Script::new(
        AREA,
        "RT-20",
        &["3.5-a", "3.5.3-b"],
        "receivers from a topic get what their key takes, each its own copy",
        topic,
    ),
    Script::new(
        AREA,
        "RT-21",
        &["3.5-a"],
        "a fanout reaches every receiver, and without one the message is released",
        fanout,
    ),
    Script::new(
        AREA,
        "RT-22",
        &["3.5.5-a", "3.5.6-b", "2.6.4-a"],
        "a durable subscription collects while its link is detached, and ends when it is closed",
        durable,
    ),
    Script::new(
        AREA,
        "RT-23",
        &["3.5.3-b"],
        "links of a shared subscription take turns",
        shared,
    ),
    Script::new(
        AREA,
        "RT-24",
        &["2.6.3-f", "3.5.3-b"],
        "a receiver without a source finds the subscription of its name",
        lookup,
    ),
];

fn source(address: &str) -> Perf {
    perf("source").with("address", address)
}

fn kept(address: &str) -> Perf {
    source(address)
        .with("durable", 1u32)
        .with("expiry-policy", sym("never"))
}

/// Attaches a receiver and gives it credit.
fn receive(p: &mut Peer, name: &str, handle: u32, source: Perf) -> Done {
    let attach = p.receiver_attach(name, handle, "x").with("source", source);
    match p.attach(attach) {
        Ok(_) => {}
        Err(Failure::Broke(text)) if text.contains("was refused") => {
            return unsupported("no receivers from exchanges under these addresses");
        }
        Err(other) => return Err(other),
    }
    p.credit(handle, 10);
    p.sync()
}

/// Attaches a sender to an exchange.
fn send_to(p: &mut Peer, handle: u32, address: &str) -> Done {
    let target = perf("target").with("address", address);
    let attach = p.sender_attach("s", handle, "x").with("target", target);
    p.attach(attach)?;
    p.credit_wait(handle)
}

fn say(p: &mut Peer, id: u32, key: &str, body: &str) -> Done<&'static str> {
    let properties = perf("properties").with("subject", key).value().bytes();
    let payload = [properties, message::data(body.as_bytes())].concat();
    p.publish(0, id, &payload);
    p.outcome(id)
}

/// The next messages of a receiver, settled.
fn texts(p: &mut Peer, name: &str, count: usize) -> Done<Vec<String>> {
    let all = p.must_get_all(name, count)?;
    for one in &all {
        p.settle(one.id, "accepted");
    }
    p.sync()?;
    Ok(all.iter().map(|one| one.text()).collect())
}

fn topic(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    receive(&mut p, "all", 1, source("/exchanges/amq.topic/rt20.%23"))?;
    receive(&mut p, "one", 2, source("/exchanges/amq.topic/rt20.*"))?;
    send_to(&mut p, 0, "/exchanges/amq.topic")?;
    for (id, (key, expected)) in [
        ("rt20", "accepted"),
        ("rt20.a", "accepted"),
        ("rt20.a.b", "accepted"),
        ("rt21", "released"),
    ]
    .into_iter()
    .enumerate()
    {
        same!(
            say(&mut p, id as u32, key, key)?,
            expected,
            "outcome of {key}"
        );
    }
    same!(
        texts(&mut p, "all", 3)?,
        ["rt20", "rt20.a", "rt20.a.b"],
        "what rt20.# takes"
    );
    same!(texts(&mut p, "one", 1)?, ["rt20.a"], "what rt20.* takes");
    p.close()
}

fn fanout(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    let address = "/exchanges/amq.fanout";
    receive(&mut p, "r1", 1, source(address))?;
    receive(&mut p, "r2", 2, source(address))?;
    send_to(&mut p, 0, address)?;
    same!(
        say(&mut p, 0, "", "hit")?,
        "accepted",
        "outcome with receivers"
    );
    for name in ["r1", "r2"] {
        same!(texts(&mut p, name, 1)?, ["hit"], "what {name} gets");
    }
    p.detach(1, true)?;
    p.detach(2, false)?;
    same!(
        say(&mut p, 1, "", "miss")?,
        "released",
        "outcome when the receivers are gone"
    );
    p.close()
}

fn durable(k: &mut Kit) -> Done {
    let address = "/exchanges/amq.topic/rt22";
    let mut p = k.session_as("rt22")?;
    let attach = p
        .receiver_attach("sub", 1, "x")
        .with("source", kept(address));
    receive(&mut p, "sub", 1, kept(address))?;
    p.detach(1, false)?;
    send_to(&mut p, 0, address)?;
    same!(
        say(&mut p, 0, "", "1")?,
        "accepted",
        "outcome while detached"
    );
    p.cut();
    k.wait(50);
    let mut p = k.session_as("rt22")?;
    let answer = p.attach(attach)?;
    let source = answer.field("source");
    ensure!(
        source.field(1).number() == Some(1) && source.field(2).words() == Some("never"),
        "what is kept is not told: {source:?}"
    );
    p.credit(1, 10);
    same!(texts(&mut p, "sub", 1)?, ["1"], "what was collected");
    p.detach(1, true)?;
    send_to(&mut p, 0, address)?;
    same!(
        say(&mut p, 0, "", "2")?,
        "released",
        "outcome after the subscription was closed"
    );
    p.close()
}

fn shared(k: &mut Kit) -> Done {
    let address = "/exchanges/amq.topic/rt23";
    let source = || {
        let capabilities = Value::Array(vec![sym("shared")]);
        source(address).with("capabilities", capabilities)
    };
    let mut p = k.session()?;
    receive(&mut p, "sub|1", 1, source())?;
    receive(&mut p, "sub|2", 2, source())?;
    send_to(&mut p, 0, address)?;
    for id in 0..4 {
        same!(say(&mut p, id, "", "m")?, "accepted", "outcome");
    }
    // One each, by turns, and none of them twice.
    same!(
        texts(&mut p, "sub|1", 2)?,
        ["m", "m"],
        "the first link's part"
    );
    same!(
        texts(&mut p, "sub|2", 2)?,
        ["m", "m"],
        "the second link's part"
    );
    p.close()
}

fn lookup(k: &mut Kit) -> Done {
    let address = "/exchanges/amq.topic/rt24";
    let mut p = k.session_as("rt24")?;
    receive(&mut p, "sub", 1, kept(address))?;
    p.detach(1, false)?;
    let look = p.receiver_attach("sub", 1, "x").with("source", Value::Null);
    let answer = p.attach(look.clone())?;
    let source = answer.field("source");
    ensure!(
        source.field(2).words() == Some("never"),
        "the subscription is not told: {source:?}"
    );
    p.detach(1, true)?;
    p.attach_refused(look, &["amqp:not-found"])?;
    p.close()
}
