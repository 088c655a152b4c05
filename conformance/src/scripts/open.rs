//! Opening and closing a connection (transport 2.4.1 to 2.4.4, 2.7.1).

use crate::kit::{Kit, known};
use crate::script::{Done, Script};
use crate::wire::{Value, perf, sym, text};
use crate::{ensure, same};

const AREA: &str = "open";

/// Scripts of this area.
pub(super) const SCRIPTS: &[Script] = &[
    Script::new(
        AREA,
        "OC-01",
        &["2.4.1-a", "2.4.1-b", "2.4.1-c", "2.7.1-a", "2.7.1-b"],
        "the broker answers open with open, on channel 0, with a container-id",
        open_answer,
    ),
    Script::new(
        AREA,
        "OC-02",
        &["2.8.15-g", "2.4.1-a", "2.4.6-a"],
        "a begin before the open closes the connection",
        begin_first,
    ),
    Script::new(
        AREA,
        "OC-03",
        &["2.8.15-g", "2.4.1-d"],
        "a second open closes the connection",
        second_open,
    ),
    Script::new(
        AREA,
        "OC-04",
        &["2.4.2-a", "2.4.2-c", "2.5.5-b", "2.4.2-b"],
        "open, begin, attach and transfer in one write",
        pipelined,
    ),
    Script::new(
        AREA,
        "OC-05",
        &["2.4.3-c", "2.4.3-b", "2.7.9-a"],
        "a close is answered by a close, then the end of the stream",
        close_answer,
    ),
    Script::new(
        AREA,
        "OC-06",
        &["2.4.3-a", "2.4.6-b", "2.4.3-b"],
        "after an error close the broker sends nothing more",
        silent_after_close,
    ),
    Script::new(
        AREA,
        "OC-07",
        &["2.7.1-i", "2.7.1-j", "2.7.1-k"],
        "unknown capabilities, properties and locales are ignored",
        unknown_extras,
    ),
    Script::new(
        AREA,
        "OC-08",
        &["2.4.3-b", "2.4.6-b"],
        "frames behind a close are not acted on",
        frames_after_close,
    ),
    Script::new(
        AREA,
        "OC-09",
        &["2.4.1-b"],
        "an open on another channel than zero is refused or read as channel zero",
        open_elsewhere,
    ),
    Script::new(
        AREA,
        "OC-10",
        &["2.4.2-a", "2.4.3-c"],
        "open and close in one write are both answered",
        open_close,
    ),
    Script::new(
        AREA,
        "OC-11",
        &["2.8.14-a", "2.4.3-c"],
        "a close with an error is answered all the same",
        close_with_error,
    ),
    Script::new(
        AREA,
        "OC-12",
        &["2.7.1-b", "2.8.15-c"],
        "a max-frame-size below 512 is refused or read as 512",
        small_frame_limit,
    ),
];

fn open_answer(k: &mut Kit) -> Done {
    let mut p = k.open()?;
    let open = p.opened.clone().expect("an open");
    same!(open.channel, 0, "channel of the open");
    ensure!(
        open.field("container-id")
            .words()
            .is_some_and(|c| !c.is_empty()),
        "{open:?}"
    );
    let limit = open.number("max-frame-size").unwrap_or(u32::MAX.into());
    ensure!(limit >= 512, "max-frame-size {limit}");
    p.close()
}

fn begin_first(k: &mut Kit) -> Done {
    let mut p = k.hello()?;
    p.hex(known::BEGIN);
    p.refusal(&[
        "amqp:illegal-state",
        "amqp:not-allowed",
        "amqp:connection:framing-error",
        "amqp:decode-error",
    ])?;
    Ok(())
}

fn second_open(k: &mut Kit) -> Done {
    let mut p = k.open()?;
    p.hex(known::OPEN);
    p.refused(&[
        "amqp:illegal-state",
        "amqp:not-allowed",
        "amqp:connection:framing-error",
    ])?;
    Ok(())
}

fn pipelined(k: &mut Kit) -> Done {
    let mut p = k.hello()?;
    let frames = [known::OPEN, known::BEGIN, known::SND, known::XFER].concat();
    p.hex(&frames);
    p.want("open")?;
    p.want("begin")?;
    p.want("attach")?;
    // Credit was not there yet, so the transfer may be refused with its link, but not lost.
    let answer = p.want_where("disposition or detach", |f| {
        ["disposition", "detach"].contains(&f.name())
    })?;
    let allowed = ["amqp:link:transfer-limit-exceeded", "amqp:not-allowed"];
    ensure!(
        answer.name() == "disposition" || allowed.contains(&answer.condition().as_str()),
        "{answer:?}"
    );
    p.close()
}

fn close_answer(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.sender("s1", 0, "q1")?;
    p.close_frames()?;
    p.gone()
}

fn silent_after_close(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    p.credit(1, 10);
    p.sync()?;
    p.hex("0000000002000000");
    let close = p.want("close")?;
    same!(
        close.condition(),
        "amqp:connection:framing-error",
        "condition"
    );
    k.fill_count("q1", 3)?;
    p.gone()
}

fn unknown_extras(k: &mut Kit) -> Done {
    let mut p = k.hello()?;
    let names = || Value::Array(vec![sym("x-nobody-knows"), sym("x-this-either")]);
    let open = perf("open")
        .with("container-id", "c1")
        .with("hostname", "some.host")
        .with(
            "outgoing-locales",
            Value::Array(vec![sym("en-US"), sym("xx")]),
        )
        .with("incoming-locales", sym("xx-YY"))
        .with("offered-capabilities", names())
        .with("desired-capabilities", names())
        .with(
            "properties",
            Value::Map(vec![(sym("x"), Value::List(vec![])), (sym("y"), text("z"))]),
        );
    p.send(0, open);
    let answer = p.want("open")?;
    let offered = format!("{:?}", answer.field("offered-capabilities"));
    ensure!(
        !offered.contains("x-nobody-knows"),
        "offers what it cannot know: {offered}"
    );
    p.close()
}

fn frames_after_close(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.sender("s1", 0, "q1")?;
    p.credit_wait(0)?;
    p.hex(&[known::CLOSE, known::XFER].concat());
    p.want("close")?;
    p.gone()?;
    same!(
        k.bodies("q1")?,
        Vec::<String>::new(),
        "messages sent behind the close"
    );
    Ok(())
}

fn open_elsewhere(k: &mut Kit) -> Done {
    let mut p = k.hello()?;
    p.hex("0000001202000003005310c00501a1026331");
    let answer = p.want_where("open or close", |f| ["open", "close"].contains(&f.name()))?;
    same!(answer.channel, 0, "channel of the answer");
    Ok(())
}

fn open_close(k: &mut Kit) -> Done {
    let mut p = k.hello()?;
    p.hex(&[known::OPEN, known::CLOSE].concat());
    p.want("open")?;
    p.want("close")?;
    p.gone()
}

fn close_with_error(k: &mut Kit) -> Done {
    let mut p = k.open()?;
    let error = perf("error")
        .with("condition", sym("amqp:internal-error"))
        .with("description", "bye");
    p.send(0, perf("close").with("error", error));
    p.want("close")?;
    p.gone()
}

fn small_frame_limit(k: &mut Kit) -> Done {
    let mut p = k.hello()?;
    p.send(
        0,
        perf("open")
            .with("container-id", "c1")
            .with("max-frame-size", 511u32),
    );
    let answer = p.want_where("open or close", |f| ["open", "close"].contains(&f.name()))?;
    if answer.name() == "open" {
        p.pump(200)?;
        ensure!(p.largest <= 512, "a frame of {} octets came", p.largest);
    }
    Ok(())
}
