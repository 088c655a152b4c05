//! Idle time-outs both ways (transport 2.4.5). Time is the bed's, so the long ones need a bed
//! whose time is free.

use crate::kit::{Kit, unsupported};
use crate::script::{Done, Need, Script};
use crate::wire::perf;
use crate::{ensure, same};

const AREA: &str = "heartbeat";
const EMPTY: &str = "0000000802000000";

/// Scripts of this area.
pub(super) const SCRIPTS: &[Script] = &[
    Script::new(
        AREA,
        "HB-01",
        &["2.4.5-b", "2.4.1-e"],
        "the peer's idle time bounds the broker's silence, nothing else",
        own_and_peer,
    ),
    Script::new(
        AREA,
        "HB-02",
        &["2.4.5-a", "2.4.5-c", "2.4.5-g"],
        "a peer that keeps the announced time lives, a silent one is closed",
        silence,
    ),
    Script::new(
        AREA,
        "HB-03",
        &["2.4.5-d", "2.4.5-f", "2.7.1-h"],
        "idle times of zero, null, one and the largest",
        odd_values,
    ),
    Script::new(
        AREA,
        "HB-04",
        &["2.4.5-b", "2.4.5-d"],
        "an idle time of half a second is kept or refused",
        half_second,
    ),
    Script::new(
        AREA,
        "HB-05",
        &["2.4.5-f", "2.7.1-h"],
        "a peer without an idle time gets no needless frames",
        no_heartbeats,
    )
    .needing(&[Need::VirtualTime]),
    Script::new(
        AREA,
        "OP-02",
        &["2.4.1-a", "2.2-b"],
        "streams that never say hello are closed",
        handshake_deadline,
    )
    .needing(&[Need::VirtualTime]),
];

fn own_and_peer(k: &mut Kit) -> Done {
    let mut p = k.hello()?;
    p.hex("0000001a02000000005310c00d05a102633140404070000007d0");
    let open = p.want("open")?;
    let own = open.number("idle-time-out").filter(|ms| *ms > 0);
    let total = if k.is_virtual() { 60_000 } else { 7_000 };
    let mut last = p.now_ms();
    let end = last + total;
    let mut sent = last;
    // As seldom as the broker's own announcement allows, well above the two seconds asked of it.
    let pace = own.map_or(20_000, |ms| (ms * 9 / 10).min(20_000));
    while p.now_ms() < end {
        p.pump_for(200)?;
        let now = p.now_ms();
        if p.take_activity() {
            last = now;
        }
        ensure!(
            !p.is_gone(),
            "closed after {} ms of keeping to the broker's own {own:?} ms",
            now - (end - total)
        );
        ensure!(
            now - last <= if k.is_virtual() { 2_200 } else { 4_000 },
            "silent for {} ms, 2000 were asked for",
            now - last
        );
        if now - sent >= pace {
            p.hex(EMPTY);
            sent = now;
        }
    }
    p.close()
}

fn silence(k: &mut Kit) -> Done {
    let mut p = k.open()?;
    let announced = p
        .opened
        .as_ref()
        .and_then(|o| o.number("idle-time-out"))
        .unwrap_or(0);
    if announced == 0 {
        return unsupported("announces no idle-time-out");
    }
    if !k.is_virtual() && announced > 2_000 {
        return unsupported("its idle-time-out is too long to wait for");
    }
    for _ in 0..20 {
        p.pump_for(announced * 95 / 100)?;
        ensure!(
            !p.is_gone() && p.count("close") == 0,
            "closed though a frame came every {announced} ms"
        );
        p.hex(EMPTY);
    }
    p.pump_for(announced * 4 + 5_000)?;
    let close = p.take("close");
    ensure!(
        close.len() == 1,
        "no close after a silence of four times {announced} ms"
    );
    let allowed = [
        "amqp:resource-limit-exceeded",
        "amqp:connection:forced",
        "amqp:local-idle-timeout",
    ];
    ensure!(
        allowed.contains(&close[0].condition().as_str()),
        "{:?}",
        close[0]
    );
    ensure!(p.is_gone(), "the stream was not closed");
    Ok(())
}

fn odd_values(k: &mut Kit) -> Done {
    for open in [
        "0000001602000000005310c00905a102633140404043",
        "0000001a02000000005310c00d05a102633140404070ffffffff",
    ] {
        let mut p = k.hello()?;
        p.hex(open);
        p.want("open")?;
        p.pump_for(1_000)?;
        ensure!(
            p.count("close") == 0,
            "closed by an idle time that asks for nothing"
        );
        p.close()?;
    }
    let mut p = k.hello()?;
    p.hex("0000001702000000005310c00a05a10263314040405201");
    p.pump_for(500)?;
    if let Some(close) = p.take("close").first() {
        ensure!(!close.condition().is_empty(), "refused without a reason");
        p.hex(crate::kit::known::CLOSE);
    }
    let empties = p.count("empty");
    ensure!(empties <= 600, "{empties} empty frames in half a second");
    Ok(())
}

fn half_second(k: &mut Kit) -> Done {
    let mut p = k.hello()?;
    p.send(
        0,
        perf("open")
            .with("container-id", "c1")
            .with("idle-time-out", 500u32),
    );
    p.want("open")?;
    let own = p.now_ms();
    let mut last = own;
    let mut sent = own;
    while p.now_ms() < own + 3_000 {
        p.pump_for(50)?;
        if p.take_activity() {
            last = p.now_ms();
        }
        if p.count("close") > 0 {
            return Ok(());
        }
        ensure!(!p.is_gone(), "dropped without a close");
        let silent = p.now_ms() - last;
        ensure!(
            silent <= if k.is_virtual() { 550 } else { 1_500 },
            "silent for {silent} ms, 500 were asked for"
        );
        if p.now_ms() - sent > 200 {
            p.hex(EMPTY);
            sent = p.now_ms();
        }
    }
    p.close()
}

fn no_heartbeats(k: &mut Kit) -> Done {
    let mut p = k.open()?;
    let announced = p
        .opened
        .as_ref()
        .and_then(|o| o.number("idle-time-out"))
        .unwrap_or(30_000);
    for _ in 0..10 {
        p.pump_for(announced / 2)?;
        p.hex(EMPTY);
    }
    same!(p.count("empty"), 0, "empty frames that nobody asked for");
    p.close()
}

fn handshake_deadline(k: &mut Kit) -> Done {
    for bytes in [
        &b""[..],
        b"AMQP",
        b"AMQP\x03\x01\x00\x00",
        b"AMQP\x00\x01\x00\x00",
    ] {
        let mut p = k.peer()?;
        p.raw(bytes);
        let mut waited = 0;
        while !p.is_ended() && waited < 60_000 {
            p.drop_input(1_000);
            waited += 1_000;
        }
        ensure!(
            p.is_ended(),
            "a stream that sent {bytes:02x?} is open after a minute"
        );
    }
    // One that has opened lives by the idle time alone.
    let mut p = k.open()?;
    let announced = p
        .opened
        .as_ref()
        .and_then(|o| o.number("idle-time-out"))
        .unwrap_or(0);
    let pace = if announced == 0 {
        30_000
    } else {
        announced / 2
    };
    for _ in 0..60_000 / pace + 2 {
        p.pump_for(pace)?;
        p.hex(EMPTY);
    }
    p.close()
}
