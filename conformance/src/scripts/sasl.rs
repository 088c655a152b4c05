//! The SASL layer (security 5.3): ANONYMOUS and PLAIN, order, failures.

use crate::kit::{Kit, Login, Peer, known};
use crate::script::{Done, Failure, Need, Script};
use crate::wire::{HEADER_AMQP, HEADER_SASL, Value, hex, perf, sym};
use crate::{ensure, same};

const AREA: &str = "sasl";

/// Scripts of this area.
pub(super) const SCRIPTS: &[Script] = &[
    Script::new(
        AREA,
        "SA-01",
        &["5.3.2-d", "5.3.3.6-b"],
        "a mechanism that was not offered ends with a failed outcome",
        not_offered,
    ),
    Script::new(
        AREA,
        "SA-02",
        &["5.3.3.6-a", "5.3.3.6-b", "5.3.3.5-a"],
        "a wrong password ends with an outcome, then the close",
        wrong_password,
    )
    .needing(&[Need::Login]),
    Script::new(
        AREA,
        "SA-03",
        &["5.3.3.2-a", "5.3.3.6-a", "5.3.2-f"],
        "PLAIN responses: good ones pass, odd ones fail",
        plain_forms,
    )
    .needing(&[Need::Login]),
    Script::new(
        AREA,
        "SA-04",
        &["5.3.2-a", "5.3.3.1-a", "5.3.1-a"],
        "mechanisms come first, in a small frame of type 1",
        mechanisms_first,
    ),
    Script::new(
        AREA,
        "SA-05",
        &["5.3.2-b", "5.3.2-c", "5.3.2-e", "5.3.3.5-a"],
        "ANONYMOUS leads to an ok and to the next header",
        anonymous,
    )
    .needing(&[Need::Anonymous]),
    Script::new(
        AREA,
        "SA-06",
        &["5.3.1-d", "5.3.1-e", "5.3.2-f", "5.1-a"],
        "frames out of order end the connection",
        out_of_order,
    ),
    Script::new(
        AREA,
        "SA-07",
        &["5.3.2-g", "2.4.2-c"],
        "the whole handshake in one write, and cut anywhere",
        pipelined,
    )
    .needing(&[Need::Anonymous]),
    Script::new(
        AREA,
        "SA-08",
        &["5.3.1-b", "5.3.1-c"],
        "the two free octets and an extended header are ignored",
        free_octets,
    )
    .needing(&[Need::Anonymous]),
    Script::new(
        AREA,
        "SA-09",
        &["5.3.1-a"],
        "a SASL frame above 512 octets is refused or taken, never a hang",
        large_frame,
    ),
    Script::new(
        AREA,
        "SA-10",
        &["5.3-a", "5.3.2-f"],
        "where SASL is wanted, the AMQP header alone does not get in",
        no_bypass,
    )
    .needing(&[Need::Login]),
    Script::new(
        AREA,
        "SA-11",
        &["5.3.3.2-b", "5.3.3.2-a"],
        "hostname and an absent response are taken",
        init_fields,
    )
    .needing(&[Need::Anonymous]),
];

/// A peer that has exchanged the SASL header and read the mechanisms.
fn start(k: &mut Kit) -> Done<(Peer, Vec<String>)> {
    let mut p = k.peer()?;
    p.raw(&HEADER_SASL);
    let header = p.header()?;
    if header != HEADER_SASL {
        return Err(Failure::Unsupported("no SASL layer".into()));
    }
    let mechanisms = p.want("sasl-mechanisms")?;
    let list = match mechanisms.field("sasl-server-mechanisms") {
        Value::Array(items) => items
            .iter()
            .filter_map(|v| v.words().map(String::from))
            .collect(),
        one => one.words().map(String::from).into_iter().collect(),
    };
    Ok((p, list))
}

/// The outcome is a failure, and the stream ends.
fn failed(p: &mut Peer, what: &str) -> Done {
    let outcome = p.want("sasl-outcome")?;
    let code = outcome.number("code");
    ensure!(
        code.is_some_and(|c| (1..=4).contains(&c)),
        "{what}: outcome code {code:?}"
    );
    p.gone()
}

/// The stream ends; if an outcome comes before, it is no ok.
fn dropped(p: &mut Peer, what: &str) -> Done {
    p.pump_noise(500);
    for frame in p.take("sasl-outcome") {
        ensure!(frame.number("code") != Some(0), "{what}: authenticated");
    }
    ensure!(p.count("open") == 0, "{what}: an open came");
    p.gone()
        .map_err(|_| crate::broke!("{what}: the stream was not closed"))
}

