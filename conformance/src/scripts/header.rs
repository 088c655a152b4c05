//! Protocol headers (transport 2.2, security 5.1 and 5.2).

use crate::kit::{Kit, Login};
use crate::script::{Done, Script};
use crate::wire::{HEADER_AMQP, HEADER_SASL, HEADER_TLS, hex};
use crate::{ensure, same};

const AREA: &str = "header";

/// Scripts of this area.
pub(super) const SCRIPTS: &[Script] = &[
    Script::new(
        AREA,
        "HE-01",
        &["2.2-c", "2.2-a", "2.8.19-a"],
        "the AMQP header is answered with itself",
        same_header,
    ),
    Script::new(
        AREA,
        "HE-02",
        &["2.2-d", "2.2-f", "2.2-g"],
        "an unsupported version is answered with a supported header, then closed",
        versions,
    ),
    Script::new(
        AREA,
        "HE-03",
        &["2.2-d", "5.1-b"],
        "an unknown protocol id is answered with a supported header, then closed",
        protocol_id,
    ),
    Script::new(
        AREA,
        "HE-04",
        &["5.2-b", "5.1-b"],
        "the TLS header is taken, or answered with a supported one, then closed",
        tls_header,
    ),
    Script::new(
        AREA,
        "HE-05",
        &["2.2-a"],
        "a header that comes octet by octet is understood",
        by_octet,
    ),
    Script::new(
        AREA,
        "FR-12",
        &["2.2-e"],
        "HTTP, TLS and noise on the port get a protocol header and a close",
        strangers,
    ),
];

fn same_header(k: &mut Kit) -> Done {
    k.hello()?.raw(&[]);
    Ok(())
}

/// Sends bytes that are no acceptable header; one valid header must come back, then the end.
fn answered_and_closed(k: &mut Kit, bytes: &[u8]) -> Done {
    let mut p = k.peer()?;
    p.raw(bytes);
    let header = p.header()?;
    let is_known = [HEADER_AMQP, HEADER_SASL, HEADER_TLS].contains(&header);
    ensure!(
        is_known,
        "answer to {bytes:02x?}: {header:02x?}, not a supported header"
    );
    ensure!(
        header[..] != *bytes,
        "the header that is not supported was sent back"
    );
    p.gone()
}

fn versions(k: &mut Kit) -> Done {
    for version in [
        "414d515000000901",
        "414d515000010100",
        "414d515000020000",
        "414d515000010001",
    ] {
        answered_and_closed(k, &hex(version))?;
    }
    Ok(())
}

fn protocol_id(k: &mut Kit) -> Done {
    answered_and_closed(k, &hex("414d515001010000"))?;
    answered_and_closed(k, &hex("414d515009010000"))
}

fn tls_header(k: &mut Kit) -> Done {
    let mut p = k.peer()?;
    p.raw(&HEADER_TLS);
    let header = p.header()?;
    if header == HEADER_TLS {
        p.cut();
        return Ok(());
    }
    let wanted = if *k.login() == Login::None {
        [HEADER_AMQP, HEADER_SASL]
    } else {
        [HEADER_SASL, HEADER_AMQP]
    };
    ensure!(
        wanted.contains(&header),
        "answer to the TLS header: {header:02x?}"
    );
    p.gone()
}

fn by_octet(k: &mut Kit) -> Done {
    let mut p = k.peer()?;
    let header = if *k.login() == Login::None {
        HEADER_AMQP
    } else {
        HEADER_SASL
    };
    for octet in header {
        p.raw(&[octet]);
        k.wait(5);
    }
    same!(
        p.header()?,
        header,
        "answer to a header sent octet by octet"
    );
    Ok(())
}

fn strangers(k: &mut Kit) -> Done {
    answered_and_closed(
        k,
        &hex("474554202f20485454502f312e310d0a486f73743a20780d0a0d0a"),
    )?;
    answered_and_closed(k, &hex("16030100c0010000bc0303"))?;
    answered_and_closed(k, &hex("68656c6c6f0d0a0d0a"))?;
    answered_and_closed(k, &[0xff; 4096])
}
