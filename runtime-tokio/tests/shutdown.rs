//! Going down, over loopback.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests drive real sockets, threads and clocks"
)]

mod bed;

use std::net::TcpStream;
use std::sync::Arc;

use bed::{Bed, TestStore};
use qq_core::store::Op;
use qq_runtime_tokio::RuntimeError;

#[test]
fn op_03_a_shutdown_tells_every_peer_and_closes_the_listener() {
    for is_instant in [true, false] {
        let bed = Bed::start_with(TestStore::new(is_instant, false), |config| {
            config.io_threads = 2
        });
        let address = bed.address;
        let mut clients: Vec<_> = (0..20).map(|_| bed.connect()).collect();
        assert!(clients.iter_mut().all(bed::Client::is_served));
        let reader = std::thread::spawn(move || {
            clients
                .iter_mut()
                .map(|client| (client.line(), client.rest()))
                .collect::<Vec<_>>()
        });
        bed.stop().expect("drained");
        for (line, rest) in reader.join().expect("read") {
            assert!(line.starts_with("down: "), "{line}");
            assert_eq!(rest, b"");
        }
        assert!(
            TcpStream::connect(address).is_err(),
            "nobody listens any more"
        );
    }
}

#[test]
fn a_peer_that_ignores_the_shutdown_does_not_hold_it_up() {
    let bed = Bed::start(|_| {});
    let mut deaf = bed.connect();
    deaf.write(b"big 100000000\n");
    let mut other = bed.connect();
    assert!(other.is_served());
    // `deaf` never reads; without a bound this would not return.
    bed.stop().expect("drained");
    drop(deaf);
}

#[test]
fn op_03_what_is_settled_within_the_grace_is_settled() {
    let store = TestStore::new(false, false);
    let kept = Arc::clone(&store.kept);
    let bed = Bed::start_with(store, |_| {});
    let mut client = bed.connect();
    client.write(b"put\ntake\n");
    let mut words = [client.line(), client.line()];
    words.sort();
    assert_eq!(words, ["confirmed", "got"]);
    bed.shutdown.trigger();
    // The node is draining by now or will be; it waits for this.
    std::thread::sleep(std::time::Duration::from_millis(100));
    client.write(b"done\n");
    assert!(client.line().starts_with("down: "));
    bed.wait().expect("drained");
    assert!(
        kept.lock()
            .expect("no panic")
            .iter()
            .any(|op| matches!(op, Op::Removed { .. }))
    );
}

#[test]
fn a_second_trigger_ends_the_grace() {
    let bed = Bed::start(|config| config.drain_grace = std::time::Duration::from_secs(1_000));
    let mut client = bed.connect();
    client.write(b"put\ntake\n");
    let mut words = [client.line(), client.line()];
    words.sort();
    assert_eq!(words, ["confirmed", "got"]);
    bed.shutdown.trigger();
    bed.shutdown.trigger();
    assert!(client.line().starts_with("down: "));
    bed.wait().expect("drained");
}

#[test]
fn a_store_that_fails_ends_the_run_and_clients_are_told() {
    for is_instant in [true, false] {
        let bed = Bed::start_with(TestStore::new(is_instant, true), |_| {});
        let mut client = bed.connect();
        assert!(client.is_served());
        client.write(b"put\n");
        let told = client.line();
        assert!(
            told.starts_with("down: ") && told.contains("disk on fire"),
            "{told}"
        );
        match bed.wait() {
            Err(RuntimeError::Failed(text)) => assert!(text.contains("disk on fire"), "{text}"),
            other => panic!("{other:?}"),
        }
    }
}