fn not_offered(k: &mut Kit) -> Done {
    for init in [
        "0000001602010000005341c00901a306582d4e4f5045",
        "0000001002010000005341c00301a300",
    ] {
        let (mut p, _) = start(k)?;
        p.raw(&hex(init));
        failed(&mut p, init)?;
    }
    let (mut p, offered) = start(k)?;
    if !offered.iter().any(|m| m == "PLAIN") {
        p.raw(&hex(
            "0000002302010000005341c01602a305504c41494ea00c006775657374006775657374",
        ));
        failed(&mut p, "PLAIN where it is not offered")?;
    }
    Ok(())
}

fn credentials(k: &Kit) -> (String, String) {
    match k.login() {
        Login::Plain(user, pass) => (user.clone(), pass.clone()),
        _ => (String::new(), String::new()),
    }
}

/// Tries PLAIN with this response; true when it was let in.
fn try_plain(k: &mut Kit, response: Vec<u8>) -> Done<bool> {
    let (mut p, _) = start(k)?;
    let init = perf("sasl-init")
        .with("mechanism", sym("PLAIN"))
        .with("initial-response", response);
    p.send_sasl(init);
    match p.want("sasl-outcome") {
        Ok(outcome) if outcome.number("code") == Some(0) => {
            p.cut();
            Ok(true)
        }
        Ok(_) => p.gone().map(|()| false),
        Err(_) if p.is_gone() => Err(crate::broke!("the stream ended without an outcome")),
        Err(e) => Err(e),
    }
}

fn wrong_password(k: &mut Kit) -> Done {
    let (user, pass) = credentials(k);
    for response in [
        format!("\0{user}\0{pass}x"),
        format!("\0{user}\0"),
        format!("\0no-such-user\0{pass}"),
    ] {
        ensure!(
            !try_plain(k, response.clone().into_bytes())?,
            "{response:?} was let in"
        );
    }
    Ok(())
}

fn plain_forms(k: &mut Kit) -> Done {
    let (user, pass) = credentials(k);
    ensure!(
        try_plain(k, format!("\0{user}\0{pass}").into_bytes())?,
        "empty authzid was refused"
    );
    try_plain(k, format!("{user}\0{user}\0{pass}").into_bytes())?;
    let bad = [
        format!("{user}\0{pass}").into_bytes(),
        b"a\0b\0c\0d".to_vec(),
        vec![],
        hex("007500fffe"),
    ];
    for response in bad {
        ensure!(!try_plain(k, response.clone())?, "{response:?} was let in");
    }
    let (mut p, _) = start(k)?;
    let init = perf("sasl-init")
        .with("mechanism", sym("PLAIN"))
        .with("initial-response", vec![b'a'; 70_000]);
    p.send_sasl(init);
    dropped(&mut p, "a response of 70,000 octets")
}

fn mechanisms_first(k: &mut Kit) -> Done {
    let (mut p, list) = start(k)?;
    ensure!(!list.is_empty(), "the list of mechanisms is empty");
    ensure!(p.largest <= 512, "a SASL frame of {} octets", p.largest);
    p.cut();
    Ok(())
}

fn anonymous(k: &mut Kit) -> Done {
    let (mut p, list) = start(k)?;
    ensure!(list.iter().any(|m| m == "ANONYMOUS"), "{list:?}");
    p.raw(&hex(
        "0000001c02010000005341c00f02a309414e4f4e594d4f5553a00161",
    ));
    same!(p.want("sasl-outcome")?.number("code"), Some(0), "outcome");
    p.raw(&HEADER_AMQP);
    same!(p.header()?, HEADER_AMQP, "header behind the outcome");
    p.hex(known::OPEN);
    p.want("open")?;
    p.close()
}

fn out_of_order(k: &mut Kit) -> Done {
    let open = hex(known::OPEN);
    let init = hex("0000001c02010000005341c00f02a309414e4f4e594d4f5553a00161");
    for (what, bytes) in [
        ("an empty SASL frame", hex("0000000802010000")),
        (
            "sasl-response first",
            hex("0000001102010000005343c00401a00178"),
        ),
        ("an AMQP frame in the SASL layer", open.clone()),
        (
            "sasl-mechanisms from the client",
            hex("0000001502010000005340c00801a305504c41494e"),
        ),
        (
            "an AMQP header before sasl-init",
            [HEADER_AMQP.to_vec(), open.clone()].concat(),
        ),
    ] {
        let (mut p, _) = start(k)?;
        p.raw(&bytes);
        dropped(&mut p, what)?;
    }
    let (mut p, offered) = start(k)?;
    if offered.iter().any(|m| m == "ANONYMOUS") {
        p.raw(&[init.clone(), init.clone()].concat());
        // The second one stands where a protocol header is due, and may be answered with one.
        p.pump_noise(300);
        ensure!(p.count("open") == 0, "sasl-init twice: an open came");
        p.forget();
        p.gone()
            .map_err(|_| crate::broke!("sasl-init twice: the stream was not closed"))?;
        let (mut p, _) = start(k)?;
        p.raw(&init);
        p.want("sasl-outcome")?;
        p.raw(&open);
        p.pump_noise(300);
        ensure!(
            p.count("open") == 0,
            "an open without a second header was answered"
        );
    }
    Ok(())
}

fn pipelined(k: &mut Kit) -> Done {
    let whole = hex(
        "414d5150030100000000001c02010000005341c00f02a309414e4f4e594d4f5553a00161414d5150000100000000001202000000005310c00501a10263310000001a02000000005311c00d044043700000080070000008000000002702000000005312c01a0aa10273314342404000532845005329c00501a1027131404043",
    );
    let step = if k.is_virtual() { 1 } else { 11 };
    for cut in std::iter::once(whole.len()).chain((1..whole.len()).step_by(step)) {
        let mut p = k.peer()?;
        let placed = p.place(whole.clone());
        let cut = cut.min(placed.len());
        p.raw(&placed[..cut]);
        if cut < placed.len() {
            k.wait(1);
            p.raw(&placed[cut..]);
        }
        same!(p.header()?, HEADER_SASL, "first header, cut at {cut}");
        p.want("sasl-mechanisms")?;
        same!(
            p.want("sasl-outcome")?.number("code"),
            Some(0),
            "outcome, cut at {cut}"
        );
        same!(p.header()?, HEADER_AMQP, "second header, cut at {cut}");
        for name in ["open", "begin", "attach"] {
            p.want(name)?;
        }
        p.close()?;
    }
    Ok(())
}

fn free_octets(k: &mut Kit) -> Done {
    for init in [
        "0000001c02017fff005341c00f02a309414e4f4e594d4f5553a00161",
        "0000002004010000deadbeefdeadbeef",
    ] {
        let (mut p, _) = start(k)?;
        let mut bytes = hex(init);
        if init.starts_with("00000020") {
            bytes.extend(hex("005341c00f02a309414e4f4e594d4f5553a00161"));
            let len = bytes.len() as u32;
            bytes[..4].copy_from_slice(&len.to_be_bytes());
        }
        p.raw(&bytes);
        same!(p.want("sasl-outcome")?.number("code"), Some(0), "outcome");
        p.cut();
    }
    Ok(())
}

fn large_frame(k: &mut Kit) -> Done {
    let (mut p, _) = start(k)?;
    p.raw(&hex("7fffffff02010000"));
    dropped(&mut p, "a SASL frame of 2 GiB")
}

fn no_bypass(k: &mut Kit) -> Done {
    let mut p = k.peer()?;
    p.raw(&HEADER_AMQP);
    let header = p.header()?;
    if header == HEADER_AMQP {
        return crate::kit::unsupported("lets peers in without SASL");
    }
    same!(
        header,
        HEADER_SASL,
        "answer to an AMQP header where SASL is wanted"
    );
    p.gone()
}

fn init_fields(k: &mut Kit) -> Done {
    let (mut p, _) = start(k)?;
    p.send_sasl(
        perf("sasl-init")
            .with("mechanism", sym("ANONYMOUS"))
            .with("hostname", "some.host"),
    );
    let outcome = p.want_where("outcome or challenge", |f| {
        ["sasl-outcome", "sasl-challenge"].contains(&f.name())
    })?;
    if outcome.name() == "sasl-challenge" {
        p.send_sasl(perf("sasl-response").with("response", Vec::from(*b"a")));
        same!(p.want("sasl-outcome")?.number("code"), Some(0), "outcome");
    } else {
        same!(outcome.number("code"), Some(0), "outcome");
    }
    p.cut();
    Ok(())
}
